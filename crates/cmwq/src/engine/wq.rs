//! A workqueue: a cheap front-end that leads to pools.
//!
//! An idle queue has a name, flags and one pointer; what it needs per pool (its pwq there, a
//! [`CpuPwq`]) is made when the first item goes that way. Queueing reads one published pointer and
//! takes one lock.
//!
//! Lock: WQ ([`State`]), outside of the pools' locks.

use std::fmt;

use cmwq_core::help::Length;
pub(crate) use cmwq_core::place::QueueKind as Kind;
use cmwq_core::{
    Closed, EmptyCheck, Limits, PwqLoad, PwqRef, PwqStats, PwqWaiting, Pwqs, Stays, WqKey,
};

use crate::engine::runtime::Runtime;
use crate::engine::tools::attrs::Priority;
use crate::engine::tools::limit::NodeLimits;
use crate::os::backoff::Backoff;
use crate::os::countdown::Countdown;
use crate::os::generation;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Mutex, OnceLock, Ordering, lock};
use crate::record::QueueMirror;

pub(crate) mod cpu_pwq;
mod cpu_pwqs;
pub(crate) mod flushes;
mod max_active;
mod recorded;
pub(crate) mod rescuer;

use cpu_pwq::{CpuPwq, Slot};
use cpu_pwqs::{CpuPwqs, default_attrs};
use flushes::Flushes;
use rescuer::Rescuer;

/// What a queue was asked to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) kind: Kind,
    pub(crate) highpri: bool,
    pub(crate) cpu_intensive: bool,
    pub(crate) freezable: bool,
    /// Has a rescuer.
    pub(crate) mem_reclaim: bool,
    /// Its items may wait for queues without one.
    pub(crate) legacy: bool,
    /// As it was asked for; 0: the default.
    pub(crate) max_active: u32,
    /// The same, for all CPUs together.
    pub(crate) total: Option<u32>,
}

impl Spec {
    /// A queue of this kind without other flags.
    pub(crate) const fn of(kind: Kind) -> Self {
        Self {
            kind,
            highpri: false,
            cpu_intensive: false,
            freezable: false,
            mem_reclaim: false,
            legacy: false,
            max_active: 0,
            total: None,
        }
    }

    /// The queue's limits at first.
    pub(crate) const fn limits(&self) -> Limits {
        Limits::of(self.kind, self.max_active, self.total)
    }

    pub(crate) const fn default_priority(&self) -> Priority {
        if self.highpri { Priority::HIGH } else { Priority::nice(0) }
    }
}

/// What became of an attempt to queue an item.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queueing {
    /// This call queued it.
    Queued,
    /// It was pending already, or is disabled.
    Not,
    /// The queue was closed for this, and the caller is not one of its items: the item is idle
    /// again. [`NOT`](Closed::NOT), if it is open by now. The C interface returns `true` here, as
    /// the kernel does.
    Refused(Closed),
}

/// See the module header.
pub(crate) struct Wq {
    pub(crate) key: WqKey,
    pub(crate) name: Box<str>,
    pub(crate) spec: Spec,
    pub(crate) runtime: &'static Runtime,
    /// The generation of the process that made it; see `fork`.
    pub(crate) generation: u32,
    /// If the queue has a rescuer, set before the queue is handed out.
    pub(crate) rescuer: OnceLock<Arc<Rescuer>>,
    /// One slot per CPU or pod; allocated with the first item.
    pub(crate) slots: OnceLock<Box<[Slot]>>,
    /// The bits of a [`Closed`]: see [`closed`](Self::closed).
    closed: AtomicU32,
    /// Its attributes can be written by name. Written under the registry's lock.
    in_sysfs: AtomicBool,
    /// The [`Length`] of items: see `long_items`. Of other than managed queues always short.
    length: AtomicU32,
    /// The last session of the trace that has the queue's name.
    named_to: AtomicU32,
    pub(crate) state: Mutex<State>,
    pub(crate) pwqs_to_flush: Countdown,
    pub(crate) mirror: QueueMirror,
}

// Ten million idle queues have to fit into 4 GiB, each with a name, a place in the registry and the
// allocator's overhead: `cmwq-bench idle`.
#[cfg(all(target_pointer_width = "64", not(any(cmwq_loom, cmwq_shuttle))))]
const _: () = assert!(size_of::<Wq>() <= 272);

/// Lock: WQ.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) flushes: Option<Box<Flushes>>,
    /// All pwqs, replaced ones that have not drained included.
    pub(crate) pwqs: Pwqs,
    cpu_pwqs: Option<Box<CpuPwqs>>,
    pub(crate) limits: Limits,
    pub(crate) nodes: NodeLimits,
    /// Calls of [`Wq::drain`] in progress.
    pub(crate) nr_drainers: u32,
}

