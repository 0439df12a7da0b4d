//! The sources that report blocked workers.

use std::fmt;
use std::str::FromStr;

use cmwq_core::detect::TickRole;

use crate::os::IS_MODEL;
use crate::os::error::Error;
use crate::os::sense;

/// A source that reports blocked workers, beside the workers' own reports (*inline*: flushes,
/// joins, [`blocking`](crate::blocking)), which always work. Chosen at start-up by trying;
/// `CMWQ_DETECT` overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Detect {
    /// Context-switch records of each worker, by `perf_event_open`; exact. Needs
    /// `perf_event_paranoid` ≤ 2 and a seccomp profile that allows the call. A tick stands by.
    Perf,
    /// An idle-class thread per CPU that gets the CPU almost only when nothing else wants it. Needs
    /// nothing. A tick stands by, for CPUs that other programs keep busy.
    Sentinel,
    /// Only looks at the states of running workers, at intervals, while work waits.
    Tick,
    /// Only the workers' own reports. An item that blocks in any other call counts as running until
    /// it returns, and the other items of its CPU may have to wait for that.
    Inline,
}

impl Detect {
    /// All sources, best first.
    pub const ALL: [Self; 4] = [Self::Perf, Self::Sentinel, Self::Tick, Self::Inline];

    /// The name that `CMWQ_DETECT` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Sentinel => "sentinel",
            Self::Tick => "tick",
            Self::Inline => "inline",
        }
    }

    /// Whether idle-class sentinels give the alarm.
    #[doc(hidden)]
    #[must_use]
    pub const fn has_sentinel(self) -> bool {
        matches!(self, Self::Perf | Self::Sentinel)
    }

    /// What the tick is beside this source.
    pub(crate) const fn tick_role(self) -> TickRole {
        match self {
            Self::Perf | Self::Sentinel => TickRole::Behind,
            Self::Tick | Self::Inline => TickRole::Alone,
        }
    }

    /// The best source that works here.
    pub(crate) fn choose() -> Self {
        if IS_MODEL {
            return Self::Inline;
        }
        if sense::probe_perf().is_ok() { Self::Perf } else { Self::Sentinel }
    }
}

impl fmt::Display for Detect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Detect {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|source| source.name() == name).ok_or_else(|| {
            Error::invalid(format!(
                "unknown detection source '{name}': use perf, sentinel, tick or inline"
            ))
        })
    }
}
