//! The way around the pool's lock.

use core::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use super::{Event, Owned, model_of_three, nothing};
use crate::{Inbox, PoolId, PwqId, WorkItem};

struct Shared {
    inbox: Inbox,
    items: [WorkItem; 2],
    event: Event,
    owned: Owned,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        inbox: Inbox::new(),
        items: [(); 2].map(|()| WorkItem::new(nothing)),
        event: Event::new(),
        owned: Owned::new(),
    })
}

/// Claims and pushes item `n`. Whether that is enough.
fn push(s: &Shared, n: usize) -> bool {
    let item = &s.items[n];
    assert!(item.claim_for(item.word(), PoolId(0)));
    // SAFETY: owned; the item lives as long as the model.
    unsafe { s.inbox.push(NonNull::from(item), PwqId(n as u32)) }
}

/// Numbers of the items in the inbox.
fn take(s: &Shared) -> std::vec::Vec<u32> {
    s.inbox.take().map(|(pwq, _)| pwq.0).collect()
}

/// Either the pusher is told to take the lock, or the holder that ends the saturation finds the
/// item.
#[test]
fn no_item_is_left_in_the_inbox() {
    loom::model(|| {
        let s = shared();
        s.inbox.saturate();
        let pusher = {
            let s = Arc::clone(&s);
            thread::spawn(move || push(&s, 0))
        };
        s.inbox.desaturate();
        let found = !s.inbox.is_empty();
        let was_enough = pusher.join().unwrap();
        assert!(found || !was_enough, "nobody comes for the item");
        assert_eq!(take(&s), [0]);
    });
}

/// The holder sees what the pusher did before, the link included.
#[test]
fn who_takes_an_item_sees_what_its_pusher_did() {
    loom::model(|| {
        let s = shared();
        s.inbox.saturate();
        let pusher = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.event.set();
                s.owned.touch();
                push(&s, 0)
            })
        };
        let taken = take(&s);
        if !taken.is_empty() {
            assert!(s.event.is_set());
            s.owned.touch();
        }
        pusher.join().unwrap();
        assert_eq!(taken.len() + take(&s).len(), 1);
    });
}

/// So does who only looks, and it stays.
#[test]
fn who_looks_at_an_item_sees_what_its_pusher_did() {
    loom::model(|| {
        let s = shared();
        s.inbox.saturate();
        let looker = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                if s.inbox.newest_first().count() > 0 {
                    assert!(s.event.is_set());
                    s.owned.touch();
                }
            })
        };
        s.event.set();
        s.owned.touch();
        assert!(push(&s, 0));
        looker.join().unwrap();
        assert_eq!(take(&s), [0]);
    });
}

/// Two pushers and a holder: each item arrives once.
#[test]
fn two_pushers_do_not_lose_each_others_items() {
    model_of_three(|| {
        let s = shared();
        let pushers = [0, 1].map(|n| {
            let s = Arc::clone(&s);
            thread::spawn(move || push(&s, n))
        });
        let mut taken = take(&s);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        taken.extend(take(&s));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1]);
    });
}

/// Items of one pusher arrive in order.
#[test]
fn one_pushers_items_come_oldest_first() {
    loom::model(|| {
        let s = shared();
        let pusher = {
            let s = Arc::clone(&s);
            thread::spawn(move || (push(&s, 0), push(&s, 1)))
        };
        let mut taken = take(&s);
        pusher.join().unwrap();
        taken.extend(take(&s));
        assert_eq!(taken, [0, 1]);
    });
}
