//! Reports as no detector would make them: false, late, doubled, about an earlier run. For tests
//! that compare what the library makes of them with what a simulation does; programs have no use
//! for them. This may change at any time.

use cmwq_core::WorkerId;

use crate::engine::pool::Pool;
use crate::engine::{current, detection};

/// A worker's run of an item, which is over perhaps.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pool: &'static Pool,
    id: WorkerId,
    seq: u64,
}

impl Run {
    /// The run in which the calling thread is. `None`: it is no worker, or runs an item of a BH
    /// queue.
    #[must_use]
    pub fn current() -> Option<Self> {
        current::run().map(|(pool, id, seq)| Self { pool, id, seq })
    }

    /// Reports that the worker was found blocked in this run, as a detector does. From any thread;
    /// takes the lock of the worker's pool and may wake another worker.
    pub fn report_blocked(&self) {
        detection::report(self.pool, self.id, self.seq, true);
    }

    /// Reports that the worker was found back from its wait in this run.
    pub fn report_resumed(&self) {
        detection::report(self.pool, self.id, self.seq, false);
    }
}
