//! The driver's clock: nanoseconds since some time before this process, monotonic.

#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "clock/model.rs")]
#[cfg_attr(not(any(cmwq_loom, cmwq_shuttle)), path = "clock/system.rs")]
mod source;

pub(crate) use source::*;
