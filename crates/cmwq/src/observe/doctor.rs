//! What this machine offers the library, and what is less than it could be, for people who want to
//! know.
//!
//! [`diagnose`] looks and tries; it changes nothing and measures nothing. The command `cmwq doctor`
//! prints what it finds and measures each source of detection beside it.

// Reading order: `machine` (CPUs and pods), `confinement` (what encloses the process), `probe`
// (trying what workers and sentinels need), `sources` (what that means for detection), `limits`,
// `settings`, `degradation` (the sum of it).

mod confinement;
mod degradation;
mod limits;
mod machine;
mod probe;
mod settings;
mod sources;

#[cfg(test)]
mod tests;

pub use confinement::Confinement;
pub use degradation::Degradation;
pub use limits::{CgroupPids, Limits, Rlimit};
pub use machine::{CpuQuota, Machine, Pods};
pub use settings::Setting;
pub(crate) use settings::text as param_text;
pub use sources::{Availability, Source};

use crate::detect::method::Detect;
use crate::engine::runtime::Runtime;
use crate::os::error::Error;
use crate::os::notice;

/// What [`diagnose`] found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The CPUs, and how they are grouped.
    pub machine: Machine,
    /// What encloses the process: a container, a filter, missing privileges.
    pub confinement: Confinement,
    /// Every source of detection, best first.
    pub sources: Vec<Source>,
    /// The source in use.
    pub detect: Detect,
    /// Why that one.
    pub chosen_by: ChosenBy,
    /// What the process may have of descriptors, threads and memory.
    pub limits: Limits,
    /// What works less well than it could, and what to do about it. Empty: everything works.
    pub degradations: Vec<Degradation>,
    /// The settings in force.
    pub settings: Vec<Setting>,
    /// What the library has said so far; see [`notices`](crate::notices).
    pub notices: Vec<String>,
}

/// Who chose the source of detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChosenBy {
    /// The library, by trying: the best that works.
    Trying,
    /// Whoever set `CMWQ_DETECT`.
    Environment,
}

/// Looks at the machine and at the running library.
///
/// Takes about a millisecond, for it tries on a thread of its own what may be refused: recording
/// context switches, the idle class, pinning, a high priority.
///
/// # Errors
/// If the library's service thread cannot be created.
///
/// ```
/// let diagnosis = cmwq::diagnose()?;
/// println!("blocking is noticed by {}", diagnosis.detect);
/// for degradation in &diagnosis.degradations {
///     println!("{}: {}. {}", degradation.what, degradation.why, degradation.advice);
/// }
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn diagnose() -> Result<Diagnosis, Error> {
    let runtime = Runtime::global()?;
    let machine = Machine::read(&runtime.machine, &runtime.params);
    let confinement = Confinement::read();
    let probes = probe::run();
    let limits = Limits::read();
    let sources = sources::judge(&probes, &confinement);
    let degradations = degradation::Evidence {
        detect: runtime.detect,
        is_asked_for: runtime.params.detect.is_some(),
        probes: &probes,
        confinement: &confinement,
        sources: &sources,
        limits: &limits,
        machine: &machine,
    }
    .judge();
    Ok(Diagnosis {
        machine,
        confinement,
        sources,
        detect: runtime.detect,
        chosen_by: match runtime.params.detect {
            Some(_) => ChosenBy::Environment,
            None => ChosenBy::Trying,
        },
        limits,
        degradations,
        settings: settings::list(&runtime.params),
        notices: notice::notices(),
    })
}
