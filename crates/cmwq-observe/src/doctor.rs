//! What this machine offers the library, and what is less than it could be, for people who want to
//! know.
//!
//! [`diagnose`] looks and tries; it changes nothing and measures nothing. The command `cmwq doctor`
//! prints what it finds and measures each source of detection beside it.

// Reading order: `Facts` of the library (CPUs and pods, settings, trying what workers and sentinels
// need), `confinement` (what encloses the process), `sources` (what the facts mean for detection),
// `limits`, `degradation` (the sum of it).

mod confinement;
mod degradation;
mod limits;
mod sources;

#[cfg(test)]
mod tests;

use cmwq::shared::Facts;
use cmwq::{Detect, Error};

#[doc(inline)]
pub use cmwq::shared::{CpuQuota, Machine, Pods, Setting};
pub use confinement::Confinement;
pub use degradation::Degradation;
pub use limits::{CgroupPids, Limits, Rlimit};
pub use sources::{Availability, Source};

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
    /// What the library has said so far; see [`notices`](cmwq::notices).
    pub notices: Vec<String>,
}

/// Who chose the source of detection.
///
/// ```standalone_crate
/// use cmwq_observe::doctor::ChosenBy;
/// cmwq::Config::builder().detect(cmwq::Detect::Tick).install()?;
/// assert_eq!(cmwq_observe::diagnose()?.chosen_by, ChosenBy::Program);
/// # Ok::<(), cmwq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChosenBy {
    /// The library, by trying: the best that works.
    Trying,
    /// Whoever set `CMWQ_DETECT`.
    Environment,
    /// The program, by [`Config::detect`](cmwq::Config::detect).
    Program,
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
/// let diagnosis = cmwq_observe::diagnose()?;
/// println!("blocking is noticed by {}", diagnosis.detect);
/// for degradation in &diagnosis.degradations {
///     println!("{}: {}. {}", degradation.what, degradation.why, degradation.advice);
/// }
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn diagnose() -> Result<Diagnosis, Error> {
    let facts = Facts::find()?;
    let chosen_by = match (facts.is_asked_for, facts.program_asks) {
        (_, true) => ChosenBy::Program,
        (true, _) => ChosenBy::Environment,
        (false, _) => ChosenBy::Trying,
    };
    let confinement = Confinement::read();
    let limits = Limits::read(facts.task_limit);
    let sources = sources::judge(&facts.probes, &confinement);
    let degradations = degradation::Evidence {
        detect: facts.detect,
        is_asked_for: facts.is_asked_for,
        complaints: &facts.complaints,
        probes: &facts.probes,
        confinement: &confinement,
        sources: &sources,
        limits: &limits,
        machine: &facts.machine,
    }
    .judge();
    Ok(Diagnosis {
        machine: facts.machine,
        confinement,
        sources,
        detect: facts.detect,
        chosen_by,
        limits,
        degradations,
        settings: facts.settings,
        notices: cmwq::notices(),
    })
}
