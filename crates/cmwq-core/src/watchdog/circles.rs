//! Items that wait for each other in a circle, found among all that wait.
//!
//! An item that waits for a queue waits for all items of that queue. Only waits of items count:
//! other threads' waits hold up no worker.
//!
//! KERNEL: none. There this is left to lockdep and the hung-task detector.
//!
//! Why: docs/decisions/deadlock-is-a-circle.md

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::ids::WqKey;

/// What an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor<I> {
    /// Everything on a queue.
    Queue(WqKey),
    /// An item.
    Item(I),
}

/// An item that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemWait<I> {
    /// Its queue.
    pub wq: WqKey,
    /// Itself.
    pub item: I,
    /// What it waits for.
    pub what: WaitFor<I>,
}

impl<I: PartialEq> ItemWait<I> {
    /// Whether it cannot end before `other` does.
    fn needs(&self, other: &Self) -> bool {
        match &self.what {
            WaitFor::Queue(wq) => *wq == other.wq,
            WaitFor::Item(item) => *item == other.item,
        }
    }
}

/// The circles among `waits`, each once, as indices, in the order of waiting. Not all that pass
/// through one wait: one is enough to know that it will not go on. A circle makes no progress; to
/// the watchdog it is known by its first wait.
#[must_use]
pub fn circles<I: PartialEq>(waits: &[ItemWait<I>]) -> Vec<Vec<usize>> {
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
fn circle_through<I: PartialEq>(waits: &[ItemWait<I>], start: usize) -> Option<Vec<usize>> {
    let mut came_from = alloc::vec![None; waits.len()];
    let mut front = VecDeque::from([start]);
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
    let mut way = alloc::vec![start];
    let mut at = start;
    while let Some(before) = came_from[at].filter(|before| *before != start) {
        way.push(before);
        at = before;
    }
    way[1..].reverse();
    way
}
