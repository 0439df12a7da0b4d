//! The limit that pods share: a slot that is given back is taken by somebody or handed to who
//! waits.

use core::ops::DerefMut;
use std::vec::Vec;

use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::model_of_three;
use crate::limit::{Count, Line};
use crate::{NodeMemory, NodeSlots, PoolId, PwqId, PwqRef};

#[derive(Debug)]
struct Memory {
    counts: [AtomicU64; 3],
    line: Mutex<Line>,
}

impl NodeMemory for Memory {
    fn count(&self, which: Count) -> &AtomicU64 {
        &self.counts[which as usize]
    }

    fn line(&self) -> impl DerefMut<Target = Line> {
        self.line.lock().unwrap()
    }
}

type NodeLimit = crate::NodeLimit<Memory>;

const fn pwq(n: u32) -> PwqRef {
    PwqRef { pool: PoolId(n), pwq: PwqId(0) }
}

/// A limit whose only slot is taken.
fn exhausted() -> Arc<NodeLimit> {
    let counts = core::array::from_fn(|_| AtomicU64::new(0));
    let limit = NodeLimit::new(1, Memory { counts, line: Mutex::new(Line::new()) });
    assert!(limit.try_get(pwq(0)));
    Arc::new(limit)
}

fn taker(limit: &Arc<NodeLimit>, n: u32) -> thread::JoinHandle<bool> {
    let limit = Arc::clone(limit);
    thread::spawn(move || limit.try_get(pwq(n)))
}

#[test]
fn a_slot_is_taken_or_handed_over() {
    loom::model(|| {
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
    model_of_three(|| {
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
    loom::model(|| {
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

/// Everything that a changed limit has for those who wait.
fn hand_over_all(limit: &NodeLimit) -> Vec<PwqRef> {
    std::iter::from_fn(|| limit.hand_over()).collect()
}

/// The limit is raised while somebody asks for a slot: he takes the new one or is handed it.
#[test]
fn a_new_slot_is_taken_or_handed_over() {
    loom::model(|| {
        let limit = exhausted();
        let taker = taker(&limit, 1);
        limit.set_max(2);
        let granted = hand_over_all(&limit);
        let took = taker.join().unwrap();
        assert!(took ^ (granted == [pwq(1)]), "taken: {took}, handed over: {granted:?}");
    });
}

/// The limit is raised while a slot comes back: who waits has one of the two, and the other is
/// free.
#[test]
fn a_new_slot_and_one_that_comes_back() {
    loom::model(|| {
        let limit = exhausted();
        assert!(!limit.try_get(pwq(1)));
        let giver = {
            let limit = Arc::clone(&limit);
            thread::spawn(move || limit.put())
        };
        limit.set_max(2);
        let mut granted = hand_over_all(&limit);
        granted.extend(giver.join().unwrap());
        assert_eq!(granted, [pwq(1)]);
        assert!(limit.try_get(pwq(2)), "the other slot is lost");
        assert!(!limit.try_get(pwq(3)), "a slot too many");
    });
}

/// Nothing is admitted for a time, as in a frost, while a slot comes back and another one is
/// wanted: afterwards whoever waited has it.
#[test]
fn a_slot_survives_a_frost() {
    model_of_three(|| {
        let limit = exhausted();
        let taker = taker(&limit, 1);
        let giver = {
            let limit = Arc::clone(&limit);
            thread::spawn(move || limit.put())
        };
        limit.set_max(0);
        limit.set_max(1);
        let mut granted = hand_over_all(&limit);
        granted.extend(giver.join().unwrap());
        let took = taker.join().unwrap();
        assert!(took ^ (granted == [pwq(1)]), "taken: {took}, handed over: {granted:?}");
    });
}
