//! Creating workers and dismissing them: by a pool's manager, from outside, or later by the
//! service, or its creator.
//!
//! Why: docs/decisions/threads-create-threads.md

use std::io;

use cmwq_core::{Create, Creator, Kick, LockFor, PoolId, WorkerId, yield_for};

use super::{Locked, Pool, PoolGuard, PoolKind, Todo};
use crate::engine::runtime::Runtime;
use crate::engine::service;
use crate::engine::tools::reclaim;
use crate::engine::tools::thread::Thread;
use crate::os::backoff::Backoff;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park;
use crate::os::sync::{Arc, Ordering, leaves_out};
use crate::record::Role;

/// A worker that the core knows, and that has no thread yet.
struct Registered {
    id: WorkerId,
    thread: Arc<Thread>,
    /// Workers of the pool beside it.
    nr_others: u32,
}

/// Why a registered worker has got no thread.
enum NotStarted {
    /// The process has as many workers as it may.
    Refused,
    /// The system gave none.
    Failed(io::Error),
}

impl NotStarted {
    /// The system's number; 0: there is none.
    fn os_error(&self) -> i32 {
        match self {
            Self::Refused => 0,
            Self::Failed(error) => error.raw_os_error().unwrap_or(0),
        }
    }
}

impl Pool {
    /// Creates a worker, as the manager `by` or, if the pool has none at all, from outside. Caller
    /// holds no core lock. On failure nothing is lost: the pool works with what it has, and the
    /// service tries again.
    #[cold]
    pub(crate) fn create_worker(&'static self, by: Creator) {
        let is_left_to_service = self.try_to_create(by);
        if is_left_to_service && by.manager().is_none() && self.runtime.service.has_ended() {
            self.create_without_service();
        }
    }

    /// As [`create_worker`](Self::create_worker), by a thread that has queued something, or makes a
    /// pool. It may be the program's, and hold a queue's lock. So where there are rescuers, one of
    /// which may have to come before a thread can be had, it is left to the creator; by this one,
    /// too, for later. `true`: it is left to the creator.
    #[cold]
    pub(crate) fn ask_for_worker(&'static self, by: Creator) -> bool {
        if self.runtime.service.has_creator() {
            // Not in vain: a worker asks each time it could help.
            if self.lock(LockFor::Counts).core.may_create(by, false, clock::now()) == Create::No {
                return false;
            }
            if self.hand_over_creation(by) {
                return true;
            }
        }
        self.create_worker(by);
        false
    }

    /// Leaves the creation of a worker to the service, or its creator. `false`: they have ended.
    fn hand_over_creation(&'static self, by: Creator) -> bool {
        if !self.runtime.service.create_for(self, by) {
            return false;
        }
        // They may have to create others first, and that may take long.
        if !leaves_out("creation.left") {
            self.unlock_to_create(self.lock(LockFor::Counts));
        }
        true
    }

    /// Creates a worker if work waits for one, when the service has ended, and with it who would
    /// try again. Those who are let in just before all is shut down may come so late; this keeps
    /// them until there is a thread to be had.
    #[cold]
    pub(crate) fn create_without_service(&'static self) {
        let mut backoff = Backoff::new();
        let needs_one = || self.lock(LockFor::Counts).core.need_to_create_worker();
        while needs_one() && self.try_to_create(Creator::First) {
            backoff.pause();
        }
    }

    /// As [`create_worker`](Self::create_worker). `true`: the service is to try.
    ///
    /// KERNEL: `create_worker` — same, with the failure handled as `PoolState::create_failed` says.
    fn try_to_create(&'static self, by: Creator) -> bool {
        let is_rescuer = reclaim::current_is_rescuer();
        let is_stranger = by.manager().is_none() && !is_rescuer;
        if is_stranger
            && service::delegates_creation(self.spec().priority, self.runtime.base_policy)
            && self.hand_over_creation(by)
        {
            return true;
        }
        let new = match self.register_worker(by, is_rescuer) {
            Ok(new) => new,
            Err(is_left_to_service) => return is_left_to_service,
        };
        let id = new.id;
        let started = self.start_worker(new);
        self.report_creation(id, by.manager(), &started);
        started.is_err()
    }

