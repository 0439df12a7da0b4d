//! Where a pool's workers run: pinning them, moving them when their CPU leaves or comes, and
//! dismissing them when no queue needs them.
//!
//! Lock: attach ([`Pool::attach`]), outside of the pool's lock. The lock protects the CPUs to which
//! the workers belong now. Under it a thread publishes its tid, and is pinned by others, so nobody
//! pins by the tid of a thread that has ended. It pins itself outside of the lock, since it may
//! have to wait for the CPU that it goes to, and asks afterwards whether it belongs there still: so
//! each thread ends up where it belongs, and nobody waits with it.
//!
//! Why: docs/decisions/pods-that-workers-may-leave.md

use std::cell::Cell;

use cmwq_core::place::Belonging;
use cmwq_core::{Creator, Kick, LockFor, PwqConfig, PwqId};

use super::{Locked, Pool, PoolGuard, PoolKind, PoolSpec};
use crate::engine::runtime::Runtime;
use crate::engine::runtime::placement::{CpusInUse, Placed};
use crate::engine::tools::attrs::Sched;
use crate::engine::tools::thread::Thread;
use crate::os::notice::{self, Notice};
use crate::os::sense;
use crate::os::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, lock, lock_plain, try_lock};
use crate::os::topo::{self, CpuSet};

/// No CPU in particular.
pub(super) const NOWHERE: u32 = u32::MAX;

/// See the module header.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Lock: attach.
    cpus: Mutex<Where>,
    /// The CPU that every worker is pinned to, or `NOWHERE`. A hint for [`Pool::is_misplaced`].
    pinned_to: AtomicU32,
}

/// Where a pool's workers may be.
#[derive(Debug)]
struct Where {
    /// When they start an item.
    bound: CpuSet,
    /// When they wake up from a wait in one.
    unbound: CpuSet,
    /// How often that has changed.
    nr_moves: u64,
}

impl Attachment {
    /// Of a new pool.
    pub(super) fn new(spec: &PoolSpec, placed: Placed, runtime: &Runtime) -> Self {
        let is_pinned = placed.belonging.is_pinned;
        let cpus = Where::new(spec, placed, runtime);
        let pinned_to = AtomicU32::new(cpus.pinned_to(is_pinned));
        Self { cpus: Mutex::new(cpus), pinned_to }
    }
}

impl Where {
    fn new(spec: &PoolSpec, placed: Placed, runtime: &Runtime) -> Self {
        let Placed { bound, unbound, .. } = placed;
        let [bound, unbound] = [&bound, &unbound].map(|cpus| within_reach(spec, runtime, cpus));
        Self { bound, unbound, nr_moves: 0 }
    }

    /// They belong somewhere else from now on.
    fn move_to(&mut self, other: Self) {
        *self = Self { nr_moves: self.nr_moves + 1, ..other };
    }

    fn pinned_to(&self, is_pinned: bool) -> u32 {
        let is_one = is_pinned && self.bound.count() == 1;
        self.bound.first().filter(|_| is_one).unwrap_or(NOWHERE)
    }
}

/// The CPUs to which workers that belong on `cpus` can be pinned: for deadline threads all CPUs.
fn within_reach(spec: &PoolSpec, runtime: &Runtime, cpus: &CpuSet) -> CpuSet {
    match spec.priority.sched {
        Sched::Deadline { .. } => runtime.machine.possible(),
        _ => runtime.machine.real_cpus(cpus),
    }
}

/// Whether workers of such a pool may leave the pod in which they begin.
pub(super) fn may_stray(spec: &PoolSpec) -> bool {
    let is_deadline = matches!(spec.priority.sched, Sched::Deadline { .. });
    spec.kind.in_core().may_leave_pod(spec.pod == spec.cpus, is_deadline)
}

impl Where {
    const fn bound(&self) -> &CpuSet {
        &self.bound
    }

    const fn unbound(&self) -> &CpuSet {
        &self.unbound
    }

    fn of(&self, thread: &Thread) -> &CpuSet {
        if thread.is_unbound() { &self.unbound } else { &self.bound }
    }
}

