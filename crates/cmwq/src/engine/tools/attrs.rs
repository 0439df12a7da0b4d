//! Attributes: where and how the workers of an unbound or ordered queue run.

use std::io;
use std::time::Duration;

use crate::os::IS_MODEL;
use crate::os::error::Error;
use crate::os::notice::{self, Notice};
use crate::os::sense::policy::Policy;
use crate::os::sense::sched::set_nice_current;
use crate::os::sense::thread;
use crate::os::topo::{AffinityScope, CpuSet};
use crate::record::QueueSettings;

/// Where and how the workers that serve a queue run. Queues with equal attributes share workers.
///
/// Given to a queue when it is [built](crate::Builder::attrs) or, to an unbound or ordered one,
/// [later](crate::Workqueue::apply_attrs).
///
/// ```
/// use cmwq::{AffinityScope, Attrs, CpuSet};
///
/// let attrs = Attrs::new().nice(5).cpumask(CpuSet::single(0));
/// let attrs = attrs.affinity_scope(Some(AffinityScope::Cpu));
/// let wq = cmwq::Workqueue::builder("background").unbound().attrs(attrs).build()?;
/// assert_eq!(wq.attrs().nice, 5);
/// # Ok::<(), cmwq::Error>(())
/// ```
///
/// KERNEL: `struct workqueue_attrs` — same, and the policy of real-time workqueues; `ordered` is a
/// kind of queue here, which attributes cannot change.
#[doc(alias = "workqueue_attrs")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attrs {
    /// Nice level, −20 (favoured) to 19. 0, the default, is what the process had when it first used
    /// this library: what its first thread had. For [`Sched::Normal`] only.
    pub nice: i32,
    /// The CPUs that may run the queue's items; `None`, the default, stands for all. What the
    /// [mask of unbound queues](crate::unbound_cpumask) does not have is left out; if nothing is
    /// left, that mask is used.
    pub cpumask: Option<CpuSet>,
    /// Which CPUs share workers; `None`, the default, is the
    /// [default scope](crate::set_default_affinity_scope) at the time. Means nothing for ordered
    /// queues, which have one pool.
    pub affinity_scope: Option<AffinityScope>,
    /// Workers stay in their pod. Without it, the default, they *begin* each spell of work there,
    /// and the scheduler may move them to any CPU of `cpumask`.
    pub affinity_strict: bool,
    /// Scheduling policy.
    pub sched: Sched,
}

/// A scheduling policy. All but the first usually take privileges (`CAP_SYS_NICE`, or
/// `RLIMIT_RTPRIO` for the real-time priorities).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sched {
    /// Time sharing, by [nice level](Attrs::nice).
    #[default]
    Normal,
    /// `SCHED_FIFO` with this priority, 1 to 99.
    Fifo(u8),
    /// `SCHED_RR` with this priority, 1 to 99.
    RoundRobin(u8),
    /// `SCHED_DEADLINE`: `runtime` in each `period`, `deadline` after its beginning at the latest.
    /// The kernel admits such threads only while there is bandwidth for their runtimes, each worker
    /// counts, and they cannot be confined to CPUs: `cpumask` only chooses the pod.
    Deadline {
        /// At least 1024 ns.
        runtime: Duration,
        /// Not below `runtime`.
        deadline: Duration,
        /// Not below `deadline`.
        period: Duration,
    },
}

impl Attrs {
    /// The defaults: all CPUs, default scope, not strict, the process's niceness.
    ///
    /// KERNEL: `alloc_workqueue_attrs` — same.
    #[must_use]
    #[doc(alias = "alloc_workqueue_attrs")]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`nice`](Self::nice).
    #[must_use]
    pub fn nice(mut self, nice: i32) -> Self {
        self.nice = nice;
        self
    }

    /// Sets [`cpumask`](Self::cpumask).
    #[must_use]
    pub fn cpumask(mut self, cpumask: CpuSet) -> Self {
        self.cpumask = Some(cpumask);
        self
    }

    /// Sets [`affinity_scope`](Self::affinity_scope).
    #[must_use]
    pub fn affinity_scope(mut self, scope: Option<AffinityScope>) -> Self {
        self.affinity_scope = scope;
        self
    }

    /// Sets [`affinity_strict`](Self::affinity_strict).
    #[must_use]
    pub fn affinity_strict(mut self, strict: bool) -> Self {
        self.affinity_strict = strict;
        self
    }

