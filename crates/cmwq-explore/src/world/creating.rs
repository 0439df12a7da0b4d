//! What an outcome demands after the lock was dropped; among it, making workers.

use cmwq_core::{Create, Creator, Kick, PwqRef, Retry, WorkerId, may_add_worker, yield_for};

use super::{Progress, Tid, Who, World};

/// Something to be done without a lock, before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Create a worker: the pool has none.
    First(u8),
    /// Create a worker, so that one can stand by.
    Spare(u8),
    /// Create a worker, as the manager.
    Manage(u8, WorkerId),
    /// A registered worker's thread is there, or cannot be had. By the manager, if any.
    Created(u8, WorkerId, Option<WorkerId>),
    /// A pwq was given a slot of its node.
    Grant(PwqRef),
    /// The free slots of this limit of a queue go to the pwqs in line.
    HandOver(u8, u8),
    /// A flush of this queue waits for one pwq less.
    FlushDone(u8),
    /// A retired pwq of this queue has drained.
    Retired(u8),
    /// A pwq has left this pool.
    CloseIfUnused(u8),
    /// Let the idle workers of an unused pool go.
    Dismiss(u8),
    /// Have another pool let a worker go for this one, which got none.
    Yield(u8),
    /// Call the worker that was created for that.
    Call(u8),
}

impl Todo {
    /// The pool for which a worker is created, or is about to be.
    pub(crate) const fn creates_for(self) -> Option<u8> {
        match self {
            Self::First(pool)
            | Self::Spare(pool)
            | Self::Manage(pool, _)
            | Self::Created(pool, ..) => Some(pool),
            _ => None,
        }
    }
}

