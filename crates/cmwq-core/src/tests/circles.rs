//! Items that wait for each other in a circle.

use crate::WqKey;
use crate::watchdog::{ItemWait, WaitFor, circles};

const fn wait(wq: u32, item: usize, what: WaitFor<usize>) -> ItemWait<usize> {
    ItemWait { wq: WqKey(wq), item, what }
}

const fn queue(wq: u32) -> WaitFor<usize> {
    WaitFor::Queue(WqKey(wq))
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
