//! BH contexts: what stands in for softirqs. One thread per CPU, `cmwq/bh:CPU`, runs the items of
//! BH queues there: those of high priority first, in the order of queueing, one at a time.
//!
//! A BH pool has no workers of its own and a concurrency of 0, so its kick always says
//! [`Watch`](cmwq_core::Kick::Watch): somebody has to be told. Elsewhere those are the detectors;
//! here it is the context, which serves the pool as a guest. The pool counts as watched from the
//! moment the context is raised until it has found nothing left, and meanwhile items come by the
//! inbox, without the pool's lock.
//!
//! *Does not* take part in detection: a BH item that blocks holds up its CPU's BH items and nobody
//! else. It sleeps without a deadline while there is nothing to do.
//!
//! *Kernel*: `bh_worker`, `workqueue_softirq_action`, `kick_bh_pool`.

use std::io;

use cmwq_core::consts::CREATE_COOLDOWN_NS;
use cmwq_core::{BhVisit, Claim, Kick};

use crate::engine::current::{self, BhRun};
use crate::engine::invoke;
use crate::engine::meter::Meter;
use crate::engine::pool::{Pool, PoolKind};
use crate::engine::runtime::{HIGHPRI_NICE, Runtime};
use crate::engine::thread_hooks;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park::{self, Parker};
use crate::os::published::Published;
use crate::os::sense;
use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::os::topo::CpuSet;
use crate::record::trace;
use crate::record::{Role, WorkerMirror};

/// All contexts, by CPU number.
#[derive(Debug)]
pub(crate) struct BhContexts {
    cpus: Box<[BhContext]>,
    /// Which contexts have a thread. Serialises starting them and publishing pools.
    threads: Mutex<Box<[State]>>,
    is_leaving: AtomicBool,
}

#[derive(Debug)]
struct BhContext {
    /// A token says that one of the pools has work. One that comes before the thread does stays.
    parker: Parker,
    /// The CPU's pools: of high priority, and normal.
    pools: [Published<&'static Pool>; 2],
    /// Its CPU has returned, and the system does not bring the thread back.
    is_astray: AtomicBool,
}

/// What a context's thread has for itself.
#[derive(Debug)]
struct BhThread {
    meter: Meter,
    mirror: WorkerMirror,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not needed yet.
    Off,
    On,
    /// Needed, and no thread could be had.
    Missing,
}

impl BhContexts {
    pub(crate) fn new(cpus: &CpuSet) -> Self {
        let count = cpus.last().map_or(0, |last| last as usize + 1);
        let new = |_| BhContext {
            parker: Parker::new(),
            pools: [Published::nothing(), Published::nothing()],
            is_astray: AtomicBool::new(false),
        };
        Self {
            cpus: (0..count).map(new).collect(),
            threads: Mutex::new(vec![State::Off; count].into()),
            is_leaving: AtomicBool::new(false),
        }
    }

    /// Makes a new BH pool known to its CPU's context, which is created with its first pool. If no
    /// thread can be had, the items wait and the service tries again.
    #[cold]
    pub(crate) fn cover(&'static self, pool: &'static Pool) {
        let PoolKind::Bh(cpu) = pool.kind else { return };
        let Some(context) = self.cpus.get(cpu as usize) else { return };
        let mut threads = lock(&self.threads);
        context.pools[usize::from(pool.spec().nice >= 0)].publish(Box::new(pool));
        if threads[cpu as usize] == State::Off {
            threads[cpu as usize] = self.start(pool.runtime, cpu);
        }
    }

    /// Tries again to create the contexts that could not be had. By the service.
    #[cold]
    pub(crate) fn retry(&'static self, runtime: &'static Runtime) {
        for (cpu, state) in (0..).zip(lock(&self.threads).iter_mut()) {
            if *state == State::Missing {
                *state = self.start(runtime, cpu);
            }
        }
    }

    fn start(&'static self, runtime: &'static Runtime, cpu: u32) -> State {
        match self.spawn(runtime, cpu) {
            Ok(()) => State::On,
            Err(error) => {
                notice::once(Notice::BhContext, || {
                    format!(
                        "the BH context of CPU {cpu} could not be created ({error}); BH items \
                         queued there \
                         wait until it can (raise RLIMIT_NPROC or the pids limit of the cgroup)"
                    )
                });
                runtime.service.retry_at(clock::now() + CREATE_COOLDOWN_NS);
                State::Missing
            }
        }
    }

    fn spawn(&'static self, runtime: &'static Runtime, cpu: u32) -> io::Result<()> {
        #[cfg(test)]
        if runtime.fault_no_threads() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let name = thread_name(cpu);
        let mirror = runtime.inspect.worker(Role::Bh(cpu), &name);
        let thread = BhThread { meter: Meter::new(mirror.record()), mirror };
        runtime.threads.spawn(&name, runtime.params.stack_size, move || self.main(cpu, &thread))
    }

    /// A pool of this CPU has work. KERNEL: `kick_bh_pool` — same: raising twice is raising once.
    pub(crate) fn raise(&self, cpu: u32) {
        if let Some(context) = self.cpus.get(cpu as usize) {
            context.parker.unpark(park::WAKE);
        }
    }

