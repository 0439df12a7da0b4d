//! Decisions about detection: when to look at workers, and what a look tells of them.
//!
//! Sources of detection (the tick, the sentinel, switch records) only say "look now", and looking
//! is the driver's business. What follows from what was seen is decided here, so that the simulator
//! decides the same.

pub mod alarms;
pub mod evidence;
pub mod hogs;
pub mod tick;
pub mod watched;

pub use hogs::HogWatch;
pub use tick::{Quiet, Tick, TickRole};