impl Wq {
    pub(crate) fn new(key: WqKey, name: &str, spec: Spec, runtime: &'static Runtime) -> Self {
        let limits = spec.limits();
        let (max_active, min_active) = (limits.max_active(), limits.min_active());
        let attrs = &default_attrs(&spec);
        let settings = attrs.recorded(max_active, min_active);
        let mirror = runtime.inspect.queue(key, name, &spec.recorded(), &settings);
        Self {
            key,
            name: name.into(),
            spec,
            runtime,
            generation: generation::current(),
            rescuer: OnceLock::new(),
            slots: OnceLock::new(),
            closed: AtomicU32::new(Closed::NOT.bits()),
            in_sysfs: AtomicBool::new(false),
            length: AtomicU32::new(Length::Short as u32),
            named_to: AtomicU32::new(0),
            state: Mutex::new(State {
                flushes: None,
                pwqs: Pwqs::new(),
                limits,
                nodes: NodeLimits::default(),
                nr_drainers: 0,
                cpu_pwqs: None,
            }),
            pwqs_to_flush: Countdown::at_end(),
            mirror,
        }
    }

    /// See [`QueueMirror::add_outside`].
    pub(crate) fn add_outside(&self, change: u64) {
        self.mirror.add_outside(change);
    }

    /// The pwq for an item that is queued for `cpu`, or from the caller's CPU. The first item
    /// makes it.
    #[inline]
    pub(crate) fn cpu_pwq(&self, cpu: Option<u32>) -> &CpuPwq {
        let (slots, index) = self.slot(cpu);
        match slots[index].get() {
            Some(cpu_pwq) => cpu_pwq,
            None => self.make_cpu_pwq(slots, index),
        }
    }

    /// As [`cpu_pwq`](Self::cpu_pwq), for an item that the queue has let in. `None`: there was
    /// none, and the queue has been destroyed meanwhile.
    #[inline]
    pub(crate) fn cpu_pwq_unless_gone(&self, cpu: Option<u32>) -> Option<&CpuPwq> {
        let (slots, index) = self.slot(cpu);
        slots[index].get().or_else(|| self.make_cpu_pwq_unless_gone(slots, index))
    }

    #[inline]
    fn slot(&self, cpu: Option<u32>) -> (&[Slot], usize) {
        let slots = self.slots.get_or_init(|| {
            let count = self.runtime.nr_slots(self.spec.kind);
            (0..count).map(|_| Slot::empty()).collect()
        });
        let index = if slots.len() == 1 { 0 } else { self.runtime.slot(self.spec.kind, cpu) };
        (slots, index)
    }

    /// A worker has measured one of the queue's items.
    pub(crate) fn set_length(&self, length: Length) {
        if self.length() != length && self.spec.kind.may_leave(false) {
            // ORDERING: no pairing: a hint.
            self.length.store(length as u32, Ordering::Relaxed);
        }
    }

    /// How long its items are, as far as is known.
    #[inline]
    pub(crate) fn length(&self) -> Length {
        // ORDERING: no pairing: a hint.
        match self.length.load(Ordering::Relaxed) {
            0 => Length::Short,
            1 => Length::Long,
            _ => Length::VeryLong,
        }
    }

    /// Whether items for `cpu` wait behind `max_active`.
    pub(crate) fn is_congested(&self, cpu: Option<u32>) -> bool {
        let Some(slots) = self.slots.get() else { return false };
        let index = if slots.len() == 1 { 0 } else { self.runtime.slot(self.spec.kind, cpu) };
        let Some(&CpuPwq { pool, pwq }) = slots[index].get() else { return false };
        pool.read(|core, _| core.waiting(pwq)).is_some_and(|waiting| waiting.for_limit > 0)
    }

    /// Whether this session of the trace does not have the queue's name yet.
    #[inline]
    pub(crate) fn is_new_to(&self, session: u32) -> bool {
        // ORDERING (both): no pairing: a name written twice is no harm.
        self.named_to.load(Ordering::Relaxed) != session
    }

    /// It has it now.
    pub(crate) fn is_named_to(&self, session: u32) {
        self.named_to.store(session, Ordering::Relaxed);
    }

    /// Counters of all pwqs, removed ones included.
    pub(crate) fn stats(&self) -> PwqStats {
        let state = lock(&self.state);
        let mut sum = state.removed();
        for at in state.pwqs.iter() {
            if let Some(pool) = self.runtime.pool(at.pool) {
                sum += pool.stats_of(at.pwq);
            }
        }
        sum
    }

    /// What waits in all pwqs.
    pub(crate) fn waiting(&self) -> PwqWaiting {
        let pwqs = lock(&self.state).pwqs.clone();
        let mut sum = PwqWaiting::default();
        for at in pwqs.iter() {
            let Some(pool) = self.runtime.pool(at.pool) else { continue };
            sum += pool.read(|core, _| core.waiting(at.pwq)).unwrap_or_default();
        }
        sum
    }

