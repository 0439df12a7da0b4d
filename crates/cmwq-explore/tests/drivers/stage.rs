//! What scripts are played on: queues, and CPUs.

use std::thread::available_parallelism;

use cmwq_core::consts::WAITS_FIRST_NS;
use cmwq_sim::Nanos;
use cmwq_sim::scenario::Flag;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A queue: its kind and `max_active`.
pub(crate) type QueueKind = (Flag, u32);

/// How many seeds in a row are for different stages.
pub(crate) const NR_STAGES: u64 = 6;

/// See the module header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Per-CPU queues, and others beside them. What is looked at is the pool of one CPU.
    Percpu,
    /// Managed queues where there is one CPU.
    OnePod,
    /// Managed queues of two CPUs, whose pods help each other.
    TwoPods,
    /// Managed queues of four CPUs, which are only pretended. A backlog calls one pod after the
    /// other.
    FourPods,
    /// Unbound and ordered queues of two CPUs that get attributes of their own. What is looked at
    /// is the pools that have such.
    Attributes,
}

impl Stage {
    pub(crate) const fn of(seed: u64) -> Self {
        match seed % NR_STAGES {
            0 | 1 => Self::Percpu,
            2 => Self::OnePod,
            3 => Self::TwoPods,
            4 => Self::FourPods,
            _ => Self::Attributes,
        }
    }

    /// The first three share a pool, as long as they have no attributes of their own.
    pub(crate) const fn queues(self) -> &'static [QueueKind] {
        match self {
            Self::Percpu => &[
                (Flag::Percpu, 256),
                (Flag::Percpu, 256),
                (Flag::Percpu, 2),
                (Flag::Ordered, 0),
                (Flag::Unbound, 2),
            ],
            Self::OnePod => &[
                (Flag::Managed, 256),
                (Flag::Managed, 256),
                (Flag::Managed, 2),
                (Flag::Ordered, 0),
            ],
            // Where two pods share a limit, a slot that comes free may make both run.
            Self::TwoPods | Self::FourPods => {
                &[(Flag::Managed, 256), (Flag::Managed, 256), (Flag::Managed, 256)]
            }
            Self::Attributes => &[
                (Flag::Unbound, 256),
                (Flag::Unbound, 2),
                (Flag::Ordered, 0),
                (Flag::Unbound, 2),
                (Flag::Ordered, 0),
            ],
        }
    }

    /// Those whose items soon wait for the limit.
    pub(crate) fn limited_queues(self) -> Vec<usize> {
        let queues = self.queues().iter().enumerate();
        queues.filter(|(_, kind)| kind.1 == 2).map(|(queue, _)| queue).collect()
    }

    /// The kind of the pools that are looked at.
    pub(crate) fn watched(self) -> Flag {
        self.queues()[0].0
    }

    /// Whether pods help each other. The library has no board for one pod alone.
    pub(crate) const fn has_board(self) -> bool {
        matches!(self, Self::TwoPods | Self::FourPods)
    }

    /// Whether it is known which CPU each pool is of. Else they are compared in order of what is
    /// there.
    pub(crate) const fn knows_whose(self) -> bool {
        !matches!(self, Self::FourPods | Self::Attributes)
    }

    /// On how many CPUs items are queued. Of each the pool is looked at, if it has one for itself.
    pub(crate) const fn nr_cpus(self) -> usize {
        match self {
            Self::Percpu | Self::OnePod => 1,
            Self::TwoPods | Self::Attributes => 2,
            Self::FourPods => 4,
        }
    }

    /// Whether the CPUs are only pretended.
    pub(crate) const fn pretends(self) -> bool {
        matches!(self, Self::FourPods)
    }

    /// Parameters of the library.
    pub(crate) const fn params(self) -> &'static str {
        match self {
            // Whatever this machine's caches are, there is one usual pool.
            Self::Attributes => "default_affinity_scope=system",
            _ if self.pretends() => "debug_pretend_cpus=4",
            _ => "",
        }
    }

    /// CPU time that an item takes before anything else, in nanoseconds. Managed pools learn
    /// whether their items wait first; that would depend on how fast the machine is.
    pub(crate) const fn computes_first(self) -> Nanos {
        match self {
            Self::Percpu | Self::Attributes => 0,
            Self::OnePod | Self::TwoPods | Self::FourPods => 2 * WAITS_FIRST_NS,
        }
    }

    /// What is started from here has only the CPUs that the stage needs, until what is returned is
    /// dropped. `None`: there are too few.
    pub(crate) fn confine(self) -> Option<Confined> {
        let before = sched_getaffinity(None).expect("a thread may ask for its mask");
        let there_are = available_parallelism().map_or(1, usize::from);
        if !self.pretends() && there_are < self.nr_cpus() {
            return None;
        }
        if !self.pretends() && self != Self::Percpu {
            let mut mask = CpuSet::new();
            let all = (0..CpuSet::MAX_CPU).filter(|&cpu| before.is_set(cpu));
            all.take(self.nr_cpus()).for_each(|cpu| mask.set(cpu));
            sched_setaffinity(None, &mask).expect("some of its own CPUs");
        }
        Some(Confined { before })
    }
}

/// See [`Stage::confine`].
pub(crate) struct Confined {
    before: CpuSet,
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}
