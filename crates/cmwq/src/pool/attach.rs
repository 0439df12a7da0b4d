//! Where a pool's workers are: pinning them, moving them when their CPU leaves or comes, letting
//! them go when no queue needs them.
//!
//! Lock: attach ([`Pool::attach`]), outside of the pool's lock. It holds the CPUs on which the
//! workers belong now. A thread pins itself and says who it is under it, and is pinned by others
//! under it, so each thread ends up where it belongs and no number of an ended thread is used.

use cmwq_core::{Kick, PwqConfig, PwqId};

use super::{Locked, Pool, PoolKind, PoolSpec};
use crate::attrs::Sched;
use crate::notice::{self, Notice};
use crate::runtime::Runtime;
use crate::sense;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::thread::Thread;
use crate::topo::CpuSet;

/// No CPU in particular.
pub(super) const NOWHERE: u32 = u32::MAX;

/// See the module header.
#[derive(Debug)]
pub(super) struct Attachment {
    /// Lock: attach.
    cpus: Mutex<CpuSet>,
    /// The CPU that every worker is pinned to, or `NOWHERE`. A hint for [`Pool::is_misplaced`].
    pinned_to: AtomicU32,
}

impl Attachment {
    /// Where the workers of a new pool belong.
    pub(super) fn new(spec: &PoolSpec, runtime: &Runtime) -> Self {
        let cpus = if spec.is_away { &runtime.placement.now().unbound } else { &spec.cpus };
        let is_bound = spec.kind != PoolKind::Unbound && !spec.is_away;
        let cpus = within_reach(spec, runtime, cpus);
        let pinned_to = AtomicU32::new(if is_bound { only(&cpus) } else { NOWHERE });
        Self { cpus: Mutex::new(cpus), pinned_to }
    }
}

/// Where workers that are to be on `cpus` can be put: deadline threads only everywhere.
fn within_reach(spec: &PoolSpec, runtime: &Runtime, cpus: &CpuSet) -> CpuSet {
    match spec.priority.sched {
        Sched::Deadline { .. } => runtime.machine.cpus.iter().copied().collect(),
        _ => cpus.clone(),
    }
}

/// Whether workers of such a pool may be elsewhere than where they begin.
pub(super) fn may_stray(spec: &PoolSpec) -> bool {
    let is_deadline = matches!(spec.priority.sched, Sched::Deadline { .. });
    spec.kind == PoolKind::Unbound && spec.pod != spec.cpus && !is_deadline
}

fn only(cpus: &CpuSet) -> u32 {
    cpus.first().filter(|_| cpus.count() == 1).unwrap_or(NOWHERE)
}

impl Pool {
    /// Puts the calling thread, a new worker, where it belongs. What is refused is said once and
    /// done without.
    pub(crate) fn attach(&self, thread: &Thread) {
        let cpus = lock(&self.attachment.cpus);
        thread.title.set_tid();
        thread.mirror.set_tid(sense::sched::gettid().unsigned_abs());
        let Err(error) = sense::sched::pin_current(&cpus) else { return };
        // A CPU that leaves just now, or has left unnoticed.
        if sense::sched::pin_current(&self.runtime.anywhere()).is_ok() {
            self.runtime.service.rescan_soon();
            return;
        }
        // ORDERING (here and below): no pairing: a hint.
        self.attachment.pinned_to.store(NOWHERE, Ordering::Relaxed);
        notice::once(Notice::PinRefused, || {
            format!(
                "workers cannot be pinned to CPUs {cpus:?} ({error}); they run where the system puts them"
            )
        });
    }

    /// The calling thread, a worker, ends.
    pub(crate) fn detach(&self, thread: &Thread) {
        let _cpus = lock(&self.attachment.cpus);
        thread.title.forget_tid();
        thread.mirror.set_tid(0);
    }

    /// Whether a worker that enters a function on `cpu` should be elsewhere.
    #[inline]
    pub(crate) fn is_misplaced(&self, cpu: u32) -> bool {
        let pinned_to = self.attachment.pinned_to.load(Ordering::Relaxed);
        pinned_to != cpu && pinned_to != NOWHERE
    }

    /// The CPUs that it is for, while they are there.
    pub(crate) fn home(&self) -> CpuSet {
        match self.pods {
            // The only managed pod has every CPU that comes.
            None if self.spec.kind == PoolKind::Managed => {
                self.runtime.machine.cpus.iter().copied().collect()
            }
            _ => self.spec.pod.clone(),
        }
    }

