//! Items that wait for each other in a circle, found among all that wait.
//!
//! An item that flushes a queue waits for the items that were queued before: those of certain
//! [colours](crate::flush). Only waits of items count: other threads' waits hold up no worker.
//!
//! KERNEL: none. There this is left to lockdep and the hung-task detector.
//!
//! Why: docs/decisions/deadlock-is-a-circle.md

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::flush::Colors;
use crate::ids::WqKey;

/// What an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor<I> {
    /// What a queue has of these colours, as [`FlushState::awaited`](crate::FlushState::awaited)
    /// tells.
    Queue(WqKey, Colors),
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
    /// Its own colour, as [`Reading::color_of`](crate::Reading::color_of) tells. `None`: any.
    pub color: Option<u8>,
    /// What it waits for.
    pub what: WaitFor<I>,
}

impl<I: PartialEq> ItemWait<I> {
    /// Whether it cannot end before `other` does.
    fn needs(&self, other: &Self) -> bool {
        match &self.what {
            WaitFor::Queue(wq, colors) => {
                *wq == other.wq && other.color.is_none_or(|color| colors.has(color))
            }
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
    let is_left = without_ends(waits);
    for start in (0..waits.len()).filter(|at| is_left[*at]) {
        if circles.iter().flatten().any(|at| *at == start) {
            continue;
        }
        circles.extend(circle_through(waits, &is_left, start));
    }
    circles
}

/// Without those that need none of the others, or that none of them needs, again and again. Mostly
/// nothing is left, also of a long chain, and no circle has to be looked for.
fn without_ends<I: PartialEq>(waits: &[ItemWait<I>]) -> Vec<bool> {
    let mut is_left = alloc::vec![true; waits.len()];
    let needs = |at: usize, other: usize| waits[at].needs(&waits[other]);
    take_ends(&mut is_left, needs);
    take_ends(&mut is_left, |at, other| needs(other, at));
    is_left
}

/// Takes away those from which no step leads to others that are left.
fn take_ends(is_left: &mut [bool], leads: impl Fn(usize, usize) -> bool) {
    let all = 0..is_left.len();
    let nr_steps = |at| all.clone().filter(|other| is_left[*other] && leads(at, *other)).count();
    let mut nr_steps: Vec<_> = all.clone().map(nr_steps).collect();
    let mut ends: Vec<_> = all.clone().filter(|at| is_left[*at] && nr_steps[*at] == 0).collect();
    while let Some(end) = ends.pop() {
        is_left[end] = false;
        for at in all.clone().filter(|at| is_left[*at] && leads(*at, end)) {
            nr_steps[at] -= 1;
            if nr_steps[at] == 0 {
                ends.push(at);
            }
        }
    }
}

/// A shortest way from a wait to itself.
fn circle_through<I: PartialEq>(
    waits: &[ItemWait<I>],
    is_left: &[bool],
    start: usize,
) -> Option<Vec<usize>> {
    let mut came_from = alloc::vec![None; waits.len()];
    let mut front = VecDeque::from([start]);
    while let Some(at) = front.pop_front() {
        for (next, wait) in waits.iter().enumerate().filter(|(next, _)| is_left[*next]) {
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