impl Pool {
    /// Pins the calling thread, a new worker, to its CPUs. A refusal is reported once, and the
    /// worker runs unpinned.
    pub(crate) fn attach(&self, thread: &Thread) {
        let tid = sense::sched::gettid().unsigned_abs();
        let here = lock(&self.attachment.cpus);
        thread.comm.set_tid(tid);
        thread.mirror.set_tid(tid);
        self.settle(here, Where::bound, |cpus| {
            let Err(error) = sense::sched::pin_current(cpus) else { return };
            if sense::sched::is_absent(&error) {
                // The CPUs are leaving, or have left unnoticed. Until the service has looked, the
                // worker runs on all CPUs of the process, and not only on those of its creator.
                let everywhere = self.runtime.machine.possible();
                let _ = sense::sched::pin_current(&everywhere);
                self.runtime.service.rescan_soon();
                return;
            }
            // ORDERING (here and below): no pairing: a hint.
            self.attachment.pinned_to.store(NOWHERE, Ordering::Relaxed);
            notice::once(Notice::PinRefused, || {
                format!(
                    "workers cannot be pinned to CPUs {cpus} ({error}); they run where the system \
                     puts them"
                )
            });
        });
    }

    /// Lets the calling thread, a worker, go to the CPUs where it belongs, without the lock: who
    /// goes to a CPU that something urgent keeps busy is back only when it gets that CPU, and the
    /// service thread takes this lock. Have the CPUs changed meanwhile, it goes again: it may have
    /// left where it was moved to.
    fn settle<'a>(
        &'a self,
        mut here: MutexGuard<'a, Where>,
        which: impl Fn(&Where) -> &CpuSet,
        go: impl Fn(&CpuSet),
    ) {
        loop {
            let (cpus, nr_moves) = (which(&here).clone(), here.nr_moves);
            drop(here);
            go(&cpus);
            here = lock(&self.attachment.cpus);
            if here.nr_moves == nr_moves {
                return;
            }
        }
    }

    /// The CPUs to which its workers belong now.
    pub(crate) fn whereabouts(&self) -> CpuSet {
        lock(&self.attachment.cpus).bound.clone()
    }

    /// Where its workers belong, where they may wake up, and the CPU that they are pinned to.
    #[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
    pub(crate) fn belonging(&self) -> (CpuSet, CpuSet, Option<u32>) {
        let here = lock(&self.attachment.cpus);
        let pinned_to = self.attachment.pinned_to.load(Ordering::Relaxed);
        (here.bound.clone(), here.unbound.clone(), Some(pinned_to).filter(|cpu| *cpu != NOWHERE))
    }

    /// The calling thread, a worker, ends.
    pub(crate) fn detach(&self, thread: &Thread) {
        let _cpus = lock(&self.attachment.cpus);
        thread.comm.forget_tid();
        thread.mirror.set_tid(0);
    }

    /// Lets a worker that is blocked in run `seq` wake up wherever a CPU is idle, if the core says
    /// so ([`PoolState::is_unbound`](cmwq_core::PoolState::is_unbound)). Caller holds no core lock.
    pub(crate) fn unbind(&self, thread: &Thread, seq: u64) {
        if thread.is_unbound() {
            return;
        }
        // Who holds the lock may have lost its CPU to something urgent: a detector does not wait
        // for it.
        let Some(here) = try_lock(&self.attachment.cpus) else { return };
        let Some(tid) = thread.comm.tid().filter(|_| thread.is_in_run(seq)) else { return };
        thread.set_unbound(true);
        // If this is refused, the worker wakes up on its pool's CPU, as without it.
        let _ = sense::sched::pin(tid, &here.unbound);
    }

    /// Lets the calling thread, a worker in a function, run on all CPUs where it might wake up. It
    /// is brought [back](Self::rebind) as one that was found blocked.
    pub(crate) fn leave_cpu(&self, thread: &Thread) {
        let here = lock(&self.attachment.cpus);
        thread.set_unbound(true);
        // If this is refused, the worker stays on its pool's CPU.
        self.settle(here, Where::unbound, |cpus| drop(sense::sched::pin_current(cpus)));
    }

    /// Brings the calling thread, a worker that was [unbound](Self::unbind), back to its pool's
    /// CPUs when it wakes up from idling. A worker that takes another item without having been idle
    /// stays where it is: moving costs more than it gains, and the item would wait meanwhile.
    #[cold]
    pub(crate) fn rebind(&self, thread: &Thread) {
        let here = lock(&self.attachment.cpus);
        thread.set_unbound(false);
        // If this is refused, the CPU has left, which `is_misplaced` notices.
        self.settle(here, Where::bound, |cpus| drop(sense::sched::pin_current(cpus)));
    }

    /// Whether a worker that enters a function on `cpu` should be elsewhere.
    #[inline]
    pub(crate) fn is_misplaced(&self, cpu: u32) -> bool {
        let pinned_to = self.attachment.pinned_to.load(Ordering::Relaxed);
        pinned_to != cpu && pinned_to != NOWHERE
    }

    /// The pool's own CPUs, present or not.
    pub(crate) fn own_cpus(&self) -> CpuSet {
        match self.pod {
            // The only managed pod has all CPUs.
            None if self.kind == PoolKind::Managed => self.runtime.machine.possible(),
            _ => self.spec().pod.clone(),
        }
    }

    /// Where its workers may run, present or not: those of the only managed pod where managed
    /// queues run now, which need not be where they ran when it was made.
    pub(crate) fn worker_cpus(&self) -> CpuSet {
        match self.pod {
            None if self.kind == PoolKind::Managed => self.runtime.placement.now().managed.clone(),
            _ => self.spec().cpus.clone(),
        }
    }

    /// Where its workers belong as the CPUs are.
    pub(crate) fn placed(&self, in_use: &CpusInUse) -> Placed {
        in_use.place(&self.runtime.machine, &self.spec(), self.pod.is_some())
    }

    /// From now on its workers belong where these CPUs want them. The system lets a thread whose
    /// last CPU leaves go anywhere, and does not bring it back.
    ///
    /// KERNEL: `unbind_worker`, `rebind_workers` — same order: a pool gives up its concurrency
    /// management before its workers move away, and takes it up when they are back. Queued items
    /// stay.
    pub(crate) fn follow(&'static self, in_use: &CpusInUse) {
        // Only an unbound pool may become another one meanwhile, and that keeps its concurrency.
        let belonging = self.placed(in_use).belonging;
        if belonging.is_disassociated {
            self.manage(belonging);
        }
        let mut here = lock(&self.attachment.cpus);
        here.move_to(Where::new(&self.spec(), self.placed(in_use), self.runtime));
        let pinned_to = here.pinned_to(belonging.is_pinned);
        self.attachment.pinned_to.store(pinned_to, Ordering::Relaxed);
        for thread in self.threads() {
            let Some(tid) = thread.comm.tid() else { continue };
            // If this is refused, the worker stays where it is, and reports that it is misplaced
            // when it runs an item.
            let _ = sense::sched::pin(tid, here.of(&thread));
        }
        drop(here);
        if !belonging.is_disassociated {
            self.manage(belonging);
        }
    }

    fn manage(&'static self, belonging: Belonging) {
        let mut guard = self.lock(LockFor::Find);
        guard.is_disassociated = belonging.is_disassociated;
        guard.may_help = belonging.may_help();
        let kick = guard.core.set_concurrency(belonging.concurrency);
        guard.record_cpus();
        self.unlock(guard, kick);
    }

    /// Whether its workers may help other pods. Caller holds no core lock.
    pub(crate) fn may_help(&self) -> bool {
        self.read(|_, locked| locked.may_help)
    }

    /// Whether its CPU is gone. Caller holds no core lock.
    #[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
    pub(crate) fn is_disassociated(&self) -> bool {
        self.read(|_, locked| locked.is_disassociated)
    }

    /// The CPUs whose sentinels send it an alarm. Asked by the tick, which must not wait for the
    /// attach lock.
    pub(crate) fn guarded_cpus(&self) -> Option<CpuSet> {
        match self.kind {
            PoolKind::Cpu(_) | PoolKind::Managed => {
                let Placed { bound, belonging, .. } = self.placed(&self.runtime.placement.now());
                (!belonging.is_disassociated).then_some(bound)
            }
            PoolKind::Unbound | PoolKind::Bh(_) => None,
        }
    }

    // ---- what queues lead here

    /// Makes a queue's pwq here, and a worker if there is none, as in a new pool.
    ///
    /// `cpu`: the CPU whose items come this way, if it is only one.
    /// `None`: the pool has been [renewed](Self::renew), so `spec` is not its spec any more.
    pub(crate) fn add_pwq(
        &'static self,
        spec: &Arc<PoolSpec>,
        config: PwqConfig,
        plugged: bool,
        cpu: Option<u32>,
    ) -> Option<PwqId> {
        let mut guard = self.lock(LockFor::Counts);
        // Both are alive, so equal addresses mean the same spec.
        if !Arc::ptr_eq(&lock_plain(&self.spec), spec) {
            return None;
        }
        let (wq, max_active) = (config.wq, config.max_active);
        let Locked { core, mirror, .. } = &mut *guard;
        let pwq = core.add_pwq(config);
        mirror.add_pwq(core, wq, pwq, max_active, cpu);
        guard.record_cpus();
        if plugged {
            guard.core.plug_pwq(pwq);
        }
        self.begin(guard);
        Some(pwq)
    }

    /// Makes the first worker of a pool that is new, or is used again.
    pub(crate) fn begin(&'static self, guard: PoolGuard<'_>) {
        let is_to_begin = guard.core.is_to_begin(self.kind.in_core());
        drop(guard);
        if is_to_begin {
            let _ = self.ask_for_worker(Creator::Begin);
        }
    }

    /// Dismisses all workers if no queue leads here any more. A queue that comes back finds the
    /// pool like a new one.
    ///
    /// KERNEL: `put_unbound_pool` — differs: the pool stays, for the ids in idle items' words,
    /// until other queues [need it](Self::renew).
    #[cold]
    pub(crate) fn close_if_unused(&'static self) {
        if !self.kind.in_core().closes(self.runtime.is_usual(self)) {
            return;
        }
        let mut guard = self.lock(LockFor::Find);
        let is_closed = guard.core.close_if_unused();
        guard.record_cpus();
        self.unlock(guard, Kick::None);
        if is_closed {
            self.dismiss_idle();
        }
    }

    /// Whether it could be [renewed](Self::renew) now.
    pub(crate) fn is_vacant(&self) -> bool {
        self.kind == PoolKind::Unbound && self.read(|_, locked| locked.core.is_vacant())
    }

    /// Makes this a pool for queues with other attributes, if it is vacant. A thread that found the
    /// pool by its old attributes notices that when it [adds its pwq](Self::add_pwq). Caller holds
    /// the registry's lock.
    pub(crate) fn renew(&self, spec: PoolSpec) -> bool {
        debug_assert_eq!(self.kind, spec.kind);
        let mut here = lock(&self.attachment.cpus);
        let mut guard = self.lock(LockFor::Counts);
        if !guard.core.renew() {
            return false;
        }
        let placed = self.runtime.placement.now().place(&self.runtime.machine, &spec, false);
        let concurrency = placed.belonging.concurrency;
        here.move_to(Where::new(&spec, placed, self.runtime));
        let may_stray = may_stray(&spec);
        // ORDERING: no pairing: workers are created later, under the lock.
        self.may_stray.store(may_stray, Ordering::Relaxed);
        guard.mirror.renew(self.id.0, &spec.recorded(may_stray, concurrency));
        *lock_plain(&self.spec) = Arc::new(spec);
        true
    }

    // ---- pods that workers may leave

    /// Brings the calling worker, which was woken outside of the pod, back into the pod if work
    /// waits. From there the scheduler may move it again.
    ///
    /// KERNEL: the wake-up hint in `kick_pool` — differs: a process cannot give one, so the worker
    /// moves by itself, even if no CPU of the pod is idle.
    #[inline]
    pub(crate) fn repatriate(&self) {
        // ORDERING: no pairing: written while there are no workers.
        if self.may_stray.load(Ordering::Relaxed)
            && sense::sched::current_cpu().is_some_and(|cpu| !self.spec().pod.contains(cpu))
        {
            self.return_to_pod();
        }
    }

    #[cold]
    fn return_to_pod(&self) {
        let mut guard = self.lock(LockFor::Counts);
        if !guard.core.count_repatriated() {
            return;
        }
        Self::unlock_quietly(guard);
        self.go_to_pod();
    }

    /// Moves the calling thread, a worker, into the pod. From there the system may move it again.
    pub(crate) fn go_to_pod(&self) {
        let here = lock(&self.attachment.cpus);
        let Ok(mask) = topo::affinity_of(0) else { return };
        if is_to_be_put_back(&mask, &here.bound) {
            self.runtime.service.rescan_soon();
        }
        let is_first = Cell::new(true);
        self.settle(here, Where::bound, |cpus| {
            // What it was confined to from outside holds until its CPUs change.
            let mask = if is_first.replace(false) { &mask } else { cpus };
            let pod = self.spec().pod.and(mask);
            if !pod.is_empty() && sense::sched::pin_current(&pod).is_ok() {
                let _ = sense::sched::pin_current(mask);
            }
        });
    }
}

/// Whether the service is to look at the CPUs and pin a worker with this mask, which belongs on
/// `bound`, again: the worker was moved from outside, or one of its CPUs has left. In the latter
/// case the mask that the worker sets here lacks that CPU, which may be back before the service has
/// seen it go; then nothing else would widen the mask again.
fn is_to_be_put_back(mask: &CpuSet, bound: &CpuSet) -> bool {
    mask != bound
}

impl Locked {
    /// Records in the mapping whether it is disassociated, and whether it is unused.
    fn record_cpus(&self) {
        self.mirror.set_place(&self.core, self.is_disassociated, self.core.is_unused());
    }
}