    /// Registers a worker that is about to be created. `Err`: none is; `true`: the service is to
    /// try.
    fn register_worker(&'static self, by: Creator, is_rescuer: bool) -> Result<Registered, bool> {
        let mut guard = self.lock(LockFor::Counts);
        match guard.core.may_create(by, is_rescuer, clock::now()) {
            Create::Now => {}
            Create::Later(at) => {
                self.unlock_to_create(guard);
                self.runtime.service.retry_at(at);
                return Err(true);
            }
            Create::No => return Err(false),
        }
        let id = guard.core.worker_new();
        let name = self.worker_name(guard.next_worker_number);
        let mirror = self.runtime.inspect.worker(Role::Worker(self.id.0), &name);
        let thread = Arc::new(Thread::new(name, mirror));
        guard.next_worker_number += 1;
        guard.set_thread(id, Some(Arc::clone(&thread)));
        // This one is counted already.
        let nr_others = guard.core.nr_staying() - 1;
        self.unlock_to_create(guard);
        Ok(Registered { id, thread, nr_others })
    }

    /// Drops the lock where a worker is about to be created, or is left to others, which may take
    /// long: rescuers are called then.
    fn unlock_to_create(&'static self, mut guard: PoolGuard<'_>) {
        let mayday = guard.mayday();
        drop(guard);
        self.act(mayday);
    }

    /// Starts the thread of a registered worker, if the process may have one more.
    fn start_worker(&'static self, new: Registered) -> Result<(), NotStarted> {
        let headcount = &self.runtime.headcount;
        if !headcount.enter(new.nr_others) {
            return Err(NotStarted::Refused);
        }
        self.spawn(new.id, new.thread).map_err(|error| {
            headcount.leave();
            NotStarted::Failed(error)
        })
    }

    /// Reports what has become of a registered worker.
    fn report_creation(
        &'static self,
        id: WorkerId,
        by_manager: Option<WorkerId>,
        started: &Result<(), NotStarted>,
    ) {
        let mut guard = self.lock(LockFor::Decide);
        let kick = match started {
            Ok(()) => {
                guard.mirror.created();
                guard.worker_created(self, id, by_manager)
            }
            Err(why) => {
                guard.mirror.creation_failed(why.os_error());
                guard.set_thread(id, None);
                match why {
                    NotStarted::Refused => {
                        guard.core.create_refused(id, by_manager, clock::now());
                    }
                    NotStarted::Failed(_) => {
                        guard.core.create_failed(id, by_manager, clock::now());
                    }
                }
                Kick::None
            }
        };
        let is_closed = guard.core.is_closed();
        // The new worker counted as busy until now, so fewer idle workers may stay.
        let cull = guard.core.cull_at();
        self.unlock(guard, kick);
        self.runtime.service.cull_at(cull);
        if is_closed {
            self.dismiss_idle();
        }
        match started {
            Ok(()) => {}
            Err(NotStarted::Refused) => self.creation_refused(),
            Err(NotStarted::Failed(error)) => self.creation_failed(error),
        }
    }

    /// Starts the thread of a registered worker. It sleeps until it is woken for the first time.
    fn spawn(&'static self, id: WorkerId, thread: Arc<Thread>) -> io::Result<()> {
        let runtime = self.runtime;
        #[cfg(test)]
        runtime.fault_threads()?;
        let name = thread.comm.base().to_owned();
        #[cfg(cmwq_shuttle)]
        let parker = thread.parker;
        let (stack, main) = (runtime.params.stack_size, runtime.upcalls.worker_main);
        let spawned = runtime.threads.spawn(&name, stack, move || main(self, id, thread));
        // Models have no parkers that were another thread's before, so they always play what may
        // happen with one: a wake-up that comes late, and to the wrong thread.
        #[cfg(cmwq_shuttle)]
        parker.unpark(park::WAKE);
        spawned
    }

    /// `kworker/CPU:ID[H]` or `kworker/uPOOL:ID`, as the kernel names them.
    fn worker_name(&self, number: u32) -> String {
        let high = if self.spec().priority.nice < 0 { "H" } else { "" };
        match self.kind {
            PoolKind::Cpu(cpu) | PoolKind::Bh(cpu) => format!("kworker/{cpu}:{number}{high}"),
            PoolKind::Unbound | PoolKind::Managed => {
                format!("kworker/u{}:{number}{high}", self.id.0)
            }
        }
    }
    /// The process has as many workers as it may: another pool yields one if it can, and this one
    /// asks again.
    #[cold]
    fn creation_refused(&'static self) {
        self.runtime.headcount.say();
        let _ = Self::has_one_yielded(self.runtime, Some(self));
        self.retry_creation();
    }