    /// Sets [`sched`](Self::sched).
    #[must_use]
    pub fn sched(mut self, sched: Sched) -> Self {
        self.sched = sched;
        self
    }

    /// Whether the attributes say nothing about CPUs.
    pub(crate) fn is_about_priority_only(&self) -> bool {
        self.cpumask.is_none() && self.affinity_scope.is_none() && !self.affinity_strict
    }

    pub(crate) fn priority(&self) -> Priority {
        Priority { nice: self.nice, sched: self.sched }
    }

    /// Whether the attributes make sense by themselves.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), with what is wrong.
    pub(crate) fn check(&self, name: &str) -> Result<(), Error> {
        let wrong = if !(-20..=19).contains(&self.nice) {
            format!("nice {} is not within -20 to 19", self.nice)
        } else if self.cpumask.as_ref().is_some_and(CpuSet::is_empty) {
            "an empty cpumask; leave it out for all CPUs".to_owned()
        } else if let Some(wrong) = self.sched.wrong() {
            wrong
        } else if self.nice != 0 && self.sched != Sched::Normal {
            "nice is for the normal policy only".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("workqueue '{name}': {wrong}")))
    }
}

impl Sched {
    fn wrong(&self) -> Option<String> {
        match *self {
            Self::Fifo(priority) | Self::RoundRobin(priority) if !(1..=99).contains(&priority) => {
                Some(format!("real-time priority {priority} is not within 1 to 99"))
            }
            Self::Deadline { runtime, deadline, period }
                if runtime < Duration::from_nanos(1024)
                    || runtime > deadline
                    || deadline > period
                    || period > Duration::from_secs(1 << 32) =>
            {
                Some("a deadline needs 1024 ns <= runtime <= deadline <= period".to_owned())
            }
            _ => None,
        }
    }
}

/// Nice level of high-priority workers. KERNEL: `HIGHPRI_NICE_LEVEL` — same.
pub const HIGHPRI_NICE: i32 = -20;

/// How the workers of a pool are scheduled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Priority {
    pub(crate) nice: i32,
    pub(crate) sched: Sched,
}

impl Priority {
    /// That of high-priority workers.
    pub(crate) const HIGH: Self = Self::nice(HIGHPRI_NICE);

    pub(crate) const fn nice(nice: i32) -> Self {
        Self { nice, sched: Sched::Normal }
    }

    /// Whether this is the priority that every thread of the process has anyway.
    pub(crate) fn is_base(&self) -> bool {
        *self == Self::default()
    }

    /// As the kernel takes it; `base`: the process's own policy.
    pub(crate) fn policy(&self, base: Policy) -> Policy {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match self.sched {
            _ if self.is_base() => base,
            Sched::Normal => Policy::normal(self.nice),
            Sched::Fifo(priority) => Policy::real_time(priority, false),
            Sched::RoundRobin(priority) => Policy::real_time(priority, true),
            Sched::Deadline { runtime, deadline, period } => {
                Policy::deadline(ns(runtime), ns(deadline), ns(period))
            }
        }
    }

    /// Gives the calling thread this priority, whatever it inherited from its creator.
    ///
    /// # Errors
    /// If the system refuses it.
    fn assume(&self, base: Policy) -> io::Result<()> {
        let wanted = self.policy(base);
        match Policy::of_current_thread() {
            Ok(has) if has.is_like(&wanted) => Ok(()),
            // `setpriority` is older, and more sandboxes permit it.
            Ok(has) if has.is_normal_like(&wanted) => set_nice_current(wanted.niceness()),
            _ => wanted.assume(),
        }
    }

    /// As [`assume`](Self::assume). If the system refuses it, that is said, and the thread does
    /// without it.
    pub(crate) fn assume_or_say(&self, base: Policy) {
        if let Err(error) = self.assume(base) {
            self.say_refused(&error);
        }
    }

    #[cold]
    fn say_refused(&self, error: &io::Error) {
        match self.sched {
            _ if self.is_base() => notice::once(Notice::Policy, || {
                format!(
                    "the process's own priority refused ({error}); some threads keep a lower one, \
                     of those that created them (the library was first used from such a thread, or \
                     the process was reniced)"
                )
            }),
            Sched::Normal => notice::once(Notice::Nice, || {
                format!(
                    "nice {} refused ({error}); high-priority workers run at normal priority \
                     (grant CAP_SYS_NICE or raise RLIMIT_NICE)",
                    self.nice
                )
            }),
            sched => notice::once(Notice::Sched, || {
                format!("scheduling policy {sched:?} refused ({error}); some workers do without it")
            }),
        }
    }

