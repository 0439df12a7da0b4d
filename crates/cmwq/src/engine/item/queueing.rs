//! Queueing: an item's way from the caller into a pool.
//!
//! Why: docs/decisions/expired-together.md

use std::ptr::NonNull;

use cmwq_core::delayed::{self, Hold};
use cmwq_core::help::Length;
use cmwq_core::{Closed, Enqueued, Kick, LockFor, WorkFn, WorkItem, WorkWord};

use crate::engine::item::caller_computes;
use crate::engine::runtime::claiming::{Claimed, claim};
use crate::engine::threads::current;
use crate::engine::wq::cpu_pwq::CpuPwq;
use crate::engine::wq::{Kind, Queueing, Wq};
use crate::os::notice::{self, Notice};
use crate::os::sync::leaves_out;
use crate::record::symbol;
use crate::record::trace;

/// Who queues an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The calling thread, for itself.
    Caller,
    /// The item's timer, which was armed before.
    Timer,
}

impl Wq {
    /// Whether the caller may queue here.
    #[inline]
    pub(crate) fn lets_in(&self) -> bool {
        self.closed_to_caller().is_none()
    }

    /// Whether an item may be queued here whose timer was armed.
    #[inline]
    fn lets_in_from_timer(&self) -> bool {
        self.closed().lets_in_from_timer(|| current::current_wq() == Some(self.key))
    }

    /// Why the caller may not queue here; `None`: he may.
    #[inline]
    pub(crate) fn closed_to_caller(&self) -> Option<Closed> {
        let closed = self.closed();
        (!closed.lets_in(|| current::current_wq() == Some(self.key))).then_some(closed)
    }

    /// Whether the caller, who was let in, comes in time. To be asked with the lock of the pool
    /// where the item goes.
    #[inline]
    fn still_lets_in(&self) -> bool {
        self.closed().still_lets_in(|| current::current_wq() == Some(self.key))
            || leaves_out("wq.still_lets_in")
    }

    /// Whether the item may go to the pool of another CPU: see [`caller_computes`].
    #[inline]
    fn may_leave_cpu(&self, cpu: Option<u32>) -> bool {
        self.length() != Length::Short && self.spec.kind.may_leave(cpu.is_some())
    }

