//! What the probes mean for each source of detection.

use std::io;

use cmwq::Detect;
use cmwq::shared::{Probes, RefusalCause};

use super::confinement::Confinement;

/// A source of detection, and whether it works here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Source {
    /// Which one.
    pub detect: Detect,
    /// Whether it works here.
    pub availability: Availability,
}

/// Whether a source of detection works here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// It works.
    Works,
    /// It works, but less well than elsewhere.
    Limited {
        /// What stands in the way.
        why: String,
        /// What to do about it.
        advice: String,
    },
    /// It does not work. If it is the one in use, the tick does its work.
    Refused {
        /// What stands in the way.
        why: String,
        /// What to do about it.
        advice: String,
    },
}

impl Availability {
    /// Whether the source can be used at all.
    #[must_use]
    pub const fn is_usable(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// One word: `works`, `limited` or `refused`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Limited { .. } => "limited",
            Self::Refused { .. } => "refused",
        }
    }

    /// What stands in the way, and what to do about it; `None` if nothing does.
    #[must_use]
    pub fn obstacle(&self) -> Option<(&str, &str)> {
        match self {
            Self::Works => None,
            Self::Limited { why, advice } | Self::Refused { why, advice } => Some((why, advice)),
        }
    }

    fn limited_by(self) -> Self {
        match self {
            Self::Refused { why, advice } => Self::Limited { why, advice },
            other => other,
        }
    }
}

/// Judges all sources, best first.
pub(super) fn judge(probes: &io::Result<Probes>, confinement: &Confinement) -> Vec<Source> {
    let judge = |detect| Source {
        detect,
        availability: match (detect, probes) {
            (Detect::Inline, _) => Availability::Works,
            (_, Err(error)) => Availability::Refused {
                why: format!("it could not be tried, for want of a thread ({error})"),
                advice: "raise RLIMIT_NPROC or the pids limit of the cgroup".to_owned(),
            },
            (Detect::Perf, Ok(probes)) => perf(probes, confinement),
            (Detect::Sentinel, Ok(probes)) => sentinel(probes, confinement),
            (_, Ok(probes)) => tick(probes),
        },
    };
    Detect::ALL.into_iter().map(judge).collect()
}

fn perf(probes: &Probes, confinement: &Confinement) -> Availability {
    let Err(cause) = &probes.perf else {
        // The sentinel gives the alarm, and the records only tell who it was.
        return alarm(probes, confinement).limited_by();
    };
    let (why, advice) = match cause {
        RefusalCause::Forbidden => (
            format!("{} forbids perf_event_open", confinement.who_forbids()),
            format!(
                "{}, or {}",
                confinement.how_to_grant("CAP_PERFMON"),
                confinement.how_to_permit("perf_event_open")
            ),
        ),
        RefusalCause::Paranoid(_) if confinement.container.is_some() => {
            let advice = format!(
                "on the host, {}; or {}",
                "sysctl kernel.perf_event_paranoid=2",
                confinement.how_to_grant("CAP_PERFMON")
            );
            (cause.reason(), advice)
        }
        cause => (cause.reason(), cause.advice()),
    };
    Availability::Refused { why, advice }
}

/// What the sentinels' threads need.
fn alarm(probes: &Probes, confinement: &Confinement) -> Availability {
    let refused = |what: &str, call: &str, error: &io::Error| Availability::Refused {
        why: format!("{} forbids {what} ({error})", confinement.who_forbids()),
        advice: confinement.how_to_permit(call),
    };
    match (&probes.idle_class, &probes.pin) {
        (Err(error), _) => refused("the class SCHED_IDLE", "sched_setscheduler", error),
        (_, Err(error)) => refused("pinning threads to CPUs", "sched_setaffinity", error),
        (Ok(()), Ok(())) => Availability::Works,
    }
}

fn sentinel(probes: &Probes, confinement: &Confinement) -> Availability {
    match alarm(probes, confinement) {
        // Whom the alarm is about is told by the state of threads.
        Availability::Works => tick(probes),
        refused => refused,
    }
}

fn tick(probes: &Probes) -> Availability {
    match &probes.stat {
        Ok(()) => Availability::Works,
        Err(error) => Availability::Limited {
            why: format!(
                "the states of threads cannot be read ({error}); \
                 blocked workers are told by their CPU time, later than usual"
            ),
            advice: "mount procfs on /proc".to_owned(),
        },
    }
}
