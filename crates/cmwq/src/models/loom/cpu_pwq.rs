//! A queue's way into a pool is replaced while somebody takes it.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{News, check};
use crate::engine::wq::cpu_pwq::{Slot, Store};

fn news() -> News {
    let news = News::new();
    news.write();
    news
}

/// Who reads the slot sees the whole of what it leads to, before and after.
#[test]
fn whoever_takes_the_way_finds_it_whole() {
    check(|| {
        let slot = Arc::new(Slot::empty());
        let store = Arc::new(Mutex::new(Store::new()));
        let changer = {
            let (slot, store) = (Arc::clone(&slot), Arc::clone(&store));
            thread::spawn(move || {
                for _ in 0..2 {
                    let way = store.lock().unwrap().keep(news());
                    // SAFETY: the store is dropped after the last use of the slot, below.
                    unsafe { slot.set(way) };
                }
            })
        };
        if let Some(news) = slot.get() {
            assert_eq!(news.read(), 1);
        }
        changer.join().unwrap();
        assert_eq!(slot.get().map(News::read), Some(1));
        drop(store);
    });
}

/// The new way is there before the old one is closed under its lock: who finds it closed finds the
/// new one, and need not try a third time.
#[test]
fn whoever_is_refused_finds_another_way() {
    struct Way {
        is_closed: Mutex<bool>,
    }

    check(|| {
        let slot = Arc::new(Slot::empty());
        let mut store = Store::new();
        let [old, new] = [(); 2].map(|()| store.keep(Way { is_closed: Mutex::new(false) }));
        // SAFETY: the store lives until the end of this execution.
        unsafe { slot.set(old) };
        let ways = std::sync::Arc::new(store);
        let changer = {
            let (slot, ways) = (Arc::clone(&slot), std::sync::Arc::clone(&ways));
            thread::spawn(move || {
                // SAFETY: kept by `ways`.
                unsafe { slot.set(new) };
                // SAFETY: as above.
                *unsafe { old.as_ref() }.is_closed.lock().unwrap() = true;
                drop(ways);
            })
        };
        let first = slot.get().expect("there is always a way");
        if *first.is_closed.lock().unwrap() {
            let second = slot.get().expect("there is always a way");
            assert!(!*second.is_closed.lock().unwrap(), "the old way again");
        }
        changer.join().unwrap();
        drop(ways);
    });
}