    /// A CPU may be used: its context, which the system may have put elsewhere, goes back to it
    /// before it runs anything more.
    pub(crate) fn call_home(&self, cpu: u32) {
        if let Some(context) = self.cpus.get(cpu as usize) {
            // ORDERING: no pairing of its own: who takes an item that was queued afterwards sees
            // it.
            context.is_astray.store(true, Ordering::Relaxed);
        }
    }

    /// Lets all contexts go. Nothing is queued on BH queues any more.
    pub(crate) fn stop(&self) {
        // ORDERING: no pairing of its own: who takes the token below sees it.
        self.is_leaving.store(true, Ordering::Relaxed);
        for context in &self.cpus {
            context.parker.unpark(park::WAKE);
        }
    }

    fn main(&self, cpu: u32, thread: &BhThread) {
        prepare(cpu);
        invoke::watch_thread();
        let _hooks = thread_hooks::begin(|| thread_name(cpu));
        thread.mirror.set_tid(sense::sched::gettid().unsigned_abs());
        let context = &self.cpus[cpu as usize];
        thread.meter.begin();
        loop {
            context.parker.park(None);
            if context.serve(thread) {
                context.parker.unpark(park::WAKE);
            // ORDERING: no pairing of its own: see `stop`.
            } else if self.is_leaving.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Puts the calling thread on its CPU, before others as far as that is permitted: softirqs are.
fn prepare(cpu: u32) {
    // A CPU that has left just now is no refusal: its context is called home when it returns.
    if let Err(error) = sense::sched::pin_current(&CpuSet::single(cpu))
        && !sense::sched::is_absent(&error)
    {
        notice::once(Notice::PinRefused, || {
            format!(
                "the BH context of CPU {cpu} cannot be pinned to it ({error}); it runs where the \
                 system puts it"
            )
        });
    }
    if let Err(error) = sense::sched::set_nice_current(HIGHPRI_NICE) {
        notice::once(Notice::Nice, || {
            format!(
                "nice {HIGHPRI_NICE} refused ({error}); BH items run at normal priority (grant \
                 CAP_SYS_NICE or raise \
                 RLIMIT_NICE)"
            )
        });
    }
}

impl BhContext {
    /// Back to its CPU, if it was driven away.
    #[inline]
    fn come_home(&self, pool: &Pool) {
        // ORDERING: no pairing of its own: see `call_home`.
        if self.is_astray.load(Ordering::Relaxed) {
            self.is_astray.store(false, Ordering::Relaxed);
            // Refused, the CPU has left again.
            let _ = sense::sched::pin_current(&pool.spec().cpus);
        }
    }

    /// One round over the pools. `true`: work is left, because a visit's limits were reached.
    fn serve(&self, thread: &BhThread) -> bool {
        let mut is_left = false;
        for pool in self.pools.iter().filter_map(Published::get) {
            is_left |= visit(pool, self, thread);
        }
        is_left
    }
}

/// Runs items of `pool` in the order of queueing, within the limits of a visit. `true`: some are
/// left, and nobody else has been told.
///
/// KERNEL: `bh_worker` — same.
fn visit(pool: &'static Pool, context: &BhContext, BhThread { meter, mirror }: &BhThread) -> bool {
    let mut guard = pool.lock();
    if guard.core.work_waits() {
        let guest = guard.core.guest_enter();
        mirror.serve(pool.id.0, true);
        let mut length = BhVisit::begin(clock::now());
        while let Some(claim) = guard.core.guest_next(guest) {
            meter.turn_to(&mut guard.core, claim.pwq);
            guard.mirror.started(mirror, &claim, clock::coarse);
            pool.unlock(guard, claim.kick);
            context.come_home(pool);
            run(pool, &claim);
            guard = pool.lock_only();
            let effects = guard.core.finish(guest);
            if effects.flush_done.is_some() || effects.grant.is_some() {
                drop(guard);
                pool.act_effects(effects);
                guard = pool.lock_only();
            }
            // What is in the inbox is younger than what is on the worklist.
            if !guard.core.work_waits() && !pool.inbox.is_empty() {
                guard.empty_inbox(pool);
            }
            // What is scheduled is this guest's alone: a barrier, or the same item once more.
            if length.is_over(clock::now) && guard.core.guest_may_leave(guest) {
                break;
            }
        }
        meter.settle(&mut guard.core);
        mirror.rest();
        // Its kick is for us; what it would say is what is asked below.
        let _ = guard.core.guest_leave(guest);
    }
    let is_left = guard.core.work_waits();
    if !is_left {
        // From here on a queuer raises again; one that came by the inbox meanwhile is found by
        // `unlock`.
        guard.unwatch(pool);
    }
    pool.unlock(guard, Kick::None);
    is_left
}

fn thread_name(cpu: u32) -> String {
    format!("cmwq/bh:{cpu}")
}

/// Calls the function. The item must not be touched afterwards.
fn run(pool: &'static Pool, claim: &Claim) {
    current::enter_bh(BhRun { runtime: pool.runtime, wq: claim.wq, func: claim.func });
    let call = || {
        // SAFETY: whoever queued the item promised that its function may be called with it, once,
        // now.
        unsafe { invoke::call(pool.runtime, claim) };
    };
    if trace::wants_runs() {
        trace::run(pool, claim, call);
    } else {
        call();
        trace::has_run(pool, claim);
    }
    current::leave_bh();
}
