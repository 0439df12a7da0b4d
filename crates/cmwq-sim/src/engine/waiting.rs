//! Waiting for items and for queues.

use std::cell::Cell;

use cmwq_core::flush::{self, PwqsToFlush as _};
use cmwq_core::{LockFor, Pwqs};

use super::{Due, Engine};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{Queueing, What};
use crate::grown::grown;
use crate::machine::Tid;
use crate::places::{Pool, Queue};
use crate::plan::{ItemId, QueueId};

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    Worker(Tid),
    /// A caller from outside, which does nothing else.
    Caller,
    /// An owner, by its index.
    Owner(usize),
    /// The thread that drops this queue.
    Drop(QueueId),
}

/// A wait for the last queueing of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    what: Queueing,
    who: Waiter,
    is_over: bool,
}

/// A wait for everything on a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flush {
    queue: QueueId,
    who: Waiter,
}

/// Arms the queue's pwqs.
fn prep_pwqs(
    pools: &mut [Pool],
    (count, pwqs): (&Cell<u32>, &Pwqs),
    flush: Option<u8>,
    color: Option<u8>,
) -> bool {
    flush::prep_pwqs(count, pwqs, flush, |at| {
        pools[at.pool.0 as usize].lock(LockFor::Decide).flush_arm(at.pwq, flush, color, count);
    })
}

impl Engine<'_> {
    /// Waits for the last queueing of an item; if that is not waited for, since it was taken back
    /// or its timer is armed, for the run that goes on. `false`: the item does not run either.
    pub(super) fn flush_item(&mut self, item: ItemId, who: Waiter) -> bool {
        let Some(pool) = self.arena.word(item).pool() else { return false };
        let named = pool.0 as usize;
        let core = self.pools.list[named].lock(LockFor::Find);
        let is_queued = self.arena.word(item).is_queued();
        let mut barrier = self.arena.insert_barrier(core, item);
        self.check_pool(named);
        if self.runs_stay_behind && self.config.sabotage != Some(Sabotage::AskNamedPool) {
            for pool in (0..self.pools.list.len()).filter(|pool| *pool != named) {
                if barrier.is_none() {
                    let core = self.pools.list[pool].lock(LockFor::Counts);
                    barrier = self.arena.insert_barrier(core, item);
                    self.check_pool(pool);
                }
            }
        }
        let Some(barrier) = barrier else {
            self.note(What::FoundIdle(item));
            return false;
        };
        let ticket = if is_queued { self.items[item].pending } else { self.items[item].running };
        let queue = self.plan.items[item].queue;
        let what = Queueing { item, ticket: ticket.unwrap_or_default(), queue };
        let wait = self.waits.len();
        let is_over = self.strikes(Sabotage::WaitEarly, 1);
        self.waits.push(Wait { what, who, is_over });
        *grown(&mut self.wait_of_barrier, barrier) = wait;
        self.note(What::WaitBegan(wait, what));
        if is_over {
            self.note(What::WaitEnded(wait, what));
        }
        !is_over
    }

    /// A worker has come to a barrier.
    pub(super) fn wait_is_over(&mut self, barrier: usize) {
        let index = self.wait_of_barrier[barrier];
        let wait = self.waits[index];
        self.arena.free_barrier(barrier);
        if wait.is_over {
            return;
        }
        self.waits[index].is_over = true;
        self.note(What::WaitEnded(index, wait.what));
        match wait.who {
            Waiter::Worker(tid) => self.wake(tid),
            who => self.goes_on(who),
        }
    }

    // ---- whole queues

    /// Waits for everything queued so far. `false`: nothing was in flight.
    pub(super) fn flush_queue(&mut self, queue: QueueId, who: Waiter) -> bool {
        let me = self.flushes.len();
        self.flushes.push(Flush { queue, who });
        self.note(What::FlushBegan(me, queue));
        if self.strikes(Sabotage::FlushEarly, 1) {
            self.flush_ended(me);
            return false;
        }
        let Queue { flush, pwqs, pwqs_to_flush, .. } = &mut self.queues[queue];
        let (pools, all) = (&mut self.pools.list, (&*pwqs_to_flush, &*pwqs));
        let start = flush.start(me, &mut |flush, color| prep_pwqs(pools, all, flush, color));
        self.drop_locks(queue);
        if start == cmwq_core::Start::Done {
            self.flush_ended(me);
            return false;
        }
        if let Waiter::Worker(tid) = who {
            self.threads[tid].flush = Some(me);
        }
        true
    }

    /// One pwq has no item of the flushed colour left.
    pub(super) fn flush_pwq_done(&mut self, queue: QueueId) {
        let queue = &self.queues[queue];
        if queue.pwqs_to_flush.done()
            && let Some(first) = queue.flush.first()
        {
            self.wake_flusher(first);
        }
    }

    fn wake_flusher(&mut self, flush: usize) {
        match self.flushes[flush].who {
            Waiter::Worker(tid) => self.wake(tid),
            _ => {
                let later = self.rng.below(self.config.faults.slow_flushers + 1);
                self.agenda.add(self.now + later, Rank::Wake, Due::Flusher(flush));
            }
        }
    }

    /// The worker that waited for a flush has a CPU again.
    pub(super) fn after_wait(&mut self, tid: Tid) {
        self.threads[tid].awaits = None;
        if let Some(flush) = self.threads[tid].flush.take() {
            self.flusher_continues(flush);
        }
    }

    /// A woken flusher leaves; the first one completes the others.
    pub(super) fn flusher_continues(&mut self, me: usize) {
        let Flush { queue, who } = self.flushes[me];
        self.flush_ended(me);
        self.hand_over(me, queue);
        self.goes_on(who);
    }

    /// The wait of a thread that is no worker is over.
    fn goes_on(&mut self, who: Waiter) {
        match who {
            Waiter::Owner(owner) => self.agenda.add(self.now, Rank::Wake, Due::Owner(owner)),
            Waiter::Drop(queue) => self.go_on_dropping(queue),
            Waiter::Worker(_) | Waiter::Caller => {}
        }
    }

    fn hand_over(&mut self, me: usize, queue: QueueId) {
        if !self.queues[queue].flush.is_first(me) {
            return;
        }
        let Queue { flush, pwqs, pwqs_to_flush, .. } = &mut self.queues[queue];
        let (pools, all) = (&mut self.pools.list, (&*pwqs_to_flush, &*pwqs));
        let mut done = Vec::new();
        flush.cascade(&mut |flush, color| prep_pwqs(pools, all, flush, color), |flusher| {
            done.push(flusher)
        });
        self.drop_locks(queue);
        for flusher in done {
            self.wake_flusher(flusher);
        }
    }

    /// Drops the locks of the queue's pools, after its pwqs were armed.
    fn drop_locks(&mut self, queue: QueueId) {
        for index in 0..self.queues[queue].cpu_pwqs.len() {
            self.check_pool(self.queues[queue].cpu_pwqs[index].pool);
        }
        self.helping.flushed += self.queues[queue].cpu_pwqs.len() as u64;
    }

    fn flush_ended(&mut self, me: usize) {
        self.note(What::FlushEnded(me, self.flushes[me].queue));
    }
}
