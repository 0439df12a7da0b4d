//! Rescuers: one thread per queue with `mem_reclaim`, called when no worker comes for its items.

use std::collections::VecDeque;

use cmwq_core::{LockFor, PwqRef, Rescue, RescueVisit, WorkerId};

use super::working::Turn;
use super::{Due, Engine, Mode, Role};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::machine::{Place, Tid, WHOLE};
use crate::plan::QueueId;
use crate::scenario::Flag;

/// A queue's rescuer.
#[derive(Debug)]
pub(super) struct Rescuer {
    queue: QueueId,
    tid: Tid,
    /// The pwqs that called, in their order.
    called: VecDeque<PwqRef>,
    /// The pwq whose call it answers.
    answering: Option<PwqRef>,
    visit: Option<RescueVisit>,
}

impl Engine<'_> {
    /// Creates the rescuers, before a creation can fail.
    pub(super) fn set_up_rescuers(&mut self) {
        let has_rescuer = |queue: &QueueId| self.plan.queues[*queue].flags.has(Flag::MemReclaim);
        let queues: Vec<_> = (0..self.plan.queues.len()).filter(has_rescuer).collect();
        for queue in queues {
            let tid = self.machine.spawn(Place::Domain(WHOLE), true);
            self.spawn_thread(PoolNo::MAX, WorkerId(0), Mode::Rescue);
            self.threads[tid].role = Role::Rescuer;
            self.threads[tid].is_parked = true;
            let (called, answering, visit) = (VecDeque::new(), None, None);
            self.rescuers.push(Rescuer { queue, tid, called, answering, visit });
            self.note(What::RescuerMade(queue, tid + 1));
        }
    }

    // ---- the alarm

    /// No worker of `pool` was kicked. If the pool needs a rescuer, plans a look.
    pub(super) fn plan_mayday(&mut self, pool: PoolNo) {
        let entry = &mut self.pools.list[pool];
        if entry.read().needs_rescuer()
            && self.config.sabotage != Some(Sabotage::NeverRescue)
            && let Some(at) = entry.mayday.arm(|| self.now)
        {
            self.agenda.add(at, Rank::Wake, Due::Mayday(pool));
        }
    }

    /// Calls rescuers, as long as they are needed.
    pub(super) fn mayday(&mut self, pool: PoolNo) {
        let mut calls = Vec::new();
        let entry = &mut self.pools.list[pool];
        let is_needed =
            entry.lock(LockFor::Find).mayday(|at, wq| calls.push((at, wq.0 as QueueId)));
        if let Some(at) = entry.mayday.after(is_needed, self.now) {
            self.agenda.add(at, Rank::Wake, Due::Mayday(pool));
        }
        self.check_pool(pool);
        for (at, queue) in calls {
            let Some(index) = self.rescuers.iter().position(|r| r.queue == queue) else { continue };
            self.rescuers[index].called.push_back(at);
            self.answer_call(index);
        }
    }

    /// A rescuer that sleeps answers the first call.
    pub(super) fn answer_call(&mut self, index: usize) {
        let rescuer = &mut self.rescuers[index];
        let tid = rescuer.tid;
        if !self.threads[tid].is_parked {
            return;
        }
        let Some(at) = rescuer.called.pop_front() else { return };
        rescuer.answering = Some(at);
        self.threads[tid].is_parked = false;
        self.machine.move_to(tid, self.pools.list[at.pool.0 as usize].kind.place());
        self.wake(tid);
    }

    // ---- a visit

    pub(super) fn ask_as_rescuer(&mut self, tid: Tid) -> Turn {
        let index = self.rescuers.iter().position(|r| r.tid == tid).expect("it is a rescuer");
        if self.rescuers[index].visit.is_none() && !self.begin_visit(index) {
            return self.rest(index);
        }
        let rescuer = &mut self.rescuers[index];
        let (pool, others_wait) = (self.threads[tid].home, !rescuer.called.is_empty());
        let visit = rescuer.visit.as_mut().expect("it has begun");
        let next = self.pools.list[pool].lock(LockFor::Find).rescue_next(visit, others_wait);
        self.check_pool(pool);
        match next {
            Rescue::Run(claim) => {
                self.threads[tid].seq = claim.seq;
                let id = self.threads[tid].id;
                self.begin(tid, pool, id, claim)
            }
            Rescue::CallAgain => self.end_visit(index, pool, true),
            Rescue::Leave => self.end_visit(index, pool, false),
        }
    }

    fn begin_visit(&mut self, index: usize) -> bool {
        let rescuer = &mut self.rescuers[index];
        let Some(at) = rescuer.answering else { return false };
        let (pool, wq) = (at.pool.0 as usize, self.queues[rescuer.queue].key);
        let visit = self.pools.list[pool].lock(LockFor::Find).rescue_begin(at.pwq, wq);
        self.check_pool(pool);
        let Some(visit) = visit else { return false };
        let rescuer = &mut self.rescuers[index];
        let thread = &mut self.threads[rescuer.tid];
        (thread.home, thread.id) = (pool, visit.worker());
        rescuer.visit = Some(visit);
        true
    }

    fn end_visit(&mut self, index: usize, pool: PoolNo, is_called_again: bool) -> Turn {
        let rescuer = &mut self.rescuers[index];
        let (queue, at) = (rescuer.queue, rescuer.answering);
        rescuer.called.extend(at.filter(|_| is_called_again));
        let visit = rescuer.visit.take().expect("it has begun");
        let kick = self.pools.list[pool].lock(LockFor::Find).rescue_end(visit);
        self.kick(pool, kick);
        // A retired pwq may have waited for this visit to end.
        let has_drained = |at: PwqRef| self.pools.list[pool].read().has_drained(at.pwq);
        if at.is_some_and(has_drained) && self.config.sabotage != Some(Sabotage::LeaveDrained) {
            self.release(queue);
        }
        self.rest(index)
    }

    /// The rescuer leaves the pool's CPUs, and may answer its next call.
    fn rest(&mut self, index: usize) -> Turn {
        let rescuer = &mut self.rescuers[index];
        rescuer.answering = None;
        let (tid, queue) = (rescuer.tid, rescuer.queue);
        self.threads[tid].is_parked = true;
        self.agenda.add(self.now, Rank::Wake, Due::Rescuer(index));
        if std::mem::take(&mut self.queues[queue].awaits_rescuer) {
            self.agenda.add(self.now, Rank::Wake, Due::Drop(queue));
        }
        Turn::Off
    }

    /// Whether the queue's rescuer is at a pool, or on its way there.
    pub(super) fn is_rescuer_away(&self, queue: QueueId) -> bool {
        self.rescuers.iter().any(|it| it.queue == queue && it.answering.is_some())
    }

    /// The queue goes, and nothing of it waits: forgets the calls for its items.
    pub(super) fn forget_calls(&mut self, queue: QueueId) {
        let its = self.rescuers.iter_mut().filter(|rescuer| rescuer.queue == queue);
        its.for_each(|rescuer| rescuer.called.clear());
    }

    /// What a thread does between two items.
    pub(super) fn mode_between_items(&self, tid: Tid) -> Mode {
        match self.threads[tid].role {
            Role::Worker => Mode::Ask,
            Role::Rescuer => Mode::Rescue,
            Role::BhContext(context) => Mode::Serve(context),
        }
    }
}