    /// Has a pool yield a worker for `refused`, or for a BH context. `false`: none has one to
    /// spare.
    pub(crate) fn has_one_yielded(
        runtime: &'static Runtime,
        refused: Option<&'static Self>,
    ) -> bool {
        let has_none = refused.is_none_or(|pool| pool.lock(LockFor::Counts).core.nr_staying() == 0);
        let refused = refused.map(|pool| pool.id);
        let pools = || runtime.pools().map(|pool| Some(pool.id));
        let pool = |id: &Option<PoolId>| id.and_then(|id| runtime.pool(id));
        let yields = |id: &Option<PoolId>, may_be_last| {
            pool(id).is_some_and(|pool| pool.yield_one(may_be_last))
        };
        yield_for(&refused, has_none, pools, yields).is_some()
    }

    /// No thread could be had. Said once; tried again later by the service, and soon if another
    /// pool yields a worker, which may stay idle for minutes otherwise.
    #[cold]
    fn creation_failed(&'static self, error: &io::Error) {
        // ORDERING: no pairing: a counter.
        self.runtime.nr_creation_failures.fetch_add(1, Ordering::Relaxed);
        notice::once(Notice::ThreadCreation, || {
            format!(
                "a worker could not be created ({error}); the existing ones carry on and creation \
                 is tried again (raise RLIMIT_NPROC or the pids limit of the cgroup)"
            )
        });
        if Self::has_one_yielded(self.runtime, Some(self)) {
            self.lock(LockFor::Counts).core.retry_soon(clock::now());
        }
        self.retry_creation();
    }

    fn retry_creation(&'static self) {
        if leaves_out("creation.retry") {
            return;
        }
        let retry = self.lock(LockFor::Counts).core.create_retry_at();
        self.runtime.service.retry_at(retry.unwrap_or_else(clock::now));
    }

    // ---- the end

    /// Lets all workers go, now or as soon as they are idle. Nothing is queued here any more.
    #[cold]
    pub(crate) fn close(&self) {
        self.lock(LockFor::Counts).core.close();
        self.dismiss_idle();
    }

    /// Dismisses the idle workers of a closed pool, but for the standby of workers at work.
    #[cold]
    pub(crate) fn dismiss_idle(&self) {
        loop {
            let mut guard = self.lock(LockFor::Counts);
            let leaving = guard.core.dismiss_one();
            if !Self::unlock_to_leave(guard, leaving) {
                return;
            }
        }
    }

    /// Lets an idle worker go, if there is one to spare. `may_be_last`: see the core.
    fn yield_one(&'static self, may_be_last: bool) -> bool {
        let mut guard = self.lock(LockFor::Counts);
        let leaving = guard.core.yield_one(may_be_last);
        if leaving.is_some() {
            guard.refresh_standby(self);
            guard.mirror.culled();
        }
        Self::unlock_to_leave(guard, leaving)
    }

    /// Drops the lock, and wakes the idle worker that is to leave. Whether there is one.
    pub(crate) fn unlock_to_leave(guard: PoolGuard<'_>, leaving: Option<WorkerId>) -> bool {
        let parker = leaving.and_then(|id| guard.thread(id)).map(|thread| thread.parker);
        Self::unlock_quietly(guard);
        if let Some(parker) = parker {
            parker.unpark(park::WAKE);
        }
        parker.is_some()
    }
}

impl Locked {
    /// The thread of worker `id` is there: whom to wake.
    fn worker_created(&mut self, pool: &Pool, id: WorkerId, by_manager: Option<WorkerId>) -> Kick {
        let kick = self.core.worker_created(id, by_manager, clock::now());
        let is_left = pool.runtime.service.has_creator() && service::is_creator();
        let is_late = is_left && by_manager.is_none();
        let kick = if is_late && kick == Kick::None { self.answer_late(pool) } else { kick };
        // If there was nobody to stand by, now there is.
        self.refresh_standby(pool);
        kick
    }

    /// No worker was kicked. If that is because the pool has none to wake, and a queue here has a
    /// rescuer: when to look whether the rescuer has to be called.
    #[inline]
    pub(crate) fn mayday(&mut self) -> Todo {
        if !self.core.needs_rescuer() || leaves_out("pool.mayday") {
            return Todo::Nothing;
        }
        self.mayday.arm(clock::now).map_or(Todo::Nothing, Todo::Mayday)
    }
}
