//! Items that wait for each other in a circle.

use std::vec::Vec;

use crate::watchdog::{ItemWait, WaitFor, circles};
use crate::{Colors, WqKey};

const fn wait(wq: u32, item: usize, what: WaitFor<usize>) -> ItemWait<usize> {
    ItemWait { wq: WqKey(wq), item, color: Some(0), what }
}

const fn queue(wq: u32) -> WaitFor<usize> {
    WaitFor::Queue(WqKey(wq), Colors::ALL)
}

#[test]
fn two_queues_that_flush_each_other_are_a_circle() {
    let waits = [wait(1, 10, queue(2)), wait(2, 20, queue(1))];
    assert_eq!(circles(&waits), [[0, 1]]);
}

#[test]
fn a_chain_is_no_circle() {
    let waits = [wait(1, 10, queue(2)), wait(2, 20, WaitFor::Item(30)), wait(3, 30, queue(4))];
    assert_eq!(circles(&waits), [[0; 0]; 0]);
}

#[test]
fn a_circle_of_three_is_told_in_its_order_and_once() {
    let waits = [
        wait(9, 90, queue(1)),
        wait(1, 10, WaitFor::Item(30)),
        wait(2, 20, queue(1)),
        wait(3, 30, queue(2)),
    ];
    assert_eq!(circles(&waits), [[1, 3, 2]], "the first only waits for it");
}

#[test]
fn an_item_that_waits_for_its_own_queue_is_a_circle() {
    assert_eq!(circles(&[wait(1, 10, queue(1))]), [[0]]);
}

#[test]
fn circles_beside_each_other_are_all_found() {
    let waits = [
        wait(1, 10, queue(2)),
        wait(3, 30, queue(4)),
        wait(2, 20, queue(1)),
        wait(4, 40, queue(3)),
    ];
    assert_eq!(circles(&waits), [[0, 2], [1, 3]]);
}

/// The first began to flush before the second was queued.
#[test]
fn a_flush_does_not_wait_for_what_comes_later() {
    let flush = |last| WaitFor::Queue(WqKey(2), Colors::from_to(15, last));
    let circle_of = |last, color| {
        let second = ItemWait { color, ..wait(2, 20, WaitFor::Item(10)) };
        circles(&[wait(1, 10, flush(last)), second])
    };
    for color in [15, 0, 1] {
        assert_eq!(circle_of(1, Some(color)), [[0, 1]], "{color}");
    }
    assert_eq!(circle_of(1, Some(2)), [[0; 0]; 0]);
    assert_eq!(circle_of(15, Some(0)), [[0; 0]; 0], "the first flusher waits for one colour");
    assert_eq!(circle_of(1, None), [[0, 1]], "the colour is not known");
}

/// Who looks is not held up by many that wait.
#[test]
fn a_long_chain_is_no_circle_until_it_is_closed() {
    const LENGTH: usize = if cfg!(miri) { 20 } else { 1_000 };
    let mut chain: Vec<_> = (0..LENGTH).map(|at| wait(1, at, WaitFor::Item(at + 1))).collect();
    assert_eq!(circles(&chain), [[0; 0]; 0]);
    chain[LENGTH - 1].what = WaitFor::Item(LENGTH - 3);
    assert_eq!(circles(&chain), [[LENGTH - 3, LENGTH - 2, LENGTH - 1]]);
}
