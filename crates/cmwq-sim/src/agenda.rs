//! What will happen when: the event queue of the simulation.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::Nanos;

/// Of the things that happen at one moment, those that make threads runnable come before CPUs that
/// become free, because a real scheduler, too, lets a sleeper that wakes up at this moment compete
/// for the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Wake,
    CpuFree,
}

/// Things to come, in the order of their time, rank, and entry.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    next_number: u64,
}

#[derive(Debug)]
struct Entry<T> {
    /// The time; then the rank and, below it, the number of the entry, in one: entries are moved
    /// about a lot, so they should be small.
    key: (Nanos, u64),
    what: T,
}

impl<T> Agenda<T> {
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), next_number: 0 }
    }

    pub(crate) fn add(&mut self, at: Nanos, rank: Rank, what: T) {
        let rank = (rank as u64) << 63;
        self.heap.push(Reverse(Entry { key: (at, rank | self.next_number), what }));
        self.next_number += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.key.0, entry.what))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_then_rank_then_entry() {
        let mut agenda = Agenda::new();
        agenda.add(5, Rank::CpuFree, "c");
        agenda.add(7, Rank::Wake, "d");
        agenda.add(5, Rank::Wake, "a");
        agenda.add(5, Rank::Wake, "b");
        let order: Vec<_> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(order, [(5, "a"), (5, "b"), (5, "c"), (7, "d")]);
    }
}
