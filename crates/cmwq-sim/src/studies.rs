//! Questions asked of the simulator, each with the load that belongs to it.
//!
//! - [`scale`]: large loads of one mix, for finding out how cost grows;
//! - [`energy`]: what a run costs in energy;
//! - [`contention`]: what the locks of its pools would have to bear;
//! - [`crypt`]: the comparison of affinity scopes that the kernel's documentation makes.
//!
//! They come after everything else: nothing in the simulator needs them.

pub mod contention;
pub mod crypt;
pub mod energy;
pub mod scale;

use crate::config::{Config, Costs, Detect, TickRole};

/// What switching, creating and detecting take in the studies that ask for counts, and have no
/// figures of a real machine to meet.
fn round_costs() -> Config {
    const US: crate::Nanos = 1_000;
    Config {
        costs: Costs { switch: 500, create: 10 * US, slice: None, unlocked: 0, push: 0 },
        detect: Detect {
            blocked: 3 * US,
            resumed: 3 * US,
            tick: Some(TickRole::Alone),
            ..Detect::default()
        },
        ..Config::exact(1)
    }
}
