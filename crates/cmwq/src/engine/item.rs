//! What is done with one item: queueing it, at once or after a time, taking it out, waiting for it.

pub(crate) mod caller_computes;
pub(crate) mod delayed;
pub(crate) mod effects;
pub(crate) mod flush;
pub(crate) mod grab;
pub(crate) mod queueing;
pub(crate) mod run_here;
