//! What is done with one item: queueing it, taking it back, waiting for it.

use std::ptr::NonNull;

use cmwq_core::{
    Closed, Enqueued, FlushTarget, Grab, Kick, LockFor, PoolState, PwqRef, Rule, WorkItem,
    WorkWord, WqKey,
};

use super::{Micro, Progress, Run, SERVICE, Tid, World};
use crate::scope::{Kind, Op};

impl World<'_> {
    /// One step of an operation.
    pub(super) fn exec(&mut self, tid: Tid, op: Op) -> Progress {
        match op {
            Op::Queue(..) | Op::WaitFor(_) | Op::FlushQueue(_) | Op::RunHere(..) => {}
            // The pool lists for itself what has arrived.
            Op::Offline(_) | Op::Online(_) => self.lock_all(LockFor::Queue),
            _ => self.lock_all(LockFor::Find),
        }
        match op {
            Op::Queue(item, queue, slot) => self.queue(tid, item, queue, slot),
            Op::Arm(item, queue, slot) => self.arm(tid, (item, queue, slot)),
            Op::RunHere(item, queue, slot) => self.run_here(tid, (item, queue, slot)),
            Op::WaitFor(item) if self.ledger.has_settled(item) => self.done(tid),
            Op::WaitFor(_) => Progress::Blocked,
            Op::Flush(item) => self.flush_item(tid, item),
            Op::Cancel(item) => self.cancel(tid, item, 0),
            Op::Disable(item) => self.cancel(tid, item, 1),
            Op::CancelSync(item) => self.cancel_sync(tid, item),
            Op::Enable(item) => self.enable(tid, item),
            Op::Watch | Op::Unwatch => self.stand_for_process(tid, op == Op::Watch),
            _ => self.exec_on_queue(tid, op),
        }
    }

    /// The operation has ended.
    pub(super) fn done(&mut self, tid: Tid) -> Progress {
        let thread = self.thread(tid);
        if thread.fired.take().is_none() {
            thread.exec.pc += 1;
        }
        thread.exec.micro = Micro::Start;
        thread.event = false;
        Progress::Moved
    }

    pub(super) fn goes_on(&mut self, tid: Tid, micro: Micro) -> Progress {
        self.thread(tid).exec.micro = micro;
        Progress::Moved
    }

    pub(super) fn item(&self, item: u8) -> &WorkItem {
        self.items.get(usize::from(item))
    }

    pub(super) fn item_at(&self, number: usize) -> NonNull<WorkItem> {
        self.items.pointer(number)
    }

    // ---- queueing

    fn queue(&mut self, tid: Tid, item: u8, queue: u8, slot: u8) -> Progress {
        let micro = self.thread(tid).exec.micro;
        match micro {
            Micro::Start => {
                let q = &self.queues[usize::from(queue)];
                if !q.is_alive && q.closed == Closed::NOT {
                    // Nobody has it yet.
                    return Progress::Blocked;
                }
                if !self.lets_in(tid, queue) {
                    return self.done(tid);
                }
                let cpu_pwq = self.queues[usize::from(queue)].slots[usize::from(slot)];
                let word = self.item(item).word();
                let at = self.queues[usize::from(queue)].made[cpu_pwq];
                let is_home = word.pool().is_none_or(|last| last == at.pool);
                let is_idle = !word.is_pending() && word.disable_depth() == 0;
                // Slots that are shared are asked for by who owns PENDING, or comes for the inbox.
                let is_shared = self.queues[usize::from(queue)].limits.are_shared();
                let is_saturated = self.pools[at.pool.0 as usize].inbox.is_saturated();
                if is_home && is_idle && (!is_shared || is_saturated) {
                    if self.scope.is_static(queue) {
                        return self.queue_at_home(tid, (item, queue), cpu_pwq, word);
                    }
                    return self.goes_on(tid, Micro::AtHome(cpu_pwq, word.bits()));
                }
                self.claim(tid, item, cpu_pwq)
            }
            Micro::AtHome(cpu_pwq, bits) => {
                self.queue_at_home(tid, (item, queue), cpu_pwq, WorkWord::from_bits(bits))
            }
            Micro::Held => {
                let cpu_pwq = self.queues[usize::from(queue)].slots.get(usize::from(slot)).copied();
                self.claim(tid, item, cpu_pwq.unwrap_or_default())
            }
            Micro::Expired => self.let_in_expired(tid, (item, queue, slot)),
            Micro::Claimed(cpu_pwq) | Micro::Checked(cpu_pwq) => {
                self.queue_claimed(tid, (item, queue, slot), cpu_pwq, micro)
            }
            Micro::Pushes(cpu_pwq) => {
                let at = self.queues[usize::from(queue)].made[cpu_pwq];
                self.push(tid, (item, queue), at)
            }
            Micro::Relieves(pool) => self.relieve(tid, pool),
            _ => unreachable!("{micro:?}"),
        }
    }

    /// Whether the caller may queue there.
    pub(super) fn lets_in(&self, tid: Tid, queue: u8) -> bool {
        let q = &self.queues[usize::from(queue)];
        q.is_alive && q.closed.lets_in(|| self.is_chained(tid, queue))
    }

    /// Whether the caller is one of the queue's items.
    fn is_chained(&self, tid: Tid, queue: u8) -> bool {
        let runs_there = |run: Run| {
            let wq = self.pools[usize::from(run.pool)].core.pwq_wq(run.at);
            wq == Some(WqKey(u32::from(queue)))
        };
        let run = self.threads[tid].as_ref().and_then(|thread| thread.run);
        run.is_some_and(runs_there)
    }

    /// Claims an item that is neither pending nor disabled.
    pub(super) fn owns(&self, item: u8) -> bool {
        let was = self.item(item).claim();
        if was.is_pending() {
            return false;
        }
        if was.disable_depth() != 0 {
            self.item(item).release(was);
            return false;
        }
        true
    }

    fn claim(&mut self, tid: Tid, item: u8, cpu_pwq: usize) -> Progress {
        if !self.owns(item) {
            return self.done(tid);
        }
        self.goes_on(tid, Micro::Claimed(cpu_pwq))
    }

    fn queue_at_home(
        &mut self,
        tid: Tid,
        (item, queue): (u8, u8),
        cpu_pwq: usize,
        seen: WorkWord,
    ) -> Progress {
        let at = self.queues[usize::from(queue)].made[cpu_pwq];
        if self.is_replaced(queue, cpu_pwq) {
            return self.goes_on(tid, Micro::Held);
        }
        self.assert_not_retired(queue, at);
        let pool = &mut self.pools[at.pool.0 as usize];
        if pool.inbox.is_saturated() {
            if self.item(item).claim_for(seen, at.pool) {
                return self.goes_on(tid, Micro::Pushes(cpu_pwq));
            }
            return self.goes_on(tid, Micro::Held);
        }
        let core = pool.lock(LockFor::Queue);
        let pointer = self.items.pointer(usize::from(item));
        // SAFETY: items stay where they are as long as the world.
        let queued = unsafe { core.enqueue_idle(at.pwq, pointer, seen) };
        match queued {
            Enqueued::Queued(kick) => {
                self.ledger.queue(item, queue, at);
                self.unlock(tid, at.pool.0 as u8, kick);
                self.done(tid)
            }
            Enqueued::Changed => self.goes_on(tid, Micro::Held),
        }
    }

    fn queue_claimed(
        &mut self,
        tid: Tid,
        (item, queue, slot): (u8, u8, u8),
        cpu_pwq: usize,
        micro: Micro,
    ) -> Progress {
        self.lock_all(LockFor::Queue);
        let word = self.item(item).word();
        // Of an item whose timer has expired that was asked before.
        if self.thread(tid).fired.is_none() && !self.lets_in(tid, queue) {
            return self.refuse(tid, item);
        }
        let at = self.queues[usize::from(queue)].made[cpu_pwq];
        let kind = self.scope.queues[usize::from(queue)].kind;
        let last = word.may_run_at(at.pool, kind == Kind::Ordered);
        if let (Some(other), Micro::Claimed(_)) = (last, micro) {
            let (pool, core) = (other.0 as u8, &self.pools[other.0 as usize].core);
            let pointer = std::ptr::from_ref(self.item(item));
            let func = self.item(item).func();
            let key = WqKey(u32::from(queue));
            return match core.executing_on(pointer as usize, func, key) {
                Some(pwq) => {
                    self.enqueue(tid, (item, queue), PwqRef { pool: other, pwq });
                    self.done(tid)
                }
                None => {
                    self.unlock(tid, pool, Kick::None);
                    self.goes_on(tid, Micro::Checked(cpu_pwq))
                }
            };
        }
        if !self.still_lets_in(tid, queue) {
            return self.refuse(tid, item);
        }
        if self.is_replaced(queue, cpu_pwq) {
            let now = self.queues[usize::from(queue)].slots[usize::from(slot)];
            return self.goes_on(tid, Micro::Claimed(now));
        }
        self.assert_not_retired(queue, at);
        self.enqueue(tid, (item, queue), at);
        self.done(tid)
    }

    fn refuse(&mut self, tid: Tid, item: u8) -> Progress {
        self.item(item).release(self.item(item).word());
        self.done(tid)
    }

    fn assert_not_retired(&self, queue: u8, at: PwqRef) {
        let is_retired = self.queues[usize::from(queue)].pwqs.is_retired(at);
        assert!(!is_retired, "an item goes to {at:?}, which was replaced");
    }

    fn enqueue(&mut self, tid: Tid, (item, queue): (u8, u8), at: PwqRef) {
        let pointer = self.item_at(usize::from(item));
        // SAFETY: items stay where they are as long as the world; PENDING is ours.
        let kick = unsafe { self.pools[at.pool.0 as usize].core.enqueue(at.pwq, pointer) };
        self.ledger.queue(item, queue, at);
        self.unlock(tid, at.pool.0 as u8, kick);
    }

    fn is_replaced(&self, queue: u8, cpu_pwq: usize) -> bool {
        let kind = self.scope.queues[usize::from(queue)].kind;
        let q = &self.queues[usize::from(queue)];
        let at = q.made[cpu_pwq];
        let core: &PoolState = &self.pools[at.pool.0 as usize].core;
        let leads_here = q.slots.first() == Some(&cpu_pwq);
        let (wq, is_ordered) = (WqKey(u32::from(queue)), kind == Kind::Ordered);
        kind.is_replaceable() && core.is_replaced(at.pwq, wq, is_ordered, || leads_here)
    }

    /// Whether the caller, who was let in, comes in time.
    fn still_lets_in(&self, tid: Tid, queue: u8) -> bool {
        let q = &self.queues[usize::from(queue)];
        q.closed.still_lets_in(|| self.is_chained(tid, queue))
            || self.without == Some(Rule::DestroyedRefuses)
    }

    // ---- timers

    fn arm(&mut self, tid: Tid, (item, queue, slot): (u8, u8, u8)) -> Progress {
        let micro = self.thread(tid).exec.micro;
        let lets_arm = self.queues[usize::from(queue)].closed.lets_arm();
        let asks_with_lock = self.without != Some(Rule::ArmingAsksWithTheLock);
        match micro {
            Micro::Start if !self.owns(item) => self.done(tid),
            Micro::Start if lets_arm || asks_with_lock => self.goes_on(tid, Micro::Held),
            Micro::Held if lets_arm || !asks_with_lock => {
                self.timers[usize::from(item)] = Some(Op::Arm(item, queue, slot));
                self.done(tid)
            }
            Micro::Start | Micro::Held if self.without == Some(Rule::ShutQueuesRefuseTimers) => {
                let cpu_pwq = self.queues[usize::from(queue)].slots[usize::from(slot)];
                self.goes_on(tid, Micro::Claimed(cpu_pwq))
            }
            Micro::Start | Micro::Held => self.refuse(tid, item),
            Micro::Claimed(cpu_pwq) | Micro::Checked(cpu_pwq) => {
                self.queue_claimed(tid, (item, queue, slot), cpu_pwq, micro)
            }
            _ => unreachable!("{micro:?}"),
        }
    }

    /// A timer expires: the service thread queues the item. It asks whether that is let in, and
    /// takes the pool's lock later.
    pub(crate) fn fire(&mut self, item: u8) -> Progress {
        let has_left = self.service_has_left;
        let thread = self.thread(SERVICE);
        if has_left || thread.fired.is_some() || !thread.todo.is_empty() {
            return Progress::Blocked;
        }
        let Some(Op::Arm(_, queue, slot)) = self.timers[usize::from(item)].take() else {
            return Progress::Blocked;
        };
        let thread = self.thread(SERVICE);
        thread.fired = Some(Op::Queue(item, queue, slot));
        thread.exec.micro = Micro::Expired;
        Progress::Moved
    }

    fn let_in_expired(&mut self, tid: Tid, (item, queue, slot): (u8, u8, u8)) -> Progress {
        if !self.lets_in(tid, queue) {
            return self.refuse(tid, item);
        }
        let cpu_pwq = self.queues[usize::from(queue)].slots[usize::from(slot)];
        self.goes_on(tid, Micro::Claimed(cpu_pwq))
    }

    // ---- taking back

    /// Makes PENDING the caller's. `Blocked`: somebody else is about to queue the item.
    fn grab(&mut self, tid: Tid, item: u8) -> Progress {
        if self.timers[usize::from(item)].take().is_some() {
            return Progress::Moved;
        }
        if !self.item(item).claim().is_pending() {
            return Progress::Moved;
        }
        let Some(pool) = self.item(item).word().pool() else { return Progress::Blocked };
        let pointer = self.item_at(usize::from(item));
        // SAFETY: items stay where they are as long as the world.
        let grabbed = unsafe { self.pools[pool.0 as usize].core.try_grab(pointer) };
        let Grab::Taken(kick, effects) = grabbed else { return Progress::Blocked };
        self.ledger.take_back(item);
        self.unlock(tid, pool.0 as u8, kick);
        let _ = self.put_off(tid, &effects);
        Progress::Moved
    }

    fn release(&self, item: u8, deeper: i32) {
        let word = self.item(item).word();
        let depth = word.disable_depth().saturating_add_signed(deeper);
        self.item(item).release(word.with_disable_depth(depth));
    }

    fn cancel(&mut self, tid: Tid, item: u8, deeper: i32) -> Progress {
        if self.thread(tid).exec.micro == Micro::Held {
            self.release(item, deeper);
            return self.done(tid);
        }
        if deeper == 0 && !self.item(item).is_pending() {
            return self.done(tid);
        }
        match self.grab(tid, item) {
            Progress::Moved => self.goes_on(tid, Micro::Held),
            Progress::Blocked => Progress::Blocked,
        }
    }

    fn enable(&mut self, tid: Tid, item: u8) -> Progress {
        match self.grab(tid, item) {
            Progress::Moved => {
                self.release(item, -1);
                self.done(tid)
            }
            Progress::Blocked => Progress::Blocked,
        }
    }

    fn cancel_sync(&mut self, tid: Tid, item: u8) -> Progress {
        let (micro, is_over) = (self.thread(tid).exec.micro, self.thread(tid).event);
        match micro {
            Micro::Start => match self.grab(tid, item) {
                Progress::Moved => self.goes_on(tid, Micro::Held),
                Progress::Blocked => Progress::Blocked,
            },
            Micro::Held => {
                self.release(item, 1);
                self.goes_on(tid, Micro::Disabled)
            }
            Micro::Disabled => match self.wait_for(tid, item) {
                Some(true) => self.goes_on(tid, Micro::Waiting),
                _ => self.goes_on(tid, Micro::Waited),
            },
            Micro::Waiting if is_over => {
                self.ledger.waited(tid);
                self.goes_on(tid, Micro::Waited)
            }
            Micro::Waiting => Progress::Blocked,
            Micro::Waited => {
                self.ledger.is_still(item);
                self.enable(tid, item)
            }
            micro => unreachable!("{micro:?}"),
        }
    }

    // ---- waiting

    fn flush_item(&mut self, tid: Tid, item: u8) -> Progress {
        if self.thread(tid).exec.micro == Micro::Waiting {
            if !self.thread(tid).event {
                return Progress::Blocked;
            }
            self.ledger.waited(tid);
            return self.done(tid);
        }
        match self.wait_for(tid, item) {
            Some(true) => self.goes_on(tid, Micro::Waiting),
            Some(false) => self.done(tid),
            None => Progress::Blocked,
        }
    }

    /// Puts a barrier behind the item. `Some(false)`: it is idle. `None`: it is about to be queued.
    fn wait_for(&mut self, tid: Tid, item: u8) -> Option<bool> {
        let word = self.item(item).word();
        let Some(pool) = word.pool() else { return (!word.is_pending()).then_some(false) };
        let barrier = self.scope.items.len() + tid;
        self.items.renew(barrier);
        self.thread(tid).event = false;
        let (target, barrier) = (self.item_at(usize::from(item)), self.item_at(barrier));
        let named = pool.0 as usize;
        let others = (0..self.pools.len()).filter(|pool| *pool != named);
        let others = others.take_while(|_| self.leaves_runs_behind()).collect::<Vec<_>>();
        for pool in [named].into_iter().chain(others) {
            let core = &mut self.pools[pool].core;
            // SAFETY: items stay where they are as long as the world; this thread uses its barrier
            // for one wait at a time.
            let found = unsafe { core.insert_barrier(target, barrier) };
            self.unlock(tid, pool as u8, Kick::None);
            if found != FlushTarget::Idle {
                self.ledger.wait_for_item(tid, item);
                return Some(true);
            }
        }
        (!word.is_pending()).then_some(false)
    }

    /// Whether a run of an item may be at another pool than the one that the item's word names:
    /// here asked also before the queue has moved.
    fn leaves_runs_behind(&self) -> bool {
        let mut kinds = self.scope.queues.iter().map(|queue| queue.kind);
        self.without != Some(Rule::RunsLeftBehindAreFound) && kinds.any(Kind::leaves_runs_behind)
    }
}
