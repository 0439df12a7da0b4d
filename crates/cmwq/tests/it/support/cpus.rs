//! The machine's CPUs, which may come and leave while a test runs.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{procfs, sys};

/// Confines all threads, as a cpuset does, and as those of a program are that is started by
/// `taskset`.
pub(crate) fn confine_all(cpus: &[u32]) {
    for task in procfs::other_tasks() {
        // It may have ended meanwhile.
        let _ = sys::confine(task.tid, cpus);
    }
    sys::confine(0, cpus).unwrap();
}

/// How many CPUs a scene keeps to in which a program computes on each. On many CPUs, above all on
/// emulated ones, those would leave nothing for the rest of the test.
const FEW: usize = 4;

/// Confines the process to a few CPUs, if there are more. To be called before the library is used.
pub(crate) fn keep_to_few_cpus() {
    let cpus = sys::allowed_cpus();
    confine_all(&cpus[..cpus.len().min(FEW)]);
}

/// What there is to see of them at a moment. While two looks are equal, none came or left between
/// them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// Those that the calling thread may use, ascending.
    pub(crate) here: Vec<u32>,
    /// How often the kernel has told of devices; a CPU that comes or leaves is one.
    nr_events: Option<String>,
}

impl Cpus {
    pub(crate) fn now() -> Self {
        // A CPU that leaves is out of masks before it is told of, and one that comes is in them.
        let nr_events = fs::read_to_string("/sys/kernel/uevent_seqnum").ok();
        Self { here: sys::allowed_cpus(), nr_events }
    }

    pub(crate) fn have_changed(&self) -> bool {
        *self != Self::now()
    }
}

/// More rounds than CPUs can spoil: what is broken fails in all of them.
const ROUNDS: usize = 100;

/// Plays rounds until one passes. One that fails although no CPU came or left meanwhile is a
/// failure; the others say nothing.
pub(crate) fn on_cpus_that_stay(mut round: impl FnMut(&Cpus)) {
    for nr_played in 1.. {
        let cpus = Cpus::now();
        // What came and left before is known to the library from now on.
        cmwq::rescan_cpus().unwrap();
        match catch_unwind(AssertUnwindSafe(|| round(&cpus))) {
            Ok(()) => return,
            Err(panic) if nr_played == ROUNDS || !cpus.have_changed() => resume_unwind(panic),
            Err(_) => {}
        }
    }
}

/// Plays such rounds for each CPU; one that has left has none.
pub(crate) fn for_each_cpu(mut part: impl FnMut(u32, &Cpus)) {
    for cpu in sys::allowed_cpus() {
        on_cpus_that_stay(|cpus| {
            if cpus.here.contains(&cpu) {
                part(cpu, cpus);
            }
        });
    }
}
