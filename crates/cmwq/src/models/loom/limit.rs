//! The limit that pods share: a slot that is given back is taken by somebody or handed to who waits.

use cmwq_core::{NodeSlots, PoolId, PwqId, PwqRef};
use loom::sync::Arc;
use loom::thread;

use super::{check, check_three};
use crate::limit::NodeLimit;

const fn pwq(n: u32) -> PwqRef {
    PwqRef { pool: PoolId(n), pwq: PwqId(0) }
}

/// A limit whose only slot is taken.
fn exhausted() -> Arc<NodeLimit> {
    let limit = NodeLimit::new(1);
    assert!(limit.try_get(pwq(0)));
    Arc::new(limit)
}

fn taker(limit: &Arc<NodeLimit>, n: u32) -> thread::JoinHandle<bool> {
    let limit = Arc::clone(limit);
    thread::spawn(move || limit.try_get(pwq(n)))
}

#[test]
fn a_slot_is_taken_or_handed_over() {
    check(|| {
        let limit = exhausted();
        let taker = taker(&limit, 1);
        let granted = limit.put();
        let took = taker.join().unwrap();
        assert!(took ^ (granted == Some(pwq(1))), "taken: {took}, handed over: {granted:?}");
    });
}

/// Two want the one slot: one has it, the other gets it when it comes back.
#[test]
fn two_takers_have_it_one_after_the_other() {
    check_three(|| {
        let limit = exhausted();
        let takers = [1, 2].map(|n| taker(&limit, n));
        let mut owners: Vec<_> = limit.put().into_iter().collect();
        for (n, taker) in (1..).zip(takers) {
            if taker.join().unwrap() {
                owners.push(pwq(n));
            }
        }
        assert_eq!(owners.len(), 1, "one slot, owned by {owners:?}");
        owners.extend(limit.put());
        owners.sort_by_key(|owner| owner.pool.0);
        assert_eq!(owners, [pwq(1), pwq(2)]);
        assert_eq!(limit.put(), None);
    });
}

/// One who waited goes away, while the slot comes back: then he has been handed it, or it is free.
#[test]
fn who_leaves_the_line_leaves_no_slot_behind() {
    check(|| {
        let limit = exhausted();
        assert!(!limit.try_get(pwq(1)));
        let leaver = {
            let limit = Arc::clone(&limit);
            thread::spawn(move || limit.leave(pwq(1)))
        };
        let granted = limit.put();
        let left = leaver.join().unwrap();
        assert_eq!(left, granted.is_none());
        if left {
            assert!(limit.try_get(pwq(2)), "the slot is lost");
        }
    });
}
