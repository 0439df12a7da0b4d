//! A workqueue: a cheap front-end that leads to pools.
//!
//! An idle queue has a name, flags and one pointer; what it needs per pool (a [`Link`] to its pwq
//! there) is made when the first item goes that way. Queueing reads one published pointer and takes
//! one lock.
//!
//! Lock: WQ ([`State`]), outside of the pools' locks.

use std::fmt;
use std::mem;
use std::ptr::NonNull;

use cmwq_core::{
    Enqueued, Kick, Limits, PwqRef, PwqStats, PwqWaiting, Sharing, WorkItem, WorkWord, WqKey,
    consts,
};

use crate::engine::attrs::Priority;
use crate::engine::caller_computes;
use crate::engine::limit::NodeLimits;
use crate::engine::link::{Link, Slot};
use crate::engine::pool::Pool;
use crate::engine::rescuer::Rescuer;
use crate::engine::runtime::{HIGHPRI_NICE, Runtime};
use crate::os::countdown::Countdown;
use crate::os::generation;
use crate::os::rest::Rest;
use crate::os::sync::{Arc, AtomicBool, AtomicU32, Mutex, OnceLock, Ordering, lock};
use crate::record::QueueMirror;
use crate::record::trace;

mod flush;
mod handle;
mod placing;
mod timers;

use flush::Flushes;
pub(crate) use handle::Handle;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use handle::lock_successors;
use placing::{Placing, default_attrs};
pub(crate) use timers::TimersHandle;

/// What kind of pools a queue leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Percpu,
    /// Per-CPU, run by the CPU's BH context.
    Bh,
    Unbound,
    Managed,
    /// Unbound, one pool, one item at a time, in order.
    Ordered,
}

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
    pub(crate) max_active: u32,
    /// Of a per-CPU queue, for all CPUs together.
    pub(crate) total: Option<u32>,
}

impl Spec {
    /// A queue of this kind with nothing special about it.
    pub(crate) const fn of(kind: Kind) -> Self {
        let max_active = consts::WQ_DFL_ACTIVE;
        Self {
            kind,
            highpri: false,
            cpu_intensive: false,
            freezable: false,
            mem_reclaim: false,
            legacy: false,
            max_active,
            total: None,
        }
    }

    /// What it allows itself, `total` being for all its pwqs together if they are not limited
    /// together otherwise.
    pub(crate) const fn limits(&self) -> Limits {
        let Self { max_active, .. } = *self;
        match (self.kind, self.total) {
            (Kind::Unbound | Kind::Managed, _) => Limits::new(Sharing::Nodes, max_active),
            (Kind::Ordered, None) => Limits::new(Sharing::Each, 1),
            (Kind::Ordered, Some(total)) => Limits::new(Sharing::Total(total), 1),
            (_, None) => Limits::new(Sharing::Each, max_active),
            (_, Some(total)) => Limits::new(Sharing::Total(total), max_active),
        }
    }

