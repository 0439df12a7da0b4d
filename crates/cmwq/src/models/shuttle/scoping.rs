//! Scopes: nothing that borrows is left when one ends.

use super::{Count, Pods, check};

/// Two items that borrow, one of which is joined.
#[test]
fn a_scope_ends_after_its_items() {
    check(Pods::One, |world| {
        let wq = world.managed();
        let count = Count::default();
        let mut own = 0;
        wq.scope(|s| {
            let joined = s.queue(|| count.up());
            drop(s.queue(|| {
                own = 1;
                count.up()
            }));
            assert!(joined.join().unwrap() > 0);
        });
        assert_eq!((count.get(), own), (2, 1));
    });
}

/// An item opens a scope on its own queue and waits in it, on a CPU that has one worker.
#[test]
fn an_item_opens_a_scope_on_its_queue() {
    check(Pods::Two, |world| {
        let wq = world.managed();
        let inner = wq.clone();
        let sum = wq.queue_on(0, move || {
            let (mut a, mut b) = (0, 0);
            inner.scope(|s| {
                drop(s.queue(|| a = 1));
                drop(s.queue(|| b = 2));
            });
            a + b
        });
        assert_eq!(sum.join().unwrap(), 3);
    });
}
