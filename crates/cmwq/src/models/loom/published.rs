//! Who finds a published thing finds the whole of it.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{News, check};
use crate::engine::tools::table::Table;
use crate::os::published::{Lasting, Published};
use cmwq_core::PoolId;

fn news() -> Box<News> {
    let news = Box::new(News::new());
    news.write();
    news
}

#[test]
fn a_reader_sees_all_or_nothing() {
    check(|| {
        let slot = Arc::new(Published::nothing());
        let publisher = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                slot.publish(news());
            })
        };
        if let Some(news) = slot.get() {
            assert_eq!(news.read(), 1);
        }
        publisher.join().unwrap();
        assert_eq!(slot.get().map(News::read), Some(1));
    });
}

/// The same of what is replaced: a reader sees the whole of the one or of the other.
#[test]
fn what_is_replaced_is_found_whole_before_and_after() {
    check(|| {
        let lasting: &'static Lasting<News> = Box::leak(Box::new(Lasting::nothing()));
        let publisher = thread::spawn(move || {
            for _ in 0..2 {
                lasting.set(Box::leak(news()));
            }
        });
        if let Some(news) = lasting.get() {
            assert_eq!(news.read(), 1);
        }
        publisher.join().unwrap();
        assert_eq!(lasting.get().map(News::read), Some(1));
    });
}

/// Two who find nothing make the thing under a lock.
#[test]
fn two_publish_once() {
    struct Shared {
        slot: Published<News>,
        lock: Mutex<()>,
    }

    fn get(s: &Shared) {
        let found = s.slot.get().unwrap_or_else(|| {
            let _guard = s.lock.lock().unwrap();
            s.slot.get().unwrap_or_else(|| s.slot.publish(news()))
        });
        assert_eq!(found.read(), 1);
    }

    check(|| {
        let s = Arc::new(Shared { slot: Published::nothing(), lock: Mutex::new(()) });
        let other = {
            let s = Arc::clone(&s);
            thread::spawn(move || get(&s))
        };
        get(&s);
        other.join().unwrap();
    });
}

/// The first entry comes with its chunk, the second into it, the third with another chunk.
#[test]
fn entries_of_a_growing_table_are_found_whole() {
    check(|| {
        let table = Arc::new(Table::new(0));
        let grower = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                for _ in 0..3 {
                    table.push(|_| news());
                }
            })
        };
        for id in [2, 1] {
            if let Some(news) = table.get(PoolId(id)) {
                assert_eq!(news.read(), 1);
            }
        }
        grower.join().unwrap();
        assert_eq!(table.iter().map(News::read).sum::<usize>(), 3);
    });
}
