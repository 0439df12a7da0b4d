//! What is done with a whole queue: keeping it, flushing it, draining it, adding it up.

pub(crate) mod draining;
pub(crate) mod flush;
pub(crate) mod handle;
pub(crate) mod reaper;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod totals;