    pub(crate) const fn default_priority(&self) -> Priority {
        Priority::nice(if self.highpri { HIGHPRI_NICE } else { 0 })
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
    /// The queue drains or goes, and the caller is not one of its items: the item is idle again.
    /// The C interface says `true` here, as the kernel does.
    Refused,
}

/// See the module header.
pub(crate) struct Wq {
    pub(crate) key: WqKey,
    pub(crate) name: Box<str>,
    pub(crate) spec: Spec,
    pub(crate) runtime: &'static Runtime,
    /// Of the process that made it; see `fork`.
    generation: u32,
    /// Set before the queue is handed out, if it is to have one.
    pub(crate) rescuer: OnceLock<Arc<Rescuer>>,
    /// One slot per CPU or pod; allocated with the first item.
    slots: OnceLock<Box<[Slot]>>,
    /// [`DRAINING`], [`DESTROYING`] and [`SHUT`]: only chained items are let in.
    pub(crate) flags: AtomicU32,
    /// Its attributes can be written by name. Written under the registry's lock.
    in_sysfs: AtomicBool,
    /// Items need the CPU for long: see `lengths`. Only of managed queues.
    has_long_items: AtomicBool,
    /// The reader of traces that was told the queue's name last.
    named_to: AtomicU32,
    pub(crate) state: Mutex<State>,
    pwqs_to_flush: Countdown,
    mirror: QueueMirror,
}

// Ten million idle queues have to fit into 4 GiB, with a name, a place in the registry and what the
// allocator adds: `cmwq-bench idle`.
#[cfg(all(target_pointer_width = "64", not(any(cmwq_loom, cmwq_shuttle))))]
const _: () = assert!(size_of::<Wq>() <= 272);

/// Somebody drains the queue. KERNEL: `__WQ_DRAINING` — same.
pub(crate) const DRAINING: u32 = 1 << 0;
/// The queue is being taken down, for good. KERNEL: `__WQ_DESTROYING` — same.
pub(crate) const DESTROYING: u32 = 1 << 1;
/// The library was shut down.
pub(crate) const SHUT: u32 = 1 << 2;

/// Lock: WQ.
#[derive(Debug)]
pub(crate) struct State {
    flushes: Option<Box<Flushes>>,
    /// All pwqs, oldest first, replaced ones that have not drained included.
    pub(crate) links: Vec<PwqRef>,
    placing: Option<Box<Placing>>,
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
            flags: AtomicU32::new(0),
            in_sysfs: AtomicBool::new(false),
            has_long_items: AtomicBool::new(false),
            named_to: AtomicU32::new(0),
            state: Mutex::new(State {
                flushes: None,
                links: Vec::new(),
                limits,
                nodes: NodeLimits::default(),
                nr_drainers: 0,
                placing: None,
            }),
            pwqs_to_flush: Countdown::at_end(),
            mirror,
        }
    }

    /// See [`QueueMirror::add_outside`].
    pub(crate) fn add_outside(&self, change: u64) {
        self.mirror.add_outside(change);
    }

    /// The way for an item that was queued for `cpu`, or from here.
    #[inline]
    pub(crate) fn link(&self, cpu: Option<u32>) -> &Link {
        let slots = self.slots.get_or_init(|| {
            let count = self.runtime.nr_slots(self.spec.kind);
            (0..count).map(|_| Slot::empty()).collect()
        });
        let index = if slots.len() == 1 { 0 } else { self.runtime.slot(self.spec.kind, cpu) };
        match slots[index].get() {
            Some(link) => link,
            None => self.make_link(slots, index),
        }
    }

    /// Whether the way depends on who queues.
    #[inline]
    fn has_choice(&self, cpu: Option<u32>) -> bool {
        // ORDERING: no pairing: a hint.
        self.has_long_items.load(Ordering::Relaxed) && cpu.is_none()
    }

    /// The CPU whose way an item goes that is queued now, if not that from here. To be asked once
    /// for each.
    #[inline]
    fn choose(&self, cpu: Option<u32>) -> Option<u32> {
        if self.has_choice(cpu) { caller_computes::other_cpu(self.link(None).pool) } else { cpu }
    }

    /// Its items were found to be long, or short.
    pub(crate) fn note_lengths(&self, are_long: bool) {
        let are_long = are_long && self.spec.kind == Kind::Managed;
        // ORDERING: no pairing: a hint.
        if self.has_long_items.load(Ordering::Relaxed) != are_long {
            self.has_long_items.store(are_long, Ordering::Relaxed);
        }
    }

    // ---- queueing

    /// Queues an item.
    ///
    /// KERNEL: `queue_work_on`, `__queue_work` — same; an idle item whose last pool is the chosen
    /// one is claimed and queued by one atomic operation under the pool's lock.
    ///
    /// # Safety
    /// `item` must be valid with the provenance of the object that holds it, and stay where it is
    /// until its function is entered, if the result is `Queued`.
    #[inline]
    pub(crate) unsafe fn queue_item(&self, cpu: Option<u32>, item: NonNull<WorkItem>) -> Queueing {
        let is_in_turn = self.spec.kind == Kind::Unbound && self.runtime.params.debug_force_rr_cpu;
        let cpu = if is_in_turn && cpu.is_none() { self.runtime.cpu_in_turn() } else { cpu };
        // SAFETY: valid by the caller's promise.
        let seen = unsafe { item.as_ref() }.word();
        if self.lets_in() && !self.has_choice(cpu) {
            let link = self.link(cpu);
            let is_at_home = seen.pool().is_none_or(|last| last == link.pool.id);
            if is_at_home && !seen.is_pending() && seen.disable_depth() == 0 {
                // SAFETY: passed on to the caller.
                if unsafe { self.queue_at_home(link, item, seen, cpu) } {
                    return Queueing::Queued;
                }
            }
        }
        // SAFETY: as above.
        let item_ref = unsafe { item.as_ref() };
        let is_pending = item_ref.claim().is_pending();
        if is_pending && !(generation::is_child() && self.runtime.take_over(item_ref)) {
            return Queueing::Not;
        }
        // SAFETY: PENDING is ours now.
        unsafe { self.queue_won(cpu, item) }
    }

    /// Queues an item whose PENDING the caller has just won: unless it is disabled.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    pub(crate) unsafe fn queue_won(&self, cpu: Option<u32>, item: NonNull<WorkItem>) -> Queueing {
        // SAFETY: valid by the caller's promise.
        let word = unsafe { item.as_ref() }.word();
        if word.disable_depth() != 0 {
            // SAFETY: valid by the caller's promise.
            unsafe { item.as_ref() }.release(word);
            return Queueing::Not;
        }
        // SAFETY: passed on to the caller.
        unsafe { self.queue_claimed(cpu, item) }
    }

    /// Queues an item whose last pool is the chosen one. `false`: its word has changed meanwhile.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    #[inline]
    unsafe fn queue_at_home(
        &self,
        link: &Link,
        item: NonNull<WorkItem>,
        seen: WorkWord,
        cpu: Option<u32>,
    ) -> bool {
        let Link { pool, pwq } = *link;
        #[cfg(feature = "tracing")]
        // SAFETY: valid by the caller's promise.
        let func = unsafe { item.as_ref() }.func();
        if pool.inbox.is_saturated() {
            debug_assert!(!self.is_replaceable(), "an unbound pool was saturated");
            // SAFETY: valid by the caller's promise.
            if !unsafe { item.as_ref() }.claim_for(seen, pool.id) {
                return false;
            }
            trace::ready();
            trace::queue_work(self, pool, item, cpu);
            // SAFETY: PENDING is ours, and the word names the pool.
            if !unsafe { pool.inbox.push(item, pwq) } {
                pool.relieve_inbox();
            }
            #[cfg(feature = "tracing")]
            trace::queued(self, item.as_ptr(), func);
            return true;
        }
        if self.spec.limits().are_shared() {
            // See `PoolState::enqueue_idle`.
            return false;
        }
        let mut guard = pool.lock_to_queue();
        if self.is_replaced(link, &guard.core) {
            pool.unlock(guard, Kick::None);
            return false;
        }
        // SAFETY: passed on to the caller.
        let queued = unsafe { guard.core.enqueue_idle(pwq, item, seen) };
        let (queued, kick) = match queued {
            Enqueued::Queued(kick) => {
                trace::queue_work(self, pool, item, cpu);
                (true, kick)
            }
            Enqueued::Changed => (false, Kick::None),
        };
        pool.unlock(guard, kick);
        #[cfg(feature = "tracing")]
        if queued {
            trace::queued(self, item.as_ptr(), func);
        }
        queued
    }

    /// Queues an item whose PENDING the caller owns, whether it is disabled or not. Never `Not`.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    pub(crate) unsafe fn queue_claimed(
        &self,
        cpu: Option<u32>,
        item: NonNull<WorkItem>,
    ) -> Queueing {
        // SAFETY: valid by the caller's promise.
        let (word, func) = unsafe { (item.as_ref().word(), item.as_ref().func()) };
        if !self.lets_in() {
            self.say_refused(func);
            // SAFETY: valid by the caller's promise.
            unsafe { item.as_ref() }.release(word);
            return Queueing::Refused;
        }
        let last = word.pool();
        let way = self.choose(cpu);
        loop {
            let link = self.link(way);
            let (mut pool, mut pwq) = (link.pool, link.pwq);
            // Non-reentrance: a pool that still runs the item for this queue runs it again.
            let elsewhere = last.filter(|&last| last != pool.id && self.spec.kind != Kind::Ordered);
            let mut guard = None;
            if let Some(other) = elsewhere.and_then(|last| self.runtime.pool(last)) {
                let locked = other.lock();
                if let Some(same) = locked.core.executing_on(item.as_ptr() as usize, func, self.key)
                {
                    (pool, pwq) = (other, same);
                    guard = Some(locked);
                } else {
                    other.unlock(locked, Kick::None);
                }
            }
            let is_redirected = guard.is_some();
            let mut guard = guard.unwrap_or_else(|| pool.lock());
            // A pwq that runs the item takes it though it is retired.
            if !is_redirected && self.is_replaced(link, &guard.core) {
                // Its successor was published before it was retired: this ends.
                pool.unlock(guard, Kick::None);
                continue;
            }
            trace::queue_work(self, pool, item, cpu);
            // SAFETY: PENDING is owned by the caller.
            let kick = unsafe { guard.core.enqueue(pwq, item) };
            pool.unlock(guard, kick);
            #[cfg(feature = "tracing")]
            trace::queued(self, item.as_ptr(), func);
            return Queueing::Queued;
        }
    }

    // ---- waiting

    /// Whether items for `cpu` wait behind `max_active`.
    pub(crate) fn is_congested(&self, cpu: Option<u32>) -> bool {
        let Some(slots) = self.slots.get() else { return false };
        let index = if slots.len() == 1 { 0 } else { self.runtime.slot(self.spec.kind, cpu) };
        let Some(&Link { pool, pwq }) = slots[index].get() else { return false };
        let guard = pool.lock();
        let is_congested = guard.core.pwq_load(pwq).is_some_and(|load| load.1);
        pool.unlock(guard, Kick::None);
        is_congested
    }

    /// Whether this reader of traces has not been told the queue's name; it counts as told now.
    pub(crate) fn is_new_to(&self, session: u32) -> bool {
        // ORDERING: no pairing: a name told twice is no harm.
        if self.named_to.load(Ordering::Relaxed) == session {
            return false;
        }
        self.named_to.swap(session, Ordering::Relaxed) != session
    }

    /// Counters of all pwqs, also of those that were removed.
    pub(crate) fn stats(&self) -> PwqStats {
        let state = lock(&self.state);
        let mut sum = state.removed();
        for link in &state.links {
            if let Some(pool) = self.runtime.pool(link.pool) {
                sum += pool.stats_of(link.pwq);
            }
        }
        sum
    }

    /// What waits in all pwqs.
    pub(crate) fn waiting(&self) -> PwqWaiting {
        let links = lock(&self.state).links.clone();
        let mut sum = PwqWaiting::default();
        for at in links {
            let Some(pool) = self.runtime.pool(at.pool) else { continue };
            let guard = pool.lock();
            sum += guard.core.pwq_waiting(at.pwq).unwrap_or_default();
            pool.unlock(guard, Kick::None);
        }
        sum
    }

    /// Changes whenever an item of the queue starts, ends, or is taken back.
    pub(crate) fn progress(&self) -> u64 {
        let state = lock(&self.state);
        let mut sum = state.removed();
        for link in &state.links {
            let Some(pool) = self.runtime.pool(link.pool) else { continue };
            sum += pool.lock_only().core.pwq_stats(link.pwq).unwrap_or_default();
        }
        sum.started + sum.completed + sum.cancelled
    }

    /// What the queue has in its pools: of each pwq, see [`PoolState::pwq_load`].
    ///
    /// [`PoolState::pwq_load`]: cmwq_core::PoolState::pwq_load
    pub(crate) fn any_pwq(&self, is: impl Fn((u32, bool, bool)) -> bool) -> bool {
        let links = lock(&self.state).links.clone();
        links.iter().any(|at| {
            self.runtime.pool(at.pool).is_some_and(|pool| {
                let guard = pool.lock();
                let load = guard.core.pwq_load(at.pwq);
                pool.unlock(guard, Kick::None);
                load.is_some_and(&is)
            })
        })
    }

    /// Whether anything is queued, running or waited for.
    pub(crate) fn is_busy(&self) -> bool {
        self.any_pwq(|(_, _, in_flight)| in_flight)
    }

    /// Takes no more items, and waits for those it has. Who was let in before may still queue one.
    pub(crate) fn close_and_drain(&self) {
        self.close(DESTROYING);
        self.drain();
        while self.is_busy() {
            self.flush();
        }
    }

    /// Drains the queue and leaves all pools. Nobody may queue on it any more: who was let in
    /// before it was closed would find its pwqs gone.
    ///
    /// KERNEL: `destroy_workqueue` — differs: where somebody still waits for one of the queue's
    /// items, which makes Linux leak the queue, this waits for him.
    pub(crate) fn destroy(&self) {
        self.close_and_drain();
        // Before the pwqs go that it may be called for.
        if let Some(rescuer) = self.rescuer.get() {
            rescuer.stop();
        }
        let mut state = lock(&self.state);
        let was_used = !state.links.is_empty();
        Self::forget_retired(&mut state);
        for at in mem::take(&mut state.links) {
            // The rescuer has gone.
            state.count_removed(self.remove_pwq(at).unwrap_or_default());
            self.mirror.settle_retired(&state.removed());
            if let Some(pool) = self.runtime.pool(at.pool) {
                pool.close_if_unused();
            }
        }
        drop(state);
        if !was_used {
            return;
        }
        // Another queue may get the key, whose name the threads that showed this one's must show.
        for thread in self.runtime.pools().flat_map(Pool::threads) {
            thread.comm.forget(self.key);
        }
    }
}

