//! Who copies a record gets the whole of one state of it, or nothing.

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::os::sync::{AtomicU64, Ordering};
use crate::record::mapping::seqlock::{copy, end, write};

struct Record {
    seq: AtomicU64,
    words: [AtomicU64; 2],
}

impl Record {
    fn new() -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self { seq: zero(), words: [zero(), zero()] })
    }

    fn set(&self, value: u64) {
        write(&self.seq, || {
            for word in &self.words {
                word.store(value, Ordering::Relaxed);
            }
        });
    }

    fn get(&self) -> Option<[u64; 2]> {
        let mut words = [0; 2];
        copy(&self.seq, &self.words, &mut words).then_some(words)
    }
}

#[test]
fn a_copy_is_whole() {
    check(|| {
        let record = Record::new();
        let writer = {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                record.set(1);
                record.set(2);
            })
        };
        if let Some([first, second]) = record.get() {
            assert_eq!(first, second);
        }
        writer.join().unwrap();
        assert_eq!(record.get(), Some([2, 2]));
    });
}

/// A count that has become even brings the words with it. The change began before, so that the
/// fence of its beginning brings nothing.
#[test]
fn a_finished_change_is_seen() {
    check(|| {
        let record = Record::new();
        record.seq.store(1, Ordering::Relaxed);
        let writer = {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                for word in &record.words {
                    word.store(1, Ordering::Relaxed);
                }
                end(&record.seq, 0);
            })
        };
        if let Some(words) = record.get() {
            assert_eq!(words, [1, 1]);
        }
        writer.join().unwrap();
        assert_eq!(record.get(), Some([1, 1]));
    });
}
