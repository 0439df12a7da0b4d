//! The driver's clock: nanoseconds since some time before this process, monotonic.

#[cfg_attr(any(loom, shuttle), path = "clock/model.rs")]
#[cfg_attr(not(any(loom, shuttle)), path = "clock/system.rs")]
mod source;

pub(crate) use source::*;
