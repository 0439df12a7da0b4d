//! What is done with a whole queue: flushing, attributes, limits, destroying; and CPUs.

use cmwq_core::flush::{self, PwqsToFlush as _};
use cmwq_core::{
    Closed, EmptyCheck, FlushState, Limits, LockFor, PoolId, PwqRef, Pwqs, Rule, Start, Stays,
};

use super::{At, Look, Micro, Pool, Progress, Tid, Todo, Who, World};
use crate::scope::{Kind, Op};

/// Of `Apply`: retire the pwqs one after the other; then unplug.
const RETIRE: Micro = Micro::Phase(0);
const UNPLUG: Micro = Micro::Phase(1);
/// Of `ShutDown`: take back timers; wait until all queues are idle.
const DISARM: Micro = Micro::Phase(5);
const IDLE: Micro = Micro::Phase(6);
/// Of `Destroy`: look whether anything is left; let the rescuer go; leave all pools.
const EMPTY: Micro = Micro::Phase(2);
const STOP: Micro = Micro::Phase(3);
const LEAVE: Micro = Micro::Phase(4);

/// What one step of a look whether a queue is empty has seen.
enum Seen {
    /// No pwq that had anything, and not all yet.
    SoFarIdle,
    /// One that has something.
    Busy,
    /// None, but something moved meanwhile.
    MadeProgress,
    /// The queue is empty.
    Empty,
}

