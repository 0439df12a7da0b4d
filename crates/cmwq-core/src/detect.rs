//! Decisions about detection: when to look at workers, and what a look tells of them.
//!
//! Sources of detection (the tick, the sentinel, switch records) only say "look now", and the
//! driver looks. What follows from a look is decided here, so that the simulator decides the same.

pub mod alarms;
pub mod evidence;
pub mod hogs;
pub mod judge;
pub mod processes;
pub mod tick;

pub use hogs::HogWatch;
pub use tick::{Quiet, Tick, TickRole};
