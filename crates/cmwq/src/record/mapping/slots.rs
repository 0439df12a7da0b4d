//! Giving out the records of a table.
//!
//! A place is taken when a thing is made and given back when it is gone. Where there is no room the
//! thing goes on without a record, and the table's header counts it.

use std::fmt;

use super::layout::{Record, TableHeader};
use super::seqlock;
use crate::os::generation;
use crate::os::sync::{Ordering, PlainMutex, lock_plain};

/// A table, as the writer sees it.
pub(crate) struct Slots<T: 'static> {
    records: &'static [T],
    header: &'static TableHeader,
    /// Of the process that made it: a child has a mapping of its own, if any.
    generation: u32,
    free: PlainMutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    /// Places that were given back, and how many were ever used.
    places: Vec<u32>,
    used: usize,
    /// Things that were given a record.
    lives: u64,
}

/// A record of one's own, given back when this is dropped; or none, where there was no room.
pub(crate) struct Slot<T: Record> {
    index: u32,
    table: &'static Slots<T>,
}

/// The place of those that there was no room for.
const NOWHERE: u32 = u32::MAX;

impl<T: Record> Slots<T> {
    pub(crate) fn new(records: &'static [T], header: &'static TableHeader) -> Self {
        Self { records, header, generation: generation::current(), free: PlainMutex::default() }
    }

    /// Takes a place, if there is room, and fills it in.
    pub(crate) fn take(&'static self, fill: impl FnOnce(&T)) -> Slot<T> {
        let mut free = lock_plain(&self.free);
        let index = free.places.pop().map(|place| place as usize).or_else(|| {
            let next = free.used;
            (next < self.records.len()).then(|| {
                free.used += 1;
                next
            })
        });
        // ORDERING (here and below): no pairing: counts; what a reader relies on is the record's
        // own count.
        let Some(index) = index else {
            self.header.missed.fetch_add(1, Ordering::Relaxed);
            return Slot { index: NOWHERE, table: self };
        };
        free.lives += 1;
        let (lives, record) = (free.lives, &self.records[index]);
        seqlock::write(record.seq(), || {
            fill(record);
            record.life().store(lives, Ordering::Relaxed);
        });
        self.header.live.fetch_add(1, Ordering::Relaxed);
        self.header.used.store(free.used as u64, Ordering::Relaxed);
        Slot { index: index as u32, table: self }
    }

    /// Things that there was no room for.
    #[cfg(test)]
    pub(super) fn nr_missed(&self) -> u64 {
        self.header.missed.load(Ordering::Relaxed)
    }

    fn give_back(&self, index: u32) {
        // A child has no part in its parent's mapping, and some other thread may have held the
        // lock.
        if self.generation != generation::current() {
            return;
        }
        if index == NOWHERE {
            self.header.missed.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let mut free = lock_plain(&self.free);
        let record = &self.records[index as usize];
        seqlock::write(record.seq(), || record.life().store(0, Ordering::Relaxed));
        self.header.live.fetch_sub(1, Ordering::Relaxed);
        free.places.push(index);
    }
}

impl<T: Record> Slot<T> {
    /// Which record of its table it is.
    pub(crate) fn index(&self) -> Option<u32> {
        Some(self.index).filter(|index| *index != NOWHERE)
    }

    /// The record, which is one's own for as long as this lives.
    #[inline]
    pub(crate) fn record(&self) -> Option<&'static T> {
        self.table.records.get(self.index as usize)
    }

    /// Changes what belongs together.
    pub(crate) fn change(&self, change: impl FnOnce(&T)) {
        if let Some(record) = self.record() {
            seqlock::write(record.seq(), || change(record));
        }
    }
}

impl<T: Record> Drop for Slot<T> {
    fn drop(&mut self) {
        self.table.give_back(self.index);
    }
}

impl<T: Record> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.index).finish()
    }
}

impl<T> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("capacity", &self.records.len()).finish_non_exhaustive()
    }
}