impl World<'_> {
    pub(super) fn exec_on_queue(&mut self, tid: Tid, op: Op) -> Progress {
        match op {
            Op::FlushQueue(queue) => match self.flush(tid, queue) {
                Some(true) => self.done(tid),
                Some(false) => Progress::Moved,
                None => Progress::Blocked,
            },
            Op::Apply(queue, pool) => self.apply_attrs(tid, queue, pool),
            Op::SetMaxActive(queue, max_active) => {
                self.set_limits(tid, queue, |limits| limits.set_max_active(max_active))
            }
            Op::SetMinActive(queue, min_active) => {
                self.set_limits(tid, queue, |limits| limits.set_min_active(min_active))
            }
            Op::Destroy(queue) => self.destroy(tid, queue),
            Op::ShutDown => self.shut_down(tid),
            Op::Create(queue, pool) => {
                let slots = vec![pool; self.scope.queues[usize::from(queue)].slots.len()];
                self.open_queue(queue, &slots);
                self.done(tid)
            }
            Op::Offline(pool) => self.set_online(tid, pool, false),
            Op::Online(pool) => self.set_online(tid, pool, true),
            _ => unreachable!("{op:?}"),
        }
    }

    /// Whether the queue's lock can be had.
    fn may_lock(&self, tid: Tid, queue: u8) -> bool {
        self.queues[usize::from(queue)].lock.is_none_or(|holder| holder == tid)
    }

    // ---- flushing

    /// `Some(true)`: done. `Some(false)`: has to wait, or goes on waiting. `None`: cannot move.
    fn flush(&mut self, tid: Tid, queue: u8) -> Option<bool> {
        if !self.may_lock(tid, queue) {
            return None;
        }
        if self.thread(tid).exec.micro == Micro::Waiting {
            if !self.thread(tid).event {
                return None;
            }
            self.hand_over(tid, queue);
            self.ledger.waited(tid);
            return Some(true);
        }
        let q = &mut self.queues[usize::from(queue)];
        if q.pwqs.is_empty() {
            return Some(true);
        }
        let mut flush_state = std::mem::replace(&mut q.flush_state, FlushState::new());
        self.ledger.wait_for_queue(tid, queue);
        let start =
            flush_state.start(tid as u8, &mut |flush, color| self.prep_pwqs(queue, flush, color));
        self.queues[usize::from(queue)].flush_state = flush_state;
        self.thread(tid).event = false;
        if start == Start::Done {
            self.ledger.waited(tid);
            return Some(true);
        }
        self.thread(tid).exec.micro = Micro::Waiting;
        Some(false)
    }

    fn prep_pwqs(&mut self, queue: u8, flush: Option<u8>, color: Option<u8>) -> bool {
        let q = &mut self.queues[usize::from(queue)];
        flush::prep_pwqs(&q.countdown, &q.pwqs, flush, |at| {
            let pool = &mut self.pools[at.pool.0 as usize];
            pool.lock(LockFor::Decide).flush_arm(at.pwq, flush, color, &q.countdown);
        })
    }

    fn hand_over(&mut self, tid: Tid, queue: u8) {
        let q = &mut self.queues[usize::from(queue)];
        if !q.flush_state.is_first(tid as u8) {
            return;
        }
        let mut flush_state = std::mem::replace(&mut q.flush_state, FlushState::new());
        let mut finished = Vec::new();
        flush_state.cascade(&mut |flush, color| self.prep_pwqs(queue, flush, color), |flusher| {
            finished.push(flusher)
        });
        self.queues[usize::from(queue)].flush_state = flush_state;
        for flusher in finished {
            self.thread(usize::from(flusher)).event = true;
        }
    }

    /// One pwq has nothing of the flushed colour left.
    pub(super) fn flush_pwq_done(&mut self, queue: u8) {
        let q = &mut self.queues[usize::from(queue)];
        if q.countdown.done()
            && let Some(first) = q.flush_state.first()
        {
            self.thread(usize::from(first)).event = true;
        }
    }

    // ---- attributes

    fn apply_attrs(&mut self, tid: Tid, queue: u8, pool: u8) -> Progress {
        if !self.may_lock(tid, queue) {
            return Progress::Blocked;
        }
        match self.thread(tid).exec.micro {
            Micro::Start => self.relink(tid, queue, pool),
            RETIRE => self.retire_next(tid, queue),
            UNPLUG => {
                self.unplug_oldest(tid, queue);
                self.unlock_queue(tid, queue);
                self.done(tid)
            }
            micro => unreachable!("{micro:?}"),
        }
    }

    /// Publishes the new pwqs.
    fn relink(&mut self, tid: Tid, queue: u8, pool: u8) -> Progress {
        let q = &self.queues[usize::from(queue)];
        let wanted = PoolId(u32::from(pool));
        let moves = |slot: &usize| Pwqs::moves(q.made[q.slots[*slot]].pool, wanted);
        let slots: Vec<_> = (0..q.slots.len()).filter(moves).collect();
        if !q.is_alive || q.pwqs.is_empty() || slots.is_empty() {
            return self.done(tid);
        }
        for slot in slots {
            let cpu_pwq = self.lead(queue, pool);
            self.queues[usize::from(queue)].slots[slot] = cpu_pwq;
        }
        let q = &mut self.queues[usize::from(queue)];
        let is_led = |at| q.slots.iter().any(|&cpu_pwq| q.made[cpu_pwq] == at);
        let replaced = q.pwqs.replaced(is_led);
        q.lock = Some(tid);
        self.thread(tid).retire = replaced;
        self.goes_on(tid, RETIRE)
    }

    fn retire_next(&mut self, tid: Tid, queue: u8) -> Progress {
        if let Some(at) = self.thread(tid).remove {
            return self.remove(tid, queue, at);
        }
        if self.thread(tid).retire.is_empty() {
            return self.goes_on(tid, UNPLUG);
        }
        let at = self.thread(tid).retire.remove(0);
        let pool = at.pool.0 as u8;
        let is_idle = self.pools[usize::from(pool)].core.retire_pwq(at.pwq);
        self.unlock(tid, pool, cmwq_core::Kick::None);
        self.queues[usize::from(queue)].pwqs.retire(at);
        self.thread(tid).remove = is_idle.then_some(at);
        Progress::Moved
    }

    /// Removes a pwq, once a slot that is on its way to it has come. One that its rescuer visits is
    /// left to him.
    fn remove(&mut self, tid: Tid, queue: u8, at: PwqRef) -> Progress {
        match self.try_remove(queue, at) {
            None => Progress::Blocked,
            Some(is_removed) => {
                let thread = self.thread(tid);
                thread.remove = None;
                if is_removed {
                    thread.unused.push(at.pool.0 as u8);
                }
                Progress::Moved
            }
        }
    }

    /// `None`: a slot is on its way to it. `Some(false)`: its rescuer visits.
    fn try_remove(&mut self, queue: u8, at: PwqRef) -> Option<bool> {
        let core = &mut self.pools[at.pool.0 as usize].core;
        match core.remove_pwq(at.pwq) {
            Ok(stats) => {
                let q = &mut self.queues[usize::from(queue)];
                q.pwqs.remove(at);
                q.removed += stats;
                Some(true)
            }
            Err(Stays::Visited) => Some(false),
            Err(Stays::AwaitsSlot | Stays::InUse) => None,
        }
    }

    fn unplug_oldest(&mut self, tid: Tid, queue: u8) {
        let is_ordered = self.scope.queues[usize::from(queue)].kind == Kind::Ordered;
        if let Some(at) = self.queues[usize::from(queue)].pwqs.to_unplug(is_ordered) {
            let kick = self.pools[at.pool.0 as usize].core.unplug_pwq(at.pwq);
            self.unlock(tid, at.pool.0 as u8, kick);
        }
    }

    fn unlock_queue(&mut self, tid: Tid, queue: u8) {
        self.queues[usize::from(queue)].lock = None;
        let thread = self.thread(tid);
        let unused = std::mem::take(&mut thread.unused);
        thread.todo.extend(unused.into_iter().map(Todo::CloseIfUnused));
    }

    /// Some retired pwq has drained.
    pub(super) fn release_retired(&mut self, tid: Tid, queue: u8) -> Progress {
        if !self.may_lock(tid, queue) {
            return Progress::Blocked;
        }
        for at in self.queues[usize::from(queue)].pwqs.retired().collect::<Vec<_>>() {
            if self.pools[at.pool.0 as usize].core.has_drained(at.pwq) {
                match self.try_remove(queue, at) {
                    None => return Progress::Blocked,
                    Some(true) => self.thread(tid).unused.push(at.pool.0 as u8),
                    Some(false) => {}
                }
            }
        }
        self.unplug_oldest(tid, queue);
        self.unlock_queue(tid, queue);
        Progress::Moved
    }

    // ---- the end of a queue

    fn destroy(&mut self, tid: Tid, queue: u8) -> Progress {
        let q = &mut self.queues[usize::from(queue)];
        q.closed = q.closed.and(Closed::DESTROYING);
        match self.thread(tid).exec.micro {
            Micro::Start | Micro::Waiting => match self.flush(tid, queue) {
                Some(true) => self.goes_on(tid, EMPTY),
                Some(false) => Progress::Moved,
                None => Progress::Blocked,
            },
            EMPTY => match self.look(tid, queue) {
                Seen::SoFarIdle => Progress::Moved,
                Seen::Empty => self.ends_look(tid, STOP),
                Seen::Busy | Seen::MadeProgress => self.ends_look(tid, Micro::Start),
            },
            STOP => {
                self.queues[usize::from(queue)].called.clear();
                if !self.may_lock(tid, queue) || self.rescuer_is_busy(queue) {
                    return Progress::Blocked;
                }
                let q = &mut self.queues[usize::from(queue)];
                q.lock = Some(tid);
                self.goes_on(tid, LEAVE)
            }
            LEAVE => self.leave_pools(tid, queue),
            micro => unreachable!("{micro:?}"),
        }
    }

    /// The next step of a look whether a queue is empty, which begins with the first.
    fn look(&mut self, tid: Tid, queue: u8) -> Seen {
        let Some(look) = self.thread(tid).look.clone() else {
            let (last, left) =
                (self.begin_look(queue), self.queues[usize::from(queue)].pwqs.iter());
            let left = left.collect();
            self.thread(tid).look = Some(Look { queue, last, left });
            return Seen::SoFarIdle;
        };
        let Some(&at) = look.left.first() else {
            let is_empty = look.last.finds_it_empty(false, || self.progress(queue))
                || self.without == Some(Rule::LastLooksSeeNoProgress);
            return if is_empty { Seen::Empty } else { Seen::MadeProgress };
        };
        let Pool { core, inbox, .. } = &self.pools[at.pool.0 as usize];
        if core.reading(inbox).load(at.pwq).is_some_and(|load| load.is_in_flight) {
            return Seen::Busy;
        }
        let look = self.thread(tid).look.as_mut();
        look.expect("it was there").left.remove(0);
        Seen::SoFarIdle
    }

    fn ends_look(&mut self, tid: Tid, next: Micro) -> Progress {
        self.thread(tid).look = None;
        self.goes_on(tid, next)
    }

    /// The counters are read at once here: they only grow.
    pub(crate) fn begin_look(&self, queue: u8) -> EmptyCheck {
        EmptyCheck::begin(self.progress(queue))
    }

    fn progress(&self, queue: u8) -> u64 {
        let q = &self.queues[usize::from(queue)];
        let mut sum = q.removed;
        for at in q.pwqs.iter() {
            let Pool { core, inbox, .. } = &self.pools[at.pool.0 as usize];
            sum += core.reading(inbox).stats(at.pwq).unwrap_or_default();
        }
        sum.progress()
    }

    /// Closes all queues, has them refuse the items of timers, and waits until they are idle. Then
    /// the service thread leaves, and no timer comes any more.
    fn shut_down(&mut self, tid: Tid) -> Progress {
        match self.thread(tid).exec.micro {
            Micro::Start => {
                for q in &mut self.queues {
                    q.closed = q.closed.and(Closed::SHUT);
                }
                self.goes_on(tid, DISARM)
            }
            DISARM => match self.timers.iter_mut().position(|timer| timer.take().is_some()) {
                Some(item) => {
                    let item = self.items.get(item);
                    item.release(item.word());
                    Progress::Moved
                }
                None => self.goes_on(tid, IDLE),
            },
            // One queue after the other: each lets in only what its own items queue.
            IDLE => {
                let queue = self.thread(tid).look.as_ref().map_or(0, |look| look.queue);
                match self.look(tid, queue) {
                    Seen::SoFarIdle => Progress::Moved,
                    // It asks again and again, in the runtime.
                    Seen::Busy => Progress::Blocked,
                    Seen::MadeProgress => self.ends_look(tid, IDLE),
                    Seen::Empty if usize::from(queue) + 1 < self.queues.len() => {
                        self.thread(tid).look = None;
                        let _ = self.look(tid, queue + 1);
                        Progress::Moved
                    }
                    Seen::Empty => {
                        self.service_has_left = true;
                        self.thread(tid).look = None;
                        self.done(tid)
                    }
                }
            }
            micro => unreachable!("{micro:?}"),
        }
    }

    fn rescuer_is_busy(&self, queue: u8) -> bool {
        self.threads.iter().flatten().any(|thread| {
            thread.who == Who::Rescuer(queue)
                && (thread.at != At::Parked || thread.run.is_some() || !thread.todo.is_empty())
        })
    }

    fn leave_pools(&mut self, tid: Tid, queue: u8) -> Progress {
        let Some(at) = self.queues[usize::from(queue)].pwqs.iter().next() else {
            let q = &mut self.queues[usize::from(queue)];
            (q.lock, q.is_alive) = (None, false);
            return self.done(tid);
        };
        if self.try_remove(queue, at).is_none() {
            return Progress::Blocked;
        }
        self.queues[usize::from(queue)].pwqs.remove(at);
        self.thread(tid).todo.push(Todo::CloseIfUnused(at.pool.0 as u8));
        Progress::Moved
    }

    // ---- limits and CPUs

    /// Changes the limits and applies them to all pwqs.
    fn set_limits(&mut self, tid: Tid, queue: u8, set: impl FnOnce(&mut Limits)) -> Progress {
        if !self.may_lock(tid, queue) {
            return Progress::Blocked;
        }
        let (scope, q) = (self.scope, &mut self.queues[usize::from(queue)]);
        set(&mut q.limits);
        let limits = q.limits;
        self.ledger.limit(queue, limits.max_active(), limits.min_active());
        let nr_shared = q.shared.adjust(&limits, false, scope.cpus()).len() as u8;
        let own = if limits.tells_each() { q.pwqs.iter().collect() } else { Vec::new() };
        for at in own {
            let core = &mut self.pools[at.pool.0 as usize].core;
            let kick = core.set_max_active(at.pwq, limits.own(false));
            self.unlock(tid, at.pool.0 as u8, kick);
        }
        if self.without != Some(Rule::RisesAreHandedOver) {
            let hand_over = (0..nr_shared).map(|limit| Todo::HandOver(queue, limit));
            self.thread(tid).todo.extend(hand_over);
        }
        self.done(tid)
    }

    fn set_online(&mut self, tid: Tid, pool: u8, is_online: bool) -> Progress {
        let concurrency = self.scope.pools[usize::from(pool)].concurrency(is_online);
        let Pool { core, .. } = &mut self.pools[usize::from(pool)];
        let kick = core.set_concurrency(concurrency);
        self.unlock(tid, pool, kick);
        self.done(tid)
    }
}
