//! What `cmwq-observe` shares with the library: the agreement between writer and reader of the
//! mapping, that between both ends of the control socket, and the facts that the doctor judges.
//!
//! Not for others: it may change in any release, so that crate asks for exactly this version.

pub use super::facts::Facts;
pub use super::facts::machine::{CpuQuota, Machine, Pods};
pub use super::facts::probe::Probes;
pub use crate::engine::tools::attrs::HIGHPRI_NICE;
pub use crate::engine::tools::params::settings::Setting;
pub use crate::os::environment::{temporary_directory, var};
pub use crate::os::sense::RefusalCause;
pub use crate::os::topo::TaskLimit;

/// The time of the mapping's clock, in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    crate::os::clock::coarse()
}

/// The mapping.
pub mod mapping {
    pub use crate::record::mapping::functions::{MOST_WORDS, unpack as unpack_functions};
    pub use crate::record::mapping::layout;
    pub use crate::record::mapping::seqlock::copy;
    pub use crate::record::mapping::{PoolKind, QueueKind, Reason};
}

/// The control socket.
pub mod control {
    pub use crate::observe::control::NOTE;
    pub use crate::observe::control::place::{default_path, file_name};
    pub use crate::observe::control::protocol::{GREETING, Request, Target, VERSION, unescape};
    pub use crate::os::sense::signal::is_process;
    pub use crate::os::sense::socket::{connect, peer, poll, send};
}