    /// The CPU whose pwq an item that is queued now uses; `None`: the caller's. To be asked once
    /// for each item, since items take turns.
    #[inline]
    fn choose_cpu(&self, cpu: Option<u32>) -> Option<u32> {
        if !self.may_leave_cpu(cpu) {
            return cpu;
        }
        // Who was let in before the queue was destroyed is refused later.
        let usual = self.cpu_pwq_unless_gone(None)?;
        caller_computes::other_cpu(usual.pool, self.length())
    }

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
        // SAFETY: passed on to the caller.
        let claim_first = || unsafe { self.claim_and_queue(cpu, item) };
        let Some(cpu_pwq) = self.cpu_pwq_of_idle(cpu, seen) else { return claim_first() };
        let CpuPwq { pool, pwq } = *cpu_pwq;
        if pool.inbox.is_saturated() {
            // SAFETY: passed on to the caller.
            let is_pushed = unsafe { self.push_idle(cpu_pwq, item, seen, cpu) };
            return if is_pushed { Queueing::Queued } else { claim_first() };
        }
        if self.spec.limits().are_shared() {
            // See `PoolState::enqueue_idle`.
            return claim_first();
        }
        // SAFETY: valid by the caller's promise.
        let func = unsafe { item.as_ref() }.func();
        let mut guard = pool.lock(LockFor::Queue);
        let queued = if self.is_replaced(cpu_pwq, &guard.core) {
            Enqueued::Changed
        } else {
            // SAFETY: passed on to the caller.
            unsafe { guard.core.enqueue_idle(pwq, item, seen) }
        };
        let Enqueued::Queued(kick) = queued else {
            pool.unlock(guard, Kick::None);
            return claim_first();
        };
        trace::queue_work(self, pool, item, cpu);
        pool.unlock(guard, kick);
        trace::queued(self, item.as_ptr(), func);
        Queueing::Queued
    }

    /// The pwq of an item that can be claimed and queued in one step: an idle item whose last pool
    /// is that of the pwq, or none. `seen`: the item's word.
    #[inline]
    fn cpu_pwq_of_idle(&self, cpu: Option<u32>, seen: WorkWord) -> Option<&CpuPwq> {
        if !seen.is_idle() || !self.lets_in() || self.may_leave_cpu(cpu) {
            return None;
        }
        let cpu_pwq = self.cpu_pwq(cpu);
        seen.last_pool().is_none_or(|last| last == cpu_pwq.pool.id).then_some(cpu_pwq)
    }

    /// Pushes an item into the inbox of a saturated pool. `false`: the item's word has changed
    /// meanwhile.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    #[inline]
    unsafe fn push_idle(
        &self,
        &CpuPwq { pool, pwq }: &CpuPwq,
        item: NonNull<WorkItem>,
        seen: WorkWord,
        cpu: Option<u32>,
    ) -> bool {
        debug_assert!(!self.is_replaceable(), "an unbound pool was saturated");
        // SAFETY: valid by the caller's promise.
        let func = unsafe { item.as_ref() }.func();
        // SAFETY: as above.
        if !unsafe { item.as_ref() }.claim_for(seen, pool.id) {
            return false;
        }
        trace::ready();
        trace::queue_work(self, pool, item, cpu);
        // SAFETY: PENDING is ours, and the word names the pool.
        if !unsafe { pool.inbox.push(item, pwq) } {
            pool.relieve_inbox();
        }
        trace::queued(self, item.as_ptr(), func);
        true
    }

    /// As [`queue_item`](Self::queue_item), for items that cannot be claimed and queued in one
    /// step.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    #[inline(never)]
    unsafe fn claim_and_queue(&self, cpu: Option<u32>, item: NonNull<WorkItem>) -> Queueing {
        // SAFETY: valid by the caller's promise.
        if claim(unsafe { item.as_ref() }, || self.runtime) == Claimed::Not {
            return Queueing::Not;
        }
        // SAFETY: PENDING is ours now.
        unsafe { self.queue_unless_disabled(cpu, item) }
    }

    /// Queues an item whose PENDING the caller has just won, unless the item is disabled.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    pub(crate) unsafe fn queue_unless_disabled(
        &self,
        cpu: Option<u32>,
        item: NonNull<WorkItem>,
    ) -> Queueing {
        // SAFETY: valid by the caller's promise.
        let word = unsafe { item.as_ref() }.word();
        if word.disable_depth() != 0 {
            // SAFETY: valid by the caller's promise.
            unsafe { item.as_ref() }.release(word);
            return Queueing::Not;
        }
        // SAFETY: passed on to the caller.
        unsafe { self.queue_claimed(By::Caller, cpu, item) }
    }

    /// Queues an item whose PENDING the caller owns, whether it is disabled or not; or refuses it.
    /// `by`: who asks.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    pub(crate) unsafe fn queue_claimed(
        &self,
        by: By,
        cpu: Option<u32>,
        item: NonNull<WorkItem>,
    ) -> Queueing {
        let is_let_in = match by {
            By::Caller => self.lets_in(),
            By::Timer => self.lets_in_from_timer(),
        };
        if !is_let_in {
            // SAFETY: valid by the caller's promise.
            return Queueing::Refused(self.refuse(unsafe { item.as_ref() }));
        }
        // SAFETY: passed on to the caller.
        unsafe { self.enqueue_on(self.choose_cpu(cpu), cpu, item) }
    }

    /// Queues an item whose PENDING the caller owns, and which the queue has let in, by the pwq of
    /// CPU `on`; or refuses it, where the queue is being destroyed since. `asked`: the CPU that was
    /// asked for.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item).
    #[inline(always)]
    unsafe fn enqueue_on(
        &self,
        on: Option<u32>,
        asked: Option<u32>,
        item: NonNull<WorkItem>,
    ) -> Queueing {
        // SAFETY: valid by the caller's promise.
        let (word, func) = unsafe { (item.as_ref().word(), item.as_ref().func()) };
        while let Some(cpu_pwq) = self.cpu_pwq_unless_gone(on) {
            let (mut pool, mut pwq) = (cpu_pwq.pool, cpu_pwq.pwq);
            // Non-reentrance: a pool that still runs the item for this queue runs it again.
            let elsewhere = word.may_run_at(pool.id, self.spec.kind == Kind::Ordered);
            let mut guard = None;
            if let Some(other) = elsewhere.and_then(|last| self.runtime.pool(last)) {
                let mut locked = other.lock(LockFor::Counts);
                if let Some(same) = locked.core.executing_on(item.as_ptr() as usize, func, self.key)
                {
                    // Items in the inbox are older.
                    locked.hold_for(other, LockFor::Queue);
                    (pool, pwq) = (other, same);
                    guard = Some(locked);
                }
            }
            let is_redirected = guard.is_some();
            let mut guard = guard.unwrap_or_else(|| pool.lock(LockFor::Queue));
            // A pwq that runs the item takes it also if the pwq is retired.
            if !is_redirected && !self.still_lets_in() {
                pool.unlock(guard, Kick::None);
                break;
            }
            if !is_redirected && self.is_replaced(cpu_pwq, &guard.core) {
                // The successor was published before the pwq was retired, so this ends.
                pool.unlock(guard, Kick::None);
                continue;
            }
            trace::queue_work(self, pool, item, asked);
            // SAFETY: PENDING is owned by the caller.
            let kick = unsafe { guard.core.enqueue(pwq, item) };
            pool.unlock(guard, kick);
            trace::queued(self, item.as_ptr(), func);
            return Queueing::Queued;
        }
        // SAFETY: valid by the caller's promise.
        Queueing::Refused(self.refuse(unsafe { item.as_ref() }))
    }

    /// Queues items whose timers have expired and whose PENDING the caller owns, in this order, and
    /// calls `refused` for each, with the reason, if the queue does not let them in. They never
    /// leave for the pod of another CPU: who queues them is no thread of the program.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item), for each item.
    pub(crate) unsafe fn queue_expired(
        &self,
        cpu: Option<u32>,
        items: &[NonNull<WorkItem>],
        mut refused: impl FnMut(NonNull<WorkItem>, Closed),
    ) {
        let cpu_pwq = if self.lets_in_from_timer() { self.cpu_pwq_unless_gone(cpu) } else { None };
        let Some(cpu_pwq) = cpu_pwq else {
            for &item in items {
                // SAFETY: valid by the caller's promise.
                let why = self.refuse(unsafe { item.as_ref() });
                refused(item, why);
            }
            return;
        };
        // Asked before the lock is taken, which brings the items into the cache.
        // SAFETY: valid by the caller's promise.
        let word = |item: &NonNull<WorkItem>| unsafe { item.as_ref() }.word();
        let is_ordered = self.spec.kind == Kind::Ordered;
        for (hold, run) in delayed::holds(items, cpu_pwq.pool.id, is_ordered, word) {
            // SAFETY: passed on to the caller.
            if hold == Hold::One && unsafe { self.queue_together(cpu_pwq, cpu, run) } {
                continue;
            }
            for &item in run {
                // SAFETY: passed on to the caller.
                let queueing = unsafe { self.enqueue_on(cpu, cpu, item) };
                if let Queueing::Refused(why) = queueing {
                    refused(item, why);
                }
            }
        }
    }

    /// Queues items under one hold of the pool's lock and with one wake-up. `cpu`: the one that was
    /// asked for. `false`: the pwq has been replaced meanwhile, or the queue is being destroyed.
    ///
    /// # Safety
    /// As for [`queue_item`](Self::queue_item), for each item, whose PENDING the caller owns.
    unsafe fn queue_together(
        &self,
        cpu_pwq: &CpuPwq,
        cpu: Option<u32>,
        items: &[NonNull<WorkItem>],
    ) -> bool {
        let &CpuPwq { pool, pwq } = cpu_pwq;
        // They are told of behind the lock, where they may be gone.
        let to_tell = if cfg!(feature = "tracing") { items } else { &[] };
        // SAFETY: valid by the caller's promise.
        let names = to_tell.iter().map(|item| (item.as_ptr(), unsafe { item.as_ref() }.func()));
        let names: Vec<_> = names.collect();
        let (mut guard, mut kick) = (pool.lock(LockFor::Queue), Kick::None);
        let is_open = self.still_lets_in() && !self.is_replaced(cpu_pwq, &guard.core);
        if is_open {
            for &item in items {
                trace::queue_work(self, pool, item, cpu);
                // SAFETY: passed on to the caller.
                kick = kick.or(unsafe { guard.core.enqueue(pwq, item) });
            }
        }
        pool.unlock(guard, kick);
        if is_open {
            names.into_iter().for_each(|(item, func)| trace::queued(self, item, func));
        }
        is_open
    }

    /// Makes an item whose PENDING the caller owns idle again, and reports the refusal once.
    /// Returns why it is refused.
    #[cold]
    pub(crate) fn refuse(&self, item: &WorkItem) -> Closed {
        let why = self.closed();
        self.say_refused(item.func());
        item.release(item.word());
        why
    }

    fn say_refused(&self, func: WorkFn) {
        notice::once(Notice::Refused, || {
            format!(
                "workqueue '{}' is being drained, destroyed or shut down and takes only what its \
                 own items queue: {} \
                 was not queued, and will not be said again",
                self.name,
                symbol::name_of(func as *const () as usize)
            )
        });
    }
}
