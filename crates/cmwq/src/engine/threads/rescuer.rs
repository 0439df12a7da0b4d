//! The rescuer: the thread that a `mem_reclaim` queue has in reserve, for when no worker can be
//! created. Who calls it and how it ends: [README](rescuer/README.md).
//!
//! The rescuer is created with the queue, so that nothing has to be created when it is needed, and
//! sleeps until it is called. A pool whose work no worker comes for has the service thread look
//! again in 10 ms (`Locked::mayday`). If still no worker has come, the service calls the rescuers
//! of the pwqs whose items wait, and looks again every 100 ms ([`Pool::send_maydays`]). A called
//! rescuer moves to the pool's CPUs and runs the pwq's items there, one at a time, as a guest.
//!
//! Lock: maydays ([`Maydays`]), inside of a pool's.
//!
//! A rescuer never creates a worker, not even if its item queues something that needs one: that may
//! take long, and the worker would inherit its priority. The creator does it
//! ([`Pool::ask_for_worker`]); where that has ended, whoever looks next
//! ([`PoolState::may_create`](cmwq_core::PoolState::may_create)).

use std::io;

use cmwq_core::{Kick, LockFor, Nanos, PwqId, PwqRef, Rescue};

use crate::engine::pool::Pool;
use crate::engine::runtime::Runtime;
use crate::engine::service;
use crate::engine::threads::current::{self, Context};
use crate::engine::threads::invoke;
use crate::engine::threads::running::As;
use crate::engine::threads::thread_hooks;
use crate::engine::threads::worker::Worker;
use crate::engine::tools::attrs::Priority;
use crate::engine::tools::plan::NEVER;
use crate::engine::tools::reclaim;
use crate::engine::tools::thread::Thread;
use crate::engine::wq::Wq;
use crate::engine::wq::rescuer::{Maydays, Rescuer};
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park::{self, Event};
use crate::os::sense;
use crate::os::sync::{Arc, Mutex, lock};
use crate::os::topo::CpuSet;
use crate::record::trace;
use crate::record::{Reason, Role};

/// Nice level of rescuers. KERNEL: `RESCUER_NICE_LEVEL` — same.
const RESCUER_NICE: i32 = -20;

/// What a rescuer does between two visits.
enum Next {
    Rescue(PwqRef),
    Sleep,
    Leave,
}

/// Gives `wq` its rescuer, before the queue is handed out. Before the first one comes who creates
/// threads in the place of the service thread, so that this can always call it. The creator starts
/// the rescuer if that would inherit from the caller what it must not have.
///
/// # Errors
/// If the system has no thread to give.
pub(crate) fn start(wq: &Wq) -> io::Result<()> {
    let name = format!("kworker/R-{}", wq.name);
    let (name, runtime) = (sense::sched::fitting_name(&name), wq.runtime);
    if let Some(asked) = runtime.service.ask_for_creator() {
        current::blocking(|| asked.wait())?;
    }
    if runtime.has_begun_to_shut() {
        // There is nothing to rescue any more, and all threads may have left already.
        return Ok(());
    }
    let mirror = runtime.inspect.worker(Role::Rescuer(wq.key), name);
    let rescuer = Arc::new(Rescuer {
        wq: wq.key,
        thread: Arc::new(Thread::new(name.to_owned(), mirror)),
        maydays: Mutex::new(Maydays::default()),
        gone: Event::new(),
    });
    let is_left = service::delegates_creation(Priority::nice(RESCUER_NICE), runtime.base_policy);
    match is_left.then(|| runtime.service.start_for(&rescuer)).flatten() {
        Some(asked) => current::blocking(|| asked.wait())?,
        None => spawn(runtime, &rescuer)?,
    }
    let is_first = wq.rescuer.set(Arc::clone(&rescuer)).is_ok();
    debug_assert!(is_first, "a queue has one rescuer");
    if runtime.has_begun_to_shut() {
        // It may have looked for rescuers before this one could be found.
        rescuer.stop();
    }
    Ok(())
}

/// Starts the thread of a rescuer.
///
/// # Errors
/// If the system has no thread to give.
pub(crate) fn spawn(runtime: &'static Runtime, rescuer: &Arc<Rescuer>) -> io::Result<()> {
    let name = rescuer.thread.comm.base();
    let duty = Duty { runtime, rescuer: Arc::clone(rescuer) };
    runtime.threads.spawn(name, runtime.params.stack_size, move || duty.main())
}

impl Rescuer {
    /// Ends the rescuer, and waits until its thread has left. The queue must have nothing in
    /// flight.
    pub(crate) fn stop(&self) {
        let mut maydays = lock(&self.maydays);
        maydays.is_stopping = true;
        maydays.called.clear();
        drop(maydays);
        self.thread.parker.unpark(park::WAKE);
        current::blocking(|| self.gone.wait(None));
    }
}

/// The rescuer, as its thread sees it.
struct Duty {
    runtime: &'static Runtime,
    rescuer: Arc<Rescuer>,
}