    /// Whether a thread that the caller creates can have this priority: it inherits the caller's,
    /// and cannot undo that without privileges.
    pub(crate) fn can_be_inherited(&self, base: Policy) -> bool {
        let Ok(mine) = Policy::of_current_thread() else { return true };
        mine.is_like(&base) || mine.is_like(&self.policy(base))
    }

    /// Gives the calling thread the process's own policy, whatever it inherited from its creator,
    /// and this niceness.
    ///
    /// # Errors
    /// If the system refuses the niceness.
    pub(crate) fn favour(base: Policy, nice: i32) -> io::Result<()> {
        // May be refused where nobody was left to create the thread but who could not.
        let _ = Self::default().assume(base);
        set_nice_current(nice)
    }

    /// Whether a thread of this process may have this priority. A thread that ends at once tries
    /// it.
    ///
    /// # Errors
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied).
    pub(crate) fn probe(self, name: &str, base: Policy, everywhere: &CpuSet) -> Result<(), Error> {
        if self.is_base() || IS_MODEL {
            return Ok(());
        }
        let everywhere = everywhere.clone();
        let attempt = move || {
            if self.policy(base).is_deadline() {
                crate::os::sense::sched::pin_current(&everywhere)?;
            }
            self.assume(base)
        };
        let thread = thread::start("cmwq/probe", None, attempt);
        let thread = thread.map_err(|error| Error::thread("cannot try a priority", error))?;
        let outcome = thread.join().and_then(std::convert::identity);
        outcome.map_err(|error| {
            let what = match self.sched {
                Sched::Normal => format!("nice {}", self.nice),
                sched => format!("scheduling policy {sched:?}"),
            };
            Error::permission(
                format!(
                    "workqueue '{name}': {what} is refused (grant CAP_SYS_NICE, or raise \
                     RLIMIT_NICE or RLIMIT_RTPRIO)"
                ),
                error,
            )
        })
    }
}

/// As the mapping has it: policy in the upper half, priority in the lower one.
pub(crate) fn sched_word(sched: Sched) -> u64 {
    match sched {
        Sched::Normal => 0,
        Sched::Fifo(priority) => 1 << 32 | u64::from(priority),
        Sched::RoundRobin(priority) => 2 << 32 | u64::from(priority),
        Sched::Deadline { .. } => 6 << 32,
    }
}

impl Attrs {
    /// A queue's settings: its limits, and these attributes.
    pub(crate) fn recorded(&self, max_active: u32, min_active: u32) -> QueueSettings<'_> {
        QueueSettings {
            max_active,
            min_active,
            nice: self.nice,
            sched: sched_word(self.sched),
            cpumask: self.cpumask.as_ref(),
            scope: self.affinity_scope,
            is_strict: self.affinity_strict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |attrs: Attrs| attrs.check("q").map_err(|error| error.to_string());
        let deadline = |runtime, deadline, period| Sched::Deadline {
            runtime: Duration::from_micros(runtime),
            deadline: Duration::from_micros(deadline),
            period: Duration::from_micros(period),
        };
        assert_eq!(check(Attrs::new()), Ok(()));
        assert_eq!(check(Attrs::new().nice(-20)), Ok(()));
        assert_eq!(check(Attrs::new().sched(deadline(100, 200, 200))), Ok(()));
        for (attrs, part) in [
            (Attrs::new().nice(20), "nice 20"),
            (Attrs::new().nice(-21), "nice -21"),
            (Attrs::new().cpumask(CpuSet::new()), "empty cpumask"),
            (Attrs::new().sched(Sched::Fifo(0)), "priority 0"),
            (Attrs::new().sched(Sched::RoundRobin(100)), "priority 100"),
            (Attrs::new().sched(Sched::Fifo(1)).nice(1), "normal policy only"),
            (Attrs::new().sched(deadline(1, 200, 200)), "1024 ns"),
            (Attrs::new().sched(deadline(300, 200, 400)), "runtime <= deadline"),
            (Attrs::new().sched(deadline(100, 200, 150)), "deadline <= period"),
        ] {
            let wrong = check(attrs).expect_err(part);
            assert!(wrong.contains(part) && wrong.contains("'q'"), "{wrong}");
        }
    }
}
