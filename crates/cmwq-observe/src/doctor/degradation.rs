//! What works less well than it could.

use std::io;

use cmwq::Detect;
use cmwq::shared::{HIGHPRI_NICE, Machine, Probes};

use super::confinement::Confinement;
use super::limits::Limits;
use super::sources::{Availability, Source};

/// Something that works less well here than it could.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Degradation {
    /// What is the worse for it.
    pub what: String,
    /// What stands in the way.
    pub why: String,
    /// What to do about it.
    pub advice: String,
}

/// How many workers a CPU should have room for.
// LIMIT: items that compute for 1 ms and block for 5 ms keep 6.5 to 8 workers of each CPU in use.
const WORKERS_PER_CPU: u64 = 8;

/// What the judgement is made from.
pub(super) struct Evidence<'a> {
    pub(super) detect: Detect,
    pub(super) is_asked_for: bool,
    pub(super) complaints: &'a [String],
    pub(super) probes: &'a io::Result<Probes>,
    pub(super) confinement: &'a Confinement,
    pub(super) sources: &'a [Source],
    pub(super) limits: &'a Limits,
    pub(super) machine: &'a Machine,
}

impl Evidence<'_> {
    pub(super) fn judge(&self) -> Vec<Degradation> {
        [
            self.settings(),
            self.probing(),
            self.records(),
            self.alarm(),
            self.states(),
            self.pinning(),
            self.priority(),
            self.threads(),
            self.files(),
            self.locked_memory(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn settings(&self) -> Option<Degradation> {
        (!self.complaints.is_empty()).then(|| Degradation {
            what: "a setting was not understood and is not in force".to_owned(),
            why: self.complaints.join("; "),
            advice: "correct the variable in the environment".to_owned(),
        })
    }

    fn probing(&self) -> Option<Degradation> {
        let error = self.probes.as_ref().err()?;
        Some(Degradation {
            what: "no more threads can be created, so no queue gets more workers".to_owned(),
            why: error.to_string(),
            advice: "raise RLIMIT_NPROC or the pids limit of the cgroup".to_owned(),
        })
    }

    /// Only for those who did not ask for something else.
    fn records(&self) -> Option<Degradation> {
        if self.is_asked_for && self.detect != Detect::Perf {
            return None;
        }
        let Availability::Refused { why, advice } = self.source(Detect::Perf)? else { return None };
        let what = "blocked workers are noticed without switch records, which are exact";
        Some(Degradation { what: what.to_owned(), why: why.clone(), advice: advice.clone() })
    }

    fn alarm(&self) -> Option<Degradation> {
        if !self.detect.has_sentinel() {
            return None;
        }
        let Availability::Refused { why, advice } = self.source(Detect::Sentinel)? else {
            return None;
        };
        let what = "blocked workers are noticed by the tick alone, up to a few milliseconds later";
        Some(Degradation { what: what.to_owned(), why: why.clone(), advice: advice.clone() })
    }

    fn states(&self) -> Option<Degradation> {
        let has_records = self.source(Detect::Perf)?.is_usable();
        let is_needed = match self.detect {
            Detect::Perf => !has_records,
            Detect::Sentinel | Detect::Tick => true,
            // What is not a source yet needs them, as far as anybody knows here.
            Detect::Inline => false,
            _ => true,
        };
        if !is_needed {
            return None;
        }
        let Availability::Limited { why, advice } = self.source(Detect::Tick)? else { return None };
        let what = "blocked workers are noticed late";
        Some(Degradation { what: what.to_owned(), why: why.clone(), advice: advice.clone() })
    }

    fn pinning(&self) -> Option<Degradation> {
        let error = self.probes.as_ref().ok()?.pin.as_ref().err()?;
        Some(Degradation {
            what: "workers are not kept on the CPUs of their pool".to_owned(),
            why: format!("{} forbids pinning ({error})", self.confinement.who_forbids()),
            advice: self.confinement.how_to_permit("sched_setaffinity"),
        })
    }

    fn priority(&self) -> Option<Degradation> {
        let error = self.probes.as_ref().ok()?.nice.as_ref().err()?;
        Some(Degradation {
            what: "high-priority queues run at normal priority".to_owned(),
            why: format!("nice {HIGHPRI_NICE} is refused ({error})"),
            advice: format!(
                "{}, or raise RLIMIT_NICE to 40 (ulimit -e 40; systemd: LimitNICE=-20)",
                self.confinement.how_to_grant("CAP_SYS_NICE")
            ),
        })
    }

    fn threads(&self) -> Option<Degradation> {
        let is_exempt = self.confinement.user == 0
            || self.confinement.has("CAP_SYS_RESOURCE")
            || self.confinement.has("CAP_SYS_ADMIN");
        let by_user = self.limits.nproc.soft.filter(|_| !is_exempt);
        let by_cgroup = self.limits.threads_by_cgroup();
        let (room, why, advice) = if by_cgroup.is_some_and(|room| by_user.is_none_or(|u| room <= u))
        {
            let pids = self.limits.cgroup_pids.as_ref()?;
            let file = pids.file.display();
            let why = format!("{} of {} threads are taken ({file})", pids.current, pids.max);
            (by_cgroup?, why, "raise the pids limit of the cgroup (docker: --pids-limit)")
        } else {
            let room = by_user?;
            let why = format!("RLIMIT_NPROC is {room}, for all threads of the user");
            (room, why, "raise RLIMIT_NPROC (ulimit -u)")
        };
        let what = "there may be too few threads for items that block";
        self.too_few(room).then(|| Degradation {
            what: what.to_owned(),
            why,
            advice: advice.into(),
        })
    }

    fn files(&self) -> Option<Degradation> {
        let workers = self.limits.workers_by_files(self.detect)?;
        self.too_few(workers).then(|| Degradation {
            what: format!("only about {workers} workers can be watched well"),
            why: format!("RLIMIT_NOFILE is {}", self.limits.nofile.soft.unwrap_or(0)),
            advice: "raise RLIMIT_NOFILE (ulimit -n)".to_owned(),
        })
    }

    fn locked_memory(&self) -> Option<Degradation> {
        let is_exempt = self.confinement.has("CAP_IPC_LOCK")
            || self.limits.perf_event_paranoid.is_some_and(|level| level < 0);
        if self.detect != Detect::Perf || is_exempt {
            return None;
        }
        let online = self.machine.online.as_ref().unwrap_or(&self.machine.allowed);
        let workers = self.limits.workers_by_locked_memory(online.count() as u64)?;
        self.too_few(workers).then(|| Degradation {
            what: format!("only about {workers} workers can have switch records"),
            why: "the memory of more may not be locked".to_owned(),
            advice: "raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK (ulimit -l)".to_owned(),
        })
    }

    fn too_few(&self, workers: u64) -> bool {
        workers < WORKERS_PER_CPU * u64::from(self.machine.granted)
    }

    fn source(&self, detect: Detect) -> Option<&Availability> {
        // What could not be tried is told by itself.
        self.probes.as_ref().ok()?;
        let source = self.sources.iter().find(|source| source.detect == detect)?;
        Some(&source.availability)
    }
}
