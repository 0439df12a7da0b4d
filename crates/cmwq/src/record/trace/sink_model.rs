//! Nothing is traced under a model checker; the rings have a model of their own.

use super::TracedQueue;
use super::event::{Event, Moment};
use crate::os::sync::Arc;

#[inline(always)]
pub(super) fn mask() -> u32 {
    0
}

pub(super) fn session() -> u32 {
    0
}

pub(super) fn ready() {}

pub(super) fn knows_names(_wq: u32, _func: usize) -> bool {
    true
}

pub(super) fn name_function(_func: usize, _find: fn(usize) -> Option<&'static str>) {}

pub(super) fn lose(_count: u64) {}

pub(super) fn moment() -> Option<Moment> {
    None
}

pub(super) fn end_of_run(_pool: u32, _seq: u64) -> Option<Moment> {
    None
}

pub(super) fn record_end(_event: &Event, _seq: u64, _moment: Moment) {}

pub(super) fn record(_event: &Event, _moment: Moment) {}

pub(super) fn record_begin(_event: &Event, _moment: Moment) {}

pub(super) fn tell_queue(_queue: &impl TracedQueue) {}

pub(super) fn forget_queue(_wq: u32) {}

pub(super) fn name_queue<Q: TracedQueue>(_wq: u32, _find: impl FnOnce() -> Option<Arc<Q>>) {}
