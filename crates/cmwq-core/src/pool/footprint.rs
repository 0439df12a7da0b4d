//! What a pool takes in memory: for tools, and for showing how that grows.

use core::mem::size_of;

use super::PoolState;
use crate::batch::Batch;
use crate::counts::PwqCounts;
use crate::list::ListHead;

/// Bytes that a pool takes, its tables' unused room and its lists' sentinels included; what the
/// allocator adds, and what the driver keeps around it (locks, threads, stacks), is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Footprint {
    /// The pool by itself.
    pub pool: usize,
    /// Its workers' records.
    pub workers: usize,
    /// Its pwqs.
    pub pwqs: usize,
    /// How many pwqs those are.
    pub nr_pwqs: usize,
}

impl PoolState {
    /// What it takes now. Linear in its size.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let sentinel = size_of::<ListHead>();
        let (nr_workers, nr_pwqs) = (self.workers.iter().count(), self.pwqs.iter().count());
        // With the two reference counts of its `Arc`.
        let batch = size_of::<Batch>() + 2 * size_of::<usize>();
        let nr_batches = self.workers.iter().filter(|(_, w)| w.batch.is_some()).count();
        Footprint {
            pool: size_of::<Self>() + sentinel,
            workers: self.workers.heap_bytes() + nr_workers * sentinel + nr_batches * batch,
            pwqs: self.pwqs.heap_bytes() + nr_pwqs * (sentinel + size_of::<PwqCounts>()),
            nr_pwqs,
        }
    }
}