impl Duty {
    fn main(&self) {
        self.prepare();
        invoke::watch_thread();
        let hooks = thread_hooks::begin(|| self.rescuer.thread.comm.base().to_owned());
        self.rescuer.thread.meter.begin();
        loop {
            match self.next() {
                Next::Rescue(at) => self.rescue(at),
                Next::Sleep => drop(self.rescuer.thread.parker.park(None)),
                Next::Leave => break,
            }
        }
        drop(hooks);
        self.rescuer.gone.set();
    }

    fn prepare(&self) {
        reclaim::enter_rescuer(self.rescuer.wq);
        let tid = sense::sched::gettid().unsigned_abs();
        self.rescuer.thread.comm.set_tid(tid);
        self.rescuer.thread.record_stack();
        self.rescuer.thread.mirror.set_tid(tid);
        if let Err(error) = Priority::favour(self.runtime.base_policy, RESCUER_NICE) {
            notice::once(Notice::Nice, || {
                format!(
                    "nice {RESCUER_NICE} refused ({error}); rescuers run at normal priority \
                     (grant CAP_SYS_NICE or raise RLIMIT_NICE)"
                )
            });
        }
        self.go_to(&self.runtime.machine.possible());
    }

    fn next(&self) -> Next {
        let mut maydays = lock(&self.rescuer.maydays);
        match maydays.called.pop_front() {
            Some(at) => Next::Rescue(at),
            None if maydays.is_stopping => Next::Leave,
            None => Next::Sleep,
        }
    }

    fn is_called(&self) -> bool {
        !lock(&self.rescuer.maydays).called.is_empty()
    }

    /// Answers a call, and then leaves the pool's CPUs: a rescuer that is not called may run
    /// anywhere.
    fn rescue(&self, at: PwqRef) {
        let Some(pool) = self.runtime.pool(at.pool) else { return };
        self.go_to(&pool.whereabouts());
        let is_called_again = self.visit(pool, at.pwq);
        self.runtime.service.wake_for_deferred();
        self.go_to(&self.runtime.machine.possible());
        if is_called_again {
            self.rescuer.call(at);
        }
    }

    /// KERNEL: `rescuer_thread`, one pwq — same. `true`: the rescuer has to come again.
    fn visit(&self, pool: &'static Pool, pwq: PwqId) -> bool {
        let mut guard = pool.lock(LockFor::Find);
        let Some(mut visit) = guard.core.rescue_begin(pwq, self.rescuer.wq) else {
            pool.unlock(guard, Kick::None);
            return false;
        };
        let id = visit.worker();
        let worker = Worker::new(pool, id, Arc::clone(&self.rescuer.thread));
        let context = Context::new(pool, id, Arc::clone(&self.rescuer.thread));
        let entered = current::enter(&context);
        self.rescuer.thread.set_guest(Some((pool.id, id)));
        self.rescuer.thread.mirror.serve(pool.id.0, false);
        let server = worker.server(pool, id, As::Guest);
        let is_called_again = loop {
            match guard.core.rescue_next(&mut visit, self.is_called()) {
                Rescue::Run(claim) => {
                    let run = || worker.call_first(&context, &claim, claim.seq);
                    guard = server.run_item(guard, &claim, run);
                }
                Rescue::CallAgain => break true,
                Rescue::Leave => break false,
            }
        };
        worker.thread.meter.charge(&mut guard.core);
        self.rescuer.thread.set_guest(None);
        let kick = guard.core.rescue_end(visit);
        let has_drained = guard.core.has_drained(pwq);
        self.rescuer.thread.mirror.idle(clock::coarse);
        pool.unlock(guard, kick);
        drop(entered);
        if has_drained {
            // The pwq could not be removed during this visit, so the removal was left to us.
            if let Some(wq) = self.runtime.wq(self.rescuer.wq) {
                wq.release_retired();
            }
        }
        is_called_again
    }

    fn go_to(&self, cpus: &CpuSet) {
        let Err(error) = sense::sched::pin_current(cpus) else { return };
        if sense::sched::is_absent(&error) {
            // The CPUs have left, and the service has not looked yet: as of workers.
            self.runtime.service.rescan_soon();
            return;
        }
        notice::once(Notice::PinRefused, || {
            format!(
                "rescuers cannot be moved to CPUs {cpus:?} ({error}); they run where the system \
                 puts them"
            )
        });
    }
}

impl Pool {
    /// Calls rescuers, if the look is due. Returns when the next look is due.
    pub(crate) fn send_maydays(&'static self, now: Nanos) -> Nanos {
        let mut guard = self.lock(LockFor::Find);
        let due_at = guard.mayday.due_at().unwrap_or(NEVER);
        if due_at > now {
            self.unlock(guard, Kick::None);
            return due_at;
        }
        let mut calls = Vec::new();
        let is_needed = guard.core.mayday(|at, wq| calls.push((at, wq)));
        let next = guard.mayday.after(is_needed, now).unwrap_or(NEVER);
        if !calls.is_empty() {
            guard.mirror.decided(Reason::Mayday);
        }
        self.unlock(guard, Kick::None);
        for (at, wq) in calls {
            // A queue that is gone meanwhile has no waiting items any more.
            let Some(wq) = self.runtime.wq(wq) else { continue };
            if let Some(rescuer) = wq.rescuer.get() {
                trace::mayday(self, &*wq);
                rescuer.call(at);
            }
        }
        next
    }
}
