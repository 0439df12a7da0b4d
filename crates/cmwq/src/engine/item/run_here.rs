//! Running an item in place of waiting for it.
//!
//! A thread that queues an item and waits for it at once wakes a worker, sleeps, and is woken.
//! Where no other item waits, and the queue says nothing of where and how its items run, the thread
//! may as well be the worker: it comes to the pool as a guest, as a rescuer does, and runs the
//! item. The pool's counts are as if a worker had: limits, flushes, drains and counters include it.
//!
//! Why: docs/decisions/run-here.md.

use std::ptr::NonNull;

use cmwq_core::help::{Plain, Queuer};
use cmwq_core::{Claim, Closed, LockFor, Offered, WorkItem, WorkerId};

use crate::engine::pool::Pool;
use crate::engine::threads::current::{self, Here, ThreadRun};
use crate::engine::threads::invoke;
use crate::engine::tools::attrs::Priority;
use crate::engine::wq::cpu_pwq::CpuPwq;
use crate::engine::wq::{Queueing, Wq};
use crate::record::trace;

/// What became of an item for which the caller is going to wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It has run, on the calling thread.
    Here,
    /// It was queued, and will run.
    Later,
    /// The queue lets nothing in: see [`Queueing::Refused`].
    Refused(Closed),
}

impl Ran {
    fn of(queueing: Queueing) -> Self {
        debug_assert_ne!(queueing, Queueing::Not, "a fresh item was pending");
        if let Queueing::Refused(why) = queueing { Self::Refused(why) } else { Self::Later }
    }
}

impl Wq {
    /// Whether an item of this queue, in that pool, may run on the calling thread.
    fn may_run_here(&self, pool: &Pool) -> bool {
        let plain = Plain {
            is_intensive: self.spec.cpu_intensive,
            has_rescuer: self.spec.mem_reclaim,
            has_priority: pool.spec().priority != Priority::nice(0),
        };
        let queuer = Queuer { is_worker: current::is_worker_or_bh() };
        queuer.may_run_it(self.spec.kind, plain)
    }

    /// Runs an item on the calling thread, or queues it.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item), of a fresh item.
    pub(crate) unsafe fn run_or_queue(&self, item: NonNull<WorkItem>) -> Ran {
        // Of a queue that lets nothing in no pwq may be made.
        if self.spec.kind.may_leave(false) && self.lets_in() {
            let cpu_pwq = self.cpu_pwq(None);
            if self.may_run_here(cpu_pwq.pool) {
                // SAFETY: passed on to the caller.
                return unsafe { self.offer(cpu_pwq, item) };
            }
        }
        // SAFETY: passed on to the caller.
        Ran::of(unsafe { self.queue_item(None, item) })
    }

    /// # Safety
    /// As for [`run_or_queue`](Self::run_or_queue).
    unsafe fn offer(&self, &CpuPwq { pool, pwq }: &CpuPwq, item: NonNull<WorkItem>) -> Ran {
        debug_assert!(!self.is_replaceable(), "pwqs of managed queues stay");
        // SAFETY: valid by the caller's promise.
        let item_ref = unsafe { item.as_ref() };
        let (was, func) = (item_ref.claim(), item_ref.func());
        debug_assert!(!was.is_pending(), "a fresh item was pending");
        let mut guard = pool.lock(LockFor::Queue);
        // Others ask here whether the queue is being destroyed. This one leaves its pools only with
        // its last handle, and the caller of `run` has one.
        trace::queue_work(self, pool, item, None);
        let guest = guard.core.guest_enter();
        // SAFETY: PENDING is ours.
        match unsafe { guard.core.offer(guest, pwq, item) } {
            Offered::Begun(claim) => {
                pool.unlock(guard, claim.kick);
                trace::queued(self, item.as_ptr(), func);
                run(pool, guest, &claim);
                Ran::Here
            }
            Offered::Queued(kick) => {
                let kick = kick.or(guard.core.guest_leave(guest));
                pool.unlock(guard, kick);
                trace::queued(self, item.as_ptr(), func);
                Ran::Later
            }
        }
    }
}

/// The claimed item, and what is counted after it.
fn run(pool: &'static Pool, guest: WorkerId, claim: &Claim) {
    let process = invoke::Process::now();
    let here = Here::new(ThreadRun::of(pool, claim));
    // SAFETY: it stays here until it is ended; in a child below nobody reads it.
    unsafe { here.begin() };
    // SAFETY: whoever offered the item promised that its function may be called with it, once.
    unsafe { invoke::call(pool, claim) };
    // In a child that the function has forked, what ran here before is the parent's, too, and so
    // are the counts and their locks.
    if !process.is_still() {
        return;
    }
    here.end();
    let mut guard = pool.lock(LockFor::Decide);
    let effects = guard.core.finish(guest);
    // Nobody but the caller knows the item, so nobody can have queued or awaited it.
    debug_assert!(guard.core.guest_may_leave(guest), "behind an item that nobody knows");
    let kick = guard.core.guest_leave(guest);
    pool.unlock(guard, kick);
    pool.act_effects(effects);
    pool.runtime.service.wake_for_deferred();
}
