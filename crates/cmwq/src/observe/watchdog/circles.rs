//! Items that wait for each other in a circle, found among all [waits](crate::engine::watchdog).
//!
//! An item that waits for a queue waits for all items of that queue.
//!
//! Why: docs/decisions/deadlock-is-a-circle.md

use crate::engine::watchdog::{Wait, WaitFor};

/// Whether `wait` cannot end before `other` does.
fn needs(wait: &Wait, other: &Wait) -> bool {
    match wait.what {
        WaitFor::Queue(wq) => wq == other.wq,
        WaitFor::Item(item) => item == other.item,
    }
}

/// The circles among `waits`, each once, as indices, in the order of waiting. Not all that pass
/// through one wait: one is enough to know that it will not go on.
pub(super) fn circles(waits: &[Wait]) -> Vec<Vec<usize>> {
    let mut circles: Vec<Vec<usize>> = Vec::new();
    for start in 0..waits.len() {
        if circles.iter().flatten().any(|at| *at == start) {
            continue;
        }
        circles.extend(circle_through(waits, start));
    }
    circles
}

/// A shortest way from a wait to itself.
fn circle_through(waits: &[Wait], start: usize) -> Option<Vec<usize>> {
    let mut came_from = vec![None; waits.len()];
    let mut front = std::collections::VecDeque::from([start]);
    while let Some(at) = front.pop_front() {
        for (next, wait) in waits.iter().enumerate() {
            if !needs(&waits[at], wait) || came_from[next].is_some() {
                continue;
            }
            came_from[next] = Some(at);
            if next == start {
                return Some(way_back(&came_from, start));
            }
            front.push_back(next);
        }
    }
    None
}

fn way_back(came_from: &[Option<usize>], start: usize) -> Vec<usize> {
    let mut way = vec![start];
    let mut at = start;
    while let Some(before) = came_from[at].filter(|before| *before != start) {
        way.push(before);
        at = before;
    }
    way[1..].reverse();
    way
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;
    use crate::engine::thread::Thread;
    use crate::os::sync::Arc;
    use crate::record::WorkerMirror;
    use cmwq_core::WqKey;

    fn thread() -> Arc<Thread> {
        Arc::new(Thread::new(String::new(), WorkerMirror::default()))
    }

    fn wait(id: u64, wq: u32, item: usize, what: WaitFor) -> Wait {
        Wait { id, wq: WqKey(wq), item, func: 0, what, thread: thread() }
    }

    const fn queue(wq: u32) -> WaitFor {
        WaitFor::Queue(WqKey(wq))
    }

    #[test]
    fn two_queues_that_flush_each_other_are_a_circle() {
        let waits = [wait(0, 1, 10, queue(2)), wait(1, 2, 20, queue(1))];
        assert_eq!(circles(&waits), [[0, 1]]);
    }

    #[test]
    fn a_chain_is_no_circle() {
        let waits =
            [wait(0, 1, 10, queue(2)), wait(1, 2, 20, WaitFor::Item(30)), wait(2, 3, 30, queue(4))];
        assert_eq!(circles(&waits), [[0; 0]; 0]);
    }

    #[test]
    fn a_circle_of_three_is_told_in_its_order_and_once() {
        let waits = [
            wait(7, 9, 90, queue(1)),
            wait(0, 1, 10, WaitFor::Item(30)),
            wait(1, 2, 20, queue(1)),
            wait(2, 3, 30, queue(2)),
        ];
        assert_eq!(circles(&waits), [[1, 3, 2]], "the first only waits for it");
    }

    #[test]
    fn an_item_that_waits_for_its_own_queue_is_a_circle() {
        assert_eq!(circles(&[wait(0, 1, 10, queue(1))]), [[0]]);
    }

    #[test]
    fn circles_beside_each_other_are_all_found() {
        let waits = [
            wait(0, 1, 10, queue(2)),
            wait(1, 3, 30, queue(4)),
            wait(2, 2, 20, queue(1)),
            wait(3, 4, 40, queue(3)),
        ];
        assert_eq!(circles(&waits), [[0, 2], [1, 3]]);
    }
}