impl Wq {
    /// Removes a pwq that has nothing in flight; its final counters. `None`: its rescuer visits,
    /// and will look after it when it leaves. It may need WQ before, or be the caller.
    fn remove_pwq(&self, at: PwqRef) -> Option<PwqStats> {
        let Some(pool) = self.runtime.pool(at.pool) else { return Some(PwqStats::default()) };
        // Refused while a slot of the node is on its way here: who brings it needs no more than the
        // pool's lock.
        let mut rest = Rest::new();
        loop {
            if let Some(stats) = pool.remove_pwq(at.pwq) {
                return Some(stats);
            }
            if pool.lock_only().core.is_visited(at.pwq) {
                return None;
            }
            rest.rest();
        }
    }
}

impl Wq {
    /// Whether it belongs to this process, and not to the one that this is a child of.
    pub(crate) fn is_own(&self) -> bool {
        self.generation == generation::current()
    }

    /// Whether it is being taken down.
    pub(crate) fn is_going(&self) -> bool {
        // ORDERING: no pairing: who looks at the same time may find it or not.
        self.flags.load(Ordering::Relaxed) & DESTROYING != 0
    }

    /// Whether it has left all pools: its counters are final.
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) fn is_gone(&self) -> bool {
        self.is_going() && lock(&self.state).links.is_empty()
    }

    /// Whether its attributes can be written by name. KERNEL: `WQ_SYSFS` — same, also for queues
    /// that were registered later.
    pub(crate) fn is_in_sysfs(&self) -> bool {
        // ORDERING: no pairing: a switch.
        self.in_sysfs.load(Ordering::Relaxed) && !self.is_going()
    }

    pub(crate) fn note_in_sysfs(&self) {
        // ORDERING: no pairing: a switch; who looks for names holds the registry's lock.
        self.in_sysfs.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Wq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workqueue").field("name", &self.name).field("spec", &self.spec).finish()
    }
}
