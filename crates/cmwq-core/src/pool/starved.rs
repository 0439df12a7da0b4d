//! A pool whose CPUs others have.
//!
//! Work waits, fewer workers run than may, and the worker that was woken for it gets no CPU: a
//! process that an item has started computes there, another program does, or a worker of another
//! pod that has woken up there. That worker is confined to the pool's CPUs, and the pool would wait
//! for as long as the others compute, beside idle CPUs. So once two ticks in a row have found that,
//! the pool is *starved*: until one of its workers looks what to do, it is for other pods as one
//! that is at capacity, and they run its items.
//!
//! KERNEL: no twin. There a worker of a CPU waits for it.

use super::{Kick, PoolState};
use crate::consts::TICKS_UNTIL_STARVED;

impl PoolState {
    /// The tick has come, and looks at this pool: whom to wake to
    /// [begin another item](Self::begin_another).
    pub fn tick(&mut self) -> Kick {
        let comes = self.config.is_managed() && self.work_waits() && !self.is_at_capacity();
        let ticks = TICKS_UNTIL_STARVED.min(self.ticks_awaiting + 1);
        self.ticks_awaiting = if comes { ticks } else { 0 };
        self.begin_another()
    }

    /// A worker of this pool has a CPU, and looks what to do.
    #[inline]
    pub(super) const fn has_come(&mut self) {
        self.ticks_awaiting = 0;
    }

    /// Whether work waits, and the worker that was woken for it gets no CPU.
    #[inline]
    #[must_use]
    pub const fn is_starved(&self) -> bool {
        self.ticks_awaiting == TICKS_UNTIL_STARVED
    }
}