    /// Its workers belong on `cpus` now. `is_away`: since its own CPU has gone.
    ///
    /// KERNEL: `unbind_worker`, `rebind_workers` — same order: a pool gives up managing before its
    /// workers move away, and takes it up when they are back. What is queued stays.
    pub(crate) fn move_to(&'static self, cpus: &CpuSet, concurrency: u32, is_away: bool) {
        if is_away {
            self.manage(concurrency, is_away);
        }
        let mut here = lock(&self.attachment.cpus);
        *here = within_reach(&self.spec, self.runtime, cpus);
        let pinned_to = if is_away { NOWHERE } else { only(&here) };
        self.attachment.pinned_to.store(pinned_to, Ordering::Relaxed);
        for tid in self.threads().iter().filter_map(|thread| thread.title.tid()) {
            // Refused, it stays where it is, and says so when it finds out.
            let _ = sense::sched::pin(tid, &here);
        }
        drop(here);
        if !is_away {
            self.manage(concurrency, is_away);
        }
    }

    /// Puts the workers of an unbound pool back where they belong: the system lets a thread whose last
    /// CPU leaves go anywhere, and does not bring it back.
    ///
    /// KERNEL: `restore_unbound_workers_cpumask` — same.
    pub(crate) fn restore(&self) {
        let here = lock(&self.attachment.cpus);
        for tid in self.threads().iter().filter_map(|thread| thread.title.tid()) {
            // Refused while none of its CPUs is there.
            let _ = sense::sched::pin(tid, &here);
        }
    }

    fn manage(&'static self, concurrency: u32, is_away: bool) {
        let mut guard = self.lock();
        guard.is_away = is_away;
        let kick = guard.core.set_concurrency(concurrency);
        guard.settle_place();
        self.unlock(guard, kick);
    }

    /// Its CPU is gone. Caller holds no core lock.
    pub(crate) fn is_away(&self) -> bool {
        self.lock_only().is_away
    }

    // ---- what queues lead here

    /// Makes a queue's pwq here. `cpu`: whose items come this way, if one CPU's.
    pub(crate) fn add_pwq(&self, config: PwqConfig, plugged: bool, cpu: Option<u32>) -> PwqId {
        let mut guard = self.lock_only();
        guard.is_unused = false;
        guard.settle_place();
        let (wq, max_active) = (config.wq, config.max_active);
        let Locked { core, mirror, .. } = &mut *guard;
        let pwq = core.add_pwq(config);
        mirror.add_pwq(core, wq, pwq, max_active, cpu);
        if plugged {
            guard.core.plug_pwq(pwq);
        }
        pwq
    }

    /// Lets all workers go if no queue leads here any more. One that comes back to the pool finds it
    /// as if it were new.
    ///
    /// KERNEL: `put_unbound_pool` — differs: the pool stays, for the ids in idle items' words.
    #[cold]
    pub(crate) fn close_if_unused(&'static self) {
        if self.spec.kind != PoolKind::Unbound || self.runtime.is_usual(self) {
            return;
        }
        let mut guard = self.lock();
        guard.is_unused = guard.core.nr_pwqs() == 0;
        let is_unused = guard.is_unused;
        guard.settle_place();
        self.unlock(guard, Kick::None);
        if is_unused {
            self.dismiss_idle();
        }
    }

    // ---- pods that workers may leave

    /// Brings the calling worker, which was woken, back into the pod if work waits and it is
    /// elsewhere. From there the scheduler may move it again.
    ///
    /// KERNEL: the wake-up hint in `kick_pool` — differs: a process cannot give one, so the worker
    /// moves by itself, even if no CPU of the pod is idle.
    #[inline]
    pub(crate) fn repatriate(&self) {
        if self.may_stray
            && sense::sched::current_cpu().is_some_and(|cpu| !self.spec.pod.contains(cpu))
        {
            self.bring_home();
        }
    }

    #[cold]
    fn bring_home(&self) {
        let mut guard = self.lock_only();
        if !guard.core.count_repatriated() {
            return;
        }
        guard.settle_mirror();
        drop(guard);
        if sense::sched::pin_current(&self.spec.pod).is_ok() {
            let _ = sense::sched::pin_current(&self.spec.cpus);
        }
    }
}

impl Locked {
    /// Shows where it stands.
    fn settle_place(&self) {
        self.mirror.set_place(&self.core, self.is_away, self.is_unused);
    }
}