    /// A number that changes whenever an item of the queue starts, ends, or is taken back.
    pub(crate) fn progress(&self) -> u64 {
        let state = lock(&self.state);
        let mut sum = state.removed();
        for at in state.pwqs.iter() {
            let Some(pool) = self.runtime.pool(at.pool) else { continue };
            sum += pool.read(|core, _| core.stats(at.pwq)).unwrap_or_default();
        }
        sum.progress()
    }

    /// Whether any of its pwqs is loaded like this, each at the moment when it is read.
    pub(crate) fn any_pwq(&self, is: impl Fn(PwqLoad) -> bool) -> bool {
        let pwqs = lock(&self.state).pwqs.clone();
        let load = |at: PwqRef| {
            let pool = self.runtime.pool(at.pool)?;
            pool.read(|core, _| core.load(at.pwq))
        };
        pwqs.iter().filter_map(load).any(is)
    }

    /// Whether none of its pwqs is loaded like this, all at the same moment. Of a closed queue,
    /// which takes in only what its own items queue: so that it is empty, and stays so.
    pub(crate) fn no_pwq(&self, is: impl Fn(PwqLoad) -> bool) -> bool {
        let look = EmptyCheck::begin(self.progress());
        look.finds_it_empty(self.any_pwq(is), || self.progress())
    }

    /// Whether nothing is queued, running or waited for. See [`no_pwq`](Self::no_pwq).
    pub(crate) fn is_idle(&self) -> bool {
        self.no_pwq(|load| load.is_in_flight)
    }
}

impl Wq {
    /// Removes a pwq that has nothing in flight, whose counters are the queue's from then on.
    /// `false`: its rescuer visits, and removes the pwq when it leaves.
    pub(crate) fn remove_pwq(&self, state: &mut State, at: PwqRef) -> bool {
        let Some(pool) = self.runtime.pool(at.pool) else { return true };
        let mut backoff = Backoff::new();
        loop {
            let removed = self.mirror.take_over(|| {
                state.count_removed(pool.remove_pwq(at.pwq)?);
                Ok(state.removed())
            });
            match removed {
                Ok(()) => return true,
                Err(Stays::Visited) => return false,
                Err(Stays::AwaitsSlot | Stays::InUse) => backoff.pause(),
            }
        }
    }
}

impl Wq {
    /// Whether it belongs to this process, and not to a parent that it was forked from.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.generation == generation::current()
    }

    /// Lets only chained items in from now on, because of `why`. `false`: it was closed for that
    /// reason before.
    pub(crate) fn close(&self, why: Closed) -> bool {
        // ORDERING: no pairing: see `closed`.
        let before = self.closed.fetch_or(why.bits(), Ordering::Relaxed);
        !Closed::from_bits(before).is_for(why)
    }

    /// [Closes](Self::close) the queue for draining, or ends that. The caller has the lock (WQ).
    pub(crate) fn set_draining(&self, is_draining: bool) {
        let bit = Closed::DRAINING.bits();
        // ORDERING: no pairing: see `closed`.
        if is_draining {
            self.closed.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.closed.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// The reasons for which it takes in chained items only, at this moment.
    #[inline]
    pub(crate) fn closed(&self) -> Closed {
        // ORDERING: no pairing: a thread that queues while the queue is being closed may be let in
        // or not. One that arms a timer asks under the timers' lock, which the thread that shuts
        // the queue down takes afterwards; one that comes late asks under its pool's lock, which
        // the thread that destroys the queue takes afterwards.
        Closed::from_bits(self.closed.load(Ordering::Relaxed))
    }

    /// Whether it is being destroyed.
    pub(crate) fn is_going(&self) -> bool {
        self.closed().is_for(Closed::DESTROYING)
    }

    /// Whether it has left all pools: its counters are final.
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) fn is_gone(&self) -> bool {
        self.is_going() && lock(&self.state).pwqs.is_empty()
    }

    /// Whether its attributes can be written by name. KERNEL: `WQ_SYSFS` — same, also for queues
    /// that were registered later.
    pub(crate) fn is_in_sysfs(&self) -> bool {
        // ORDERING: no pairing: a switch.
        self.in_sysfs.load(Ordering::Relaxed) && !self.is_going()
    }

    pub(crate) fn set_in_sysfs(&self) {
        // ORDERING: no pairing: a switch; names are looked up under the registry's lock.
        self.in_sysfs.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Wq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The limit in force.
        let spec = Spec { max_active: self.max_active(), ..self.spec };
        f.debug_struct("Workqueue").field("name", &self.name).field("spec", &spec).finish()
    }
}
