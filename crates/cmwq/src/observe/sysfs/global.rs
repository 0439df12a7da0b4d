//! The attributes of all unbound queues together.

use std::fmt;
use std::str::FromStr;

use super::error::{self, AttributeError, Refusal};
use super::queue::{nr_cpu_ids, possible};
use super::{Mode, text};
use crate::engine::runtime::Runtime;
use crate::os::error::Error;

/// An attribute of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GlobalAttribute {
    /// The CPUs that unbound and ordered queues use; see
    /// [`set_unbound_cpumask`](crate::set_unbound_cpumask).
    Cpumask,
    /// What was asked for; read only.
    CpumaskRequested,
    /// The CPUs that the administrator keeps free of unbound work; read only.
    CpumaskIsolated,
    /// The scope of queues that name none; see
    /// [`set_default_affinity_scope`](crate::set_default_affinity_scope).
    DefaultAffinityScope,
}

impl GlobalAttribute {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 4] =
        [Self::Cpumask, Self::CpumaskRequested, Self::CpumaskIsolated, Self::DefaultAffinityScope];

    /// The kernel's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpumask => "cpumask",
            Self::CpumaskRequested => "cpumask_requested",
            Self::CpumaskIsolated => "cpumask_isolated",
            Self::DefaultAffinityScope => "default_affinity_scope",
        }
    }

    /// Whether it can be written.
    #[must_use]
    pub fn mode(self) -> Mode {
        match self {
            Self::Cpumask | Self::DefaultAffinityScope => Mode::ReadWrite,
            Self::CpumaskRequested | Self::CpumaskIsolated => Mode::ReadOnly,
        }
    }
}

impl fmt::Display for GlobalAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a name. Fails with [`Refusal::Absent`] if there is no such attribute.
impl FromStr for GlobalAttribute {
    type Err = AttributeError;

    fn from_str(name: &str) -> Result<Self, AttributeError> {
        let found = Self::ALL.into_iter().find(|attribute| attribute.name() == name);
        found.ok_or_else(|| error::no_such(name, "the process", &Self::ALL.map(Self::name)))
    }
}

/// The value of an attribute of the process, without a newline.
///
/// KERNEL: `/sys/devices/virtual/workqueue/cpumask`, `cpumask_requested`, `cpumask_isolated` and
/// `/sys/module/workqueue/parameters/default_affinity_scope` — same.
///
/// # Errors
/// [`ThreadCreation`](crate::ErrorKind::ThreadCreation) if it is the first use of this library and
/// the service thread cannot be created.
pub fn show_global(attribute: GlobalAttribute) -> Result<String, Error> {
    let runtime = Runtime::global()?;
    let placed = runtime.placement.shown();
    let cpus = match attribute {
        GlobalAttribute::Cpumask => placed.unbound.clone(),
        GlobalAttribute::CpumaskRequested => {
            placed.requested().cloned().unwrap_or_else(|| possible(runtime))
        }
        GlobalAttribute::CpumaskIsolated => placed.isolated().clone(),
        GlobalAttribute::DefaultAffinityScope => return Ok(placed.scope.to_string()),
    };
    Ok(cpus.to_mask(nr_cpu_ids(runtime)))
}

/// Changes an attribute of the process.
///
/// KERNEL: as for [`show_global`] — differs: a mask that leaves only isolated CPUs is invalid.
///
/// # Errors
/// [`Refusal::ReadOnly`], [`Refusal::Invalid`]; see also [`show_global`].
pub fn store_global(attribute: GlobalAttribute, value: &str) -> Result<(), AttributeError> {
    let runtime = Runtime::global()?;
    match attribute {
        GlobalAttribute::Cpumask => {
            let cpus = text::cpumask(value, nr_cpu_ids(runtime))?.and(&possible(runtime));
            runtime.set_unbound_cpumask(&cpus)?;
        }
        GlobalAttribute::DefaultAffinityScope => {
            runtime.set_default_scope(text::default_scope(value)?);
        }
        GlobalAttribute::CpumaskRequested | GlobalAttribute::CpumaskIsolated => {
            return Err(AttributeError::new(
                Refusal::ReadOnly,
                format!("{attribute} can be read only"),
            ));
        }
    }
    Ok(())
}
