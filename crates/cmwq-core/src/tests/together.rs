//! Which items are queued together when their timers expire.

use std::vec::Vec;

use crate::delayed::{Destination, Hold, going_together, holds};
use crate::{PoolId, WorkWord};

#[test]
fn what_follows_each_other_to_the_same_queue_and_cpu_goes_together() {
    let to = |queue, cpu| Destination { queue, cpu, is_held: true };
    let unheld = Destination { is_held: false, ..to('a', None) };
    let expired = [
        to('a', None),
        to('a', None),
        to('a', Some(0)),
        to('b', Some(0)),
        to('b', Some(0)),
        to('a', None),
        unheld,
        unheld,
    ];
    let runs: Vec<_> = going_together(&expired, |&it| it).map(<[_]>::len).collect();
    assert_eq!(runs, [2, 1, 2, 1, 2], "in their order");
}

#[test]
fn those_that_another_pool_may_still_run_are_queued_one_after_the_other() {
    let last = |pool| WorkWord::off_queue(PoolId(pool), false).with_pending(true);
    let words = [WorkWord::INIT, last(1), last(2), last(3), last(1)];
    let of = |is_ordered| -> Vec<_> {
        let holds = holds(&words, PoolId(1), is_ordered, |&word| word);
        holds.map(|(hold, run)| (hold, run.len())).collect()
    };
    assert_eq!(of(false), [(Hold::One, 2), (Hold::Each, 2), (Hold::One, 1)]);
    // It runs one at a time, wherever that is.
    assert_eq!(of(true), [(Hold::One, 5)]);
}
