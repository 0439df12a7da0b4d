//! The scheduling policy of a model's thread, which a model checker schedules as it likes.

use std::io;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy;

impl Policy {
    pub(crate) const fn normal(_nice: i32) -> Self {
        Self
    }

    pub(crate) const fn real_time(_priority: u8, _round_robin: bool) -> Self {
        Self
    }

    pub(crate) const fn deadline(_runtime_ns: u64, _deadline_ns: u64, _period_ns: u64) -> Self {
        Self
    }

    pub(crate) fn of_current_thread() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn of_process() -> Self {
        Self
    }

    pub(crate) fn assume(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn is_like(&self, _other: &Self) -> bool {
        true
    }

    pub(crate) fn is_normal_like(&self, _other: &Self) -> bool {
        true
    }

    pub(crate) const fn niceness(&self) -> i32 {
        0
    }

    pub(crate) fn is_deadline(&self) -> bool {
        false
    }
}

pub(crate) fn set_slice_ns_current(_slice_ns: u64) -> io::Result<()> {
    Ok(())
}
