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
