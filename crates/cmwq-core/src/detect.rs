//! Decisions about detection: when to look at workers, and what a look tells of them.
//!
//! Alarms (the tick's, the sentinel's) only say "look now", and the driver looks, also at switch
//! records. What follows from a look is decided here, so that the simulator decides the same.

pub mod alarms;
pub mod evidence;
pub mod hogs;
pub mod judge;
pub mod processes;
pub mod tick;

pub use hogs::HogWatch;
pub use tick::{Quiet, Tick, TickRole};

/// On whose word workers that are believed to run are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The tick's, which comes back at intervals. So a cheap look may spare a dearer one, and from
    /// tick to tick a worker is seen to hog the CPU.
    Tick,
    /// An alarm's: a CPU is idle, and who looks wants to know now.
    Alarm,
}