impl World<'_> {
    /// The first thing on a thread's list.
    pub(super) fn do_first(&mut self, tid: Tid) -> Progress {
        let todo = self.thread(tid).todo.remove(0);
        match todo {
            Todo::First(_) | Todo::Spare(_) | Todo::Manage(..) => self.begin_creation(tid, todo),
            Todo::Created(pool, id, by) => {
                if self.left.outage {
                    return Progress::Blocked;
                }
                self.created(tid, pool, id, by);
            }
            Todo::HandOver(queue, limit) => self.hand_slot_over(tid, queue, limit),
            Todo::Grant(at) => self.grant(tid, at),
            Todo::FlushDone(queue) => self.flush_pwq_done(queue),
            Todo::Retired(queue) => return self.release_retired(tid, queue),
            Todo::CloseIfUnused(pool) => self.close_if_unused(tid, pool),
            Todo::Dismiss(pool) => self.dismiss_idle(tid, pool),
            Todo::Yield(pool) => self.have_one_yielded(pool),
            Todo::Call(pool) => self.call_created(tid, pool),
        }
        Progress::Moved
    }

    fn begin_creation(&mut self, tid: Tid, todo: Todo) {
        let (Todo::First(pool) | Todo::Spare(pool) | Todo::Manage(pool, _)) = todo else { return };
        let is_rescuer = matches!(self.thread(tid).who, Who::Rescuer(_));
        let p = &mut self.pools[usize::from(pool)];
        let by = match todo {
            Todo::Manage(_, id) => Creator::Manager(id),
            Todo::First(_) => Creator::First,
            _ => Creator::Spare,
        };
        match p.core.may_create(by, is_rescuer, p.now) {
            Create::Now => {}
            Create::Later(_) => {
                p.retry = true;
                p.mayday |= p.core.needs_rescuer();
                return;
            }
            Create::No => return,
        }
        let id = p.core.worker_new();
        p.mayday |= p.core.needs_rescuer();
        self.thread(tid).todo.insert(0, Todo::Created(pool, id, by.manager()));
    }

    fn created(&mut self, tid: Tid, pool: u8, id: WorkerId, by: Option<WorkerId>) {
        let p = &mut self.pools[usize::from(pool)];
        let kick = p.core.worker_created(id, by, p.now);
        let is_closed = p.core.is_closed();
        self.add_thread(Who::Worker(pool, id));
        self.unlock(tid, pool, kick);
        if is_closed {
            self.thread(tid).todo.push(Todo::Dismiss(pool));
        }
    }

    /// The other way a creation may end.
    pub(crate) fn creation_fails(&mut self, tid: Tid) -> Progress {
        let first = self.thread(tid).todo.first().copied();
        let Some(Todo::Created(pool, id, by)) = first else { return Progress::Blocked };
        if !self.left.outage {
            let Some(left) = self.left.failed_creations.checked_sub(1) else {
                return Progress::Blocked;
            };
            self.left.failed_creations = left;
        }
        let p = &mut self.pools[usize::from(pool)];
        p.core.create_failed(id, by, p.now);
        self.create_later(tid, pool);
        Progress::Moved
    }

    /// And another one, but not of a pool's first worker.
    pub(crate) fn creation_refused(&mut self, tid: Tid) -> Progress {
        let first = self.thread(tid).todo.first().copied();
        let Some(Todo::Created(pool, id, by)) = first else { return Progress::Blocked };
        let Some(left) = self.left.refusals.checked_sub(1) else { return Progress::Blocked };
        let p = &mut self.pools[usize::from(pool)];
        let nr_others = p.core.nr_staying() - 1;
        if may_add_worker(1, 1, nr_others) {
            return Progress::Blocked;
        }
        self.left.refusals = left;
        p.core.create_refused(id, by, p.now);
        self.create_later(tid, pool);
        Progress::Moved
    }

    /// The worker in the making was none.
    fn create_later(&mut self, tid: Tid, pool: u8) {
        self.thread(tid).todo.remove(0);
        let p = &mut self.pools[usize::from(pool)];
        p.retry = true;
        let is_closed = p.core.is_closed();
        self.unlock(tid, pool, Kick::None);
        if is_closed {
            self.thread(tid).todo.push(Todo::Dismiss(pool));
        }
        if self.pools.len() > 1 {
            self.thread(tid).todo.push(Todo::Yield(pool));
        }
    }

    /// That the next attempt may come sooner then makes no difference here.
    fn have_one_yielded(&mut self, refused: u8) {
        let has_none = self.pools[usize::from(refused)].core.nr_staying() == 0;
        let (pools, mut leaving) = (&mut self.pools, None);
        let all = 0..pools.len();
        let _ = yield_for(
            &usize::from(refused),
            has_none,
            || all.clone(),
            |&pool, may_be_last| {
                let left = pools[pool].core.yield_one(may_be_last);
                leaving = leaving.or(left.map(|id| (pool as u8, id)));
                left.is_some()
            },
        );
        if let Some((pool, id)) = leaving {
            self.wake(pool, id);
        }
    }

    fn grant(&mut self, tid: Tid, at: PwqRef) {
        let pool = at.pool.0 as u8;
        let (kick, next) = self.pools[usize::from(pool)].core.grant(at.pwq);
        self.unlock(tid, pool, kick);
        if let Some(next) = next {
            self.thread(tid).todo.insert(0, Todo::Grant(next));
        }
    }

    /// One after the other, since a pwq with more items goes to the end of the line.
    fn hand_slot_over(&mut self, tid: Tid, queue: u8, limit: u8) {
        let shared = self.queues[usize::from(queue)].shared.iter().nth(usize::from(limit));
        if let Some(at) = shared.and_then(|shared| shared.hand_over()) {
            let again = [Todo::Grant(at), Todo::HandOver(queue, limit)];
            drop(self.thread(tid).todo.splice(0..0, again));
        }
    }

    fn close_if_unused(&mut self, tid: Tid, pool: u8) {
        if !self.scope.pools[usize::from(pool)].closes {
            return;
        }
        let p = &mut self.pools[usize::from(pool)];
        if p.core.close_if_unused() {
            self.thread(tid).todo.insert(0, Todo::Dismiss(pool));
        }
    }

    fn dismiss_idle(&mut self, tid: Tid, pool: u8) {
        let p = &mut self.pools[usize::from(pool)];
        if let Some(id) = p.core.dismiss_one() {
            self.wake(pool, id);
            self.thread(tid).todo.insert(0, Todo::Dismiss(pool));
        }
    }

    // ---- the service thread

    /// Tries again to create a worker where that failed, once the pause is over.
    pub(crate) fn retry(&mut self, pool: u8) -> Progress {
        let p = &mut self.pools[usize::from(pool)];
        if !p.retry {
            return Progress::Blocked;
        }
        let retry = p.core.retry(p.now);
        if matches!(retry, Retry::At(_)) {
            return Progress::Blocked;
        }
        p.retry = false;
        if retry == Retry::Create {
            self.thread(super::SERVICE).todo.push(Todo::Spare(pool));
        }
        Progress::Moved
    }

    /// The pause after a failed creation is over.
    pub(crate) fn pass_time(&mut self, pool: u8) -> Progress {
        let p = &mut self.pools[usize::from(pool)];
        match p.core.create_retry_at().filter(|&at| at > p.now) {
            Some(at) => p.now = at,
            None => return Progress::Blocked,
        }
        Progress::Moved
    }

    /// Calls rescuers, if they are still needed.
    pub(crate) fn mayday(&mut self, pool: u8) -> Progress {
        let p = &mut self.pools[usize::from(pool)];
        if !p.mayday || self.left.maydays == Some(0) {
            return Progress::Blocked;
        }
        self.left.maydays = self.left.maydays.map(|left| left - 1);
        let mut calls = Vec::new();
        p.mayday = p.core.mayday(|at, wq| calls.push((at, wq)));
        for (at, wq) in calls {
            let queue = &mut self.queues[wq.0 as usize];
            if queue.is_alive {
                assert!(!queue.called.contains(&at), "(called): {at:?} called twice");
                queue.called.push(at);
            }
        }
        Progress::Moved
    }

    /// The oldest surplus worker is told to leave.
    pub(crate) fn cull(&mut self, pool: u8) -> Progress {
        let p = &mut self.pools[usize::from(pool)];
        let Some(left) = self.left.culls.checked_sub(1) else { return Progress::Blocked };
        let Some(id) = p.core.cull_one(u64::MAX) else { return Progress::Blocked };
        self.left.culls = left;
        self.wake(pool, id);
        Progress::Moved
    }
}
