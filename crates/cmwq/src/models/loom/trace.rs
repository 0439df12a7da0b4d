//! A ring of trace events: what is read is what was written, whole, in order, and each once.
//!
//! The places of the ring are cells, which loom wants nobody to write while another reads: in
//! shared memory they are atomics, so that only sense is at stake.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::os::sync::AtomicU64;
use crate::record::trace::WORDS;
use crate::record::trace::ring::{Memory, Reader, Writer};

const CAPACITY: u64 = 2;
/// More than fit, so that places are used again.
const EVENTS: u64 = 3;

struct Ring {
    head: AtomicU64,
    tail: AtomicU64,
    places: [UnsafeCell<[u64; WORDS]>; CAPACITY as usize],
}

// SAFETY: whether a place is used by one at a time is what the model is about.
unsafe impl Sync for Ring {}
// SAFETY: as above.
unsafe impl Send for Ring {}

impl Memory for Arc<Ring> {
    fn head(&self) -> &AtomicU64 {
        &self.head
    }

    fn tail(&self) -> &AtomicU64 {
        &self.tail
    }

    fn capacity(&self) -> u64 {
        CAPACITY
    }

    fn write(&self, at: u64, words: &[u64; WORDS]) {
        // SAFETY: loom checks what the protocol claims, that nobody else uses it now.
        self.places[(at % CAPACITY) as usize].with_mut(|place| unsafe { *place = *words });
    }

    fn read(&self, at: u64) -> [u64; WORDS] {
        // SAFETY: as above.
        self.places[(at % CAPACITY) as usize].with(|place| unsafe { *place })
    }
}

fn ring(tail: u64) -> Arc<Ring> {
    Arc::new(Ring {
        head: AtomicU64::new(0),
        tail: AtomicU64::new(tail),
        places: [(); CAPACITY as usize].map(|()| UnsafeCell::new([0; WORDS])),
    })
}

#[test]
fn what_is_read_was_written() {
    check(|| {
        let ring = ring(0);
        let mut writer = Writer::new(Arc::clone(&ring));
        let mut reader = Reader::new(ring);
        let writing = thread::spawn(move || {
            let mut written = Vec::new();
            for number in 1..=EVENTS {
                if writer.has_room(1) {
                    writer.push(&[number; WORDS]);
                    written.push(number);
                }
            }
            written
        });
        let mut read = Vec::new();
        let mut take = |words: &[u64; WORDS]| {
            assert!(words.iter().all(|word| *word == words[0]), "torn: {words:?}");
            read.push(words[0]);
        };
        reader.read_some(u64::MAX, &mut take);
        let written = writing.join().unwrap();
        reader.read_some(u64::MAX, &mut take);
        // Two fit in any case; what finds no room is left out, and nothing else is.
        assert!(written.starts_with(&[1, 2]));
        assert_eq!(read, written);
    });
}

/// Another process may have written anything: then the ring is full, or has room, and nothing else
/// happens.
#[test]
fn a_senseless_tail_is_a_full_ring() {
    check(|| {
        for tail in [u64::MAX, 1, 1 << 63] {
            let mut writer = Writer::new(ring(tail));
            let taken = (0..10)
                .filter(|_| {
                    let has_room = writer.has_room(1);
                    if has_room {
                        writer.push(&[7; WORDS]);
                    }
                    has_room
                })
                .count();
            assert!(taken as u64 <= CAPACITY + 1, "{tail}: {taken}");
        }
    });
}
