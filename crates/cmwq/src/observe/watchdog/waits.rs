//! Items that wait for queues and for other items, and the circles they get into.
//!
//! A wait is noted where it begins, by the item that waits; waits of other threads hold up no
//! worker and are not noted. Who waits for a queue waits for all its items.

use cmwq_core::WqKey;

use crate::engine::thread::Thread;
use crate::os::sync::{Arc, PlainMutex, lock_plain};

/// What an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Everything on a queue.
    Queue(WqKey),
    /// The item at this address.
    Item(usize),
}

/// An item that waits.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    /// Numbers the waits.
    pub(super) id: u64,
    /// The queue, the address and the function of the item that waits.
    pub(super) wq: WqKey,
    pub(super) item: usize,
    pub(super) func: usize,
    pub(super) what: WaitFor,
    /// The worker's.
    pub(super) thread: Arc<Thread>,
}

/// All waits, as they began.
#[derive(Debug, Default)]
pub(crate) struct Waits(PlainMutex<List>);

#[derive(Debug, Default)]
struct List {
    next: u64,
    list: Vec<Wait>,
}

/// A wait, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    waits: &'a Waits,
    id: u64,
}

impl Waits {
    /// The item of `wq` at `item`, with that function, on the worker `thread`, begins to wait.
    pub(super) fn begin(
        &self,
        (wq, item, func): (WqKey, usize, usize),
        what: WaitFor,
        thread: Arc<Thread>,
    ) -> Waiting<'_> {
        let mut waits = lock_plain(&self.0);
        let id = waits.next;
        waits.next += 1;
        waits.list.push(Wait { id, wq, item, func, what, thread });
        Waiting { waits: self, id }
    }

    /// All waits of this moment.
    pub(super) fn all(&self) -> Vec<Wait> {
        lock_plain(&self.0).list.clone()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock_plain(&self.waits.0).list.retain(|wait| wait.id != self.id);
    }
}

impl Wait {
    /// Whether this one cannot go on before `other` does.
    fn needs(&self, other: &Self) -> bool {
        match self.what {
            WaitFor::Queue(wq) => wq == other.wq,
            WaitFor::Item(item) => item == other.item,
        }
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
            if !waits[at].needs(wait) || came_from[next].is_some() {
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
    use crate::observe::inspect::WorkerMirror;

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

    #[test]
    fn a_wait_lasts_until_it_is_dropped() {
        let waits = Waits::default();
        let first = waits.begin((WqKey(1), 10, 0), queue(2), thread());
        let second = waits.begin((WqKey(2), 20, 0), queue(1), thread());
        assert_eq!(waits.all().iter().map(|wait| wait.id).collect::<Vec<_>>(), [0, 1]);
        drop(first);
        assert_eq!(waits.all().iter().map(|wait| wait.id).collect::<Vec<_>>(), [1]);
        drop(second);
        assert!(waits.all().is_empty());
    }
}
