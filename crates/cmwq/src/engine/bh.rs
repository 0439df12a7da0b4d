//! BH contexts, which stand in for softirqs. One thread per CPU, `cmwq/bh:CPU`, runs the CPU's
//! items of BH queues: high priority first, in the order of queueing, one at a time.
//!
//! A BH pool has no workers of its own and a concurrency of 0, so its kick always says
//! [`Watch`](cmwq_core::Kick::Watch). For other pools that kick arms the detectors, for a BH pool
//! it wakes the context, which serves the pool as a guest. The pool counts as watched from the
//! moment the context is raised until the context has found no item left, and meanwhile items come
//! by the inbox, without the pool's lock.
//!
//! *Does not* take part in detection: a BH item that blocks holds up its CPU's BH items and nobody
//! else. It sleeps without a deadline while there is nothing to do.
//!
//! What a context's thread does is in [`bh_thread`](crate::engine::threads::bh_thread).
//!
//! KERNEL: `bh_worker`, `workqueue_softirq_action`, `kick_bh_pool`.
//!
//! Why: docs/decisions/bh-concurrency-0.md

use std::io;

use cmwq_core::{BhRound, LockFor, Retry};

use crate::engine::pool::{Pool, PoolKind};
use crate::engine::runtime::Runtime;
use crate::engine::service;
use crate::engine::tools::attrs::Priority;
use crate::engine::tools::meter::Meter;
use crate::os::backoff::Backoff;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park::{self, Parker};
use crate::os::published::Published;
use crate::os::sense::policy::Policy;
use crate::os::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::os::topo::CpuSet;
use crate::record::{Role, WorkerMirror};

/// All contexts, by CPU number.
#[derive(Debug)]
pub(crate) struct BhContexts {
    pub(crate) cpus: Box<[BhContext]>,
    /// Which contexts have a thread. Serialises starting them, their leaving, and publishing pools.
    /// Outside of the pools' locks.
    threads: Mutex<Box<[State]>>,
    pub(crate) is_leaving: AtomicBool,
}

/// The context of one CPU.
#[derive(Debug)]
pub(crate) struct BhContext {
    /// A token says that one of the pools has work. A token that comes before the thread exists
    /// stays.
    pub(crate) parker: Parker,
    /// The CPU's pools, by their [place](BhRound::place).
    pub(crate) pools: [Published<&'static Pool>; BhRound::NR_POOLS],
    /// Its CPU has returned, and the thread is to move back to it, since the system does not do
    /// that.
    pub(crate) is_astray: AtomicBool,
}

/// The state of a context's thread.
#[derive(Debug)]
pub(crate) struct BhThread {
    /// Of the process.
    pub(crate) policy: Policy,
    pub(crate) meter: Meter,
    pub(crate) mirror: WorkerMirror,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not needed yet.
    Off,
    On,
    /// Needed, but no thread could be created, or none has been yet.
    Missing,
    /// Its thread has left, as all do in the end, or would.
    Gone,
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

    /// Makes a new BH pool known to its CPU's context, whose thread is created with the first pool.
    /// If no thread can be created, the items wait and the service tries again.
    #[cold]
    pub(crate) fn cover(&'static self, pool: &'static Pool) {
        let PoolKind::Bh(cpu) = pool.kind else { return };
        let Some(context) = self.cpus.get(cpu as usize) else { return };
        let mut threads = lock(&self.threads);
        context.pools[BhRound::place(pool.spec().priority.nice < 0)].publish(Box::new(pool));
        if threads[cpu as usize] == State::Off {
            // ORDERING: no pairing of its own: see `raise`.
            let is_late = self.is_leaving.load(Ordering::Relaxed);
            threads[cpu as usize] = if is_late {
                State::Gone
            } else if pool.runtime.service.has_creator()
                || service::delegates_creation(Priority::HIGH, pool.runtime.base_policy)
            {
                // As for workers: see `Pool::ask_for_worker` and `create_worker`.
                pool.runtime.service.retry_at(clock::now());
                State::Missing
            } else {
                self.start(pool.runtime, cpu)
            };
        }
        drop(threads);
        // Another queue may have found the pool in the registry, and raised the context when it
        // did not know the pool. Who does so later has had the pool's lock after this look.
        if pool.read(|_, _| pool.is_watched()) {
            self.raise(pool.runtime, cpu);
        }
    }

    /// Creates the threads that could not be created, or were left to be. By the service or its
    /// creator.
    #[cold]
    pub(crate) fn retry(&'static self, runtime: &'static Runtime) {
        for (cpu, _) in (0..).zip(&self.cpus) {
            // Not under the lock: others may wait for it who must not wait for a thread.
            let is_missing = {
                let state = &mut lock(&self.threads)[cpu as usize];
                let is_missing = *state == State::Missing;
                if is_missing {
                    *state = State::On;
                }
                is_missing
            };
            if is_missing && self.start(runtime, cpu) == State::Missing {
                lock(&self.threads)[cpu as usize] = State::Missing;
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
                let now = clock::now();
                let has_one_yielded = Pool::has_one_yielded(runtime, None);
                let retry = if has_one_yielded { Retry::after_yield } else { Retry::after_failure };
                runtime.service.retry_at(retry(now));
                State::Missing
            }
        }
    }

    fn spawn(&'static self, runtime: &'static Runtime, cpu: u32) -> io::Result<()> {
        #[cfg(test)]
        runtime.fault_threads()?;
        let name = thread_name(cpu);
        let (mirror, main) =
            (runtime.inspect.worker(Role::Bh(cpu), &name), runtime.upcalls.bh_main);
        let policy = runtime.base_policy;
        let thread = BhThread { policy, meter: Meter::new(mirror.record()), mirror };
        runtime.threads.spawn(&name, runtime.params.stack_size, move || main(self, cpu, thread))
    }

    /// A pool of this CPU has work. KERNEL: `kick_bh_pool` — same: raising twice is raising once.
    pub(crate) fn raise(&'static self, runtime: &'static Runtime, cpu: u32) {
        if let Some(context) = self.cpus.get(cpu as usize) {
            context.parker.unpark(park::WAKE);
            // ORDERING: no pairing of its own: whose work the context did not find when it left has
            // had the pool's lock after it.
            if self.is_leaving.load(Ordering::Relaxed) {
                self.come_back(runtime, cpu);
            }
        }
    }

    /// Who was let in just before all was shut down has queued something when the context had left:
    /// it comes once more, as the workers of other pools do.
    #[cold]
    fn come_back(&'static self, runtime: &'static Runtime, cpu: u32) {
        let mut backoff = Backoff::new();
        loop {
            let mut threads = lock(&self.threads);
            let state = &mut threads[cpu as usize];
            if *state == State::Gone || *state == State::Missing {
                *state = self.start(runtime, cpu);
                // The one before may have left behind what this one was called for: it has to look
                // all the same, so as to leave.
                self.cpus[cpu as usize].parker.unpark(park::WAKE);
            }
            // The service does not try again, or not for long.
            if *state != State::Missing {
                return;
            }
            drop(threads);
            backoff.pause();
        }
    }

    /// Contexts that have no thread, and work, get one. By the service, at its end, which is later
    /// than [`stop`](Self::stop).
    pub(crate) fn come_back_to_work(&'static self, runtime: &'static Runtime) {
        for (cpu, context) in (0..).zip(&self.cpus) {
            if context.work_waits() {
                self.come_back(runtime, cpu);
            }
        }
    }

    /// Whether the thread of a context, which has been told to leave, may do so: nothing waits, and
    /// who queues from now on starts another one.
    #[cold]
    pub(crate) fn may_leave(&self, cpu: u32) -> bool {
        let mut threads = lock(&self.threads);
        // Nobody is raised under this lock.
        let work_waits = self.cpus[cpu as usize].work_waits();
        if !work_waits {
            threads[cpu as usize] = State::Gone;
        }
        !work_waits
    }

    /// A CPU has returned: its context, which the system may have moved elsewhere, goes back to the
    /// CPU before it runs another item.
    pub(crate) fn bring_back(&self, cpu: u32) {
        if let Some(context) = self.cpus.get(cpu as usize) {
            // ORDERING: no pairing of its own: a context that takes an item queued afterwards sees
            // it.
            context.is_astray.store(true, Ordering::Relaxed);
        }
    }

    /// Ends all contexts. Nothing is queued on BH queues any more, but by threads that were let in
    /// before.
    pub(crate) fn stop(&self) {
        // ORDERING: no pairing of its own: a context that takes the token below sees it.
        self.is_leaving.store(true, Ordering::Relaxed);
        for context in &self.cpus {
            context.parker.unpark(park::WAKE);
        }
    }
}

impl BhContext {
    fn work_waits(&self) -> bool {
        let waits = |pool: &&'static Pool| {
            pool.lock(LockFor::Counts).core.work_waits() || !pool.inbox.is_empty()
        };
        self.pools.iter().filter_map(Published::get).any(waits)
    }
}

/// The name of a context's thread.
pub(crate) fn thread_name(cpu: u32) -> String {
    format!("cmwq/bh:{cpu}")
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use std::thread::yield_now;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::engine::process::on_one_cpu;
    use crate::engine::wq::{Kind, Spec};

    /// Only a failing test waits so long.
    const PATIENCE: Duration = Duration::from_secs(200);

    #[track_caller]
    fn leaves(contexts: &BhContexts) {
        let begin = Instant::now();
        while lock(&contexts.threads)[0] != State::Gone {
            assert!(begin.elapsed() < PATIENCE, "the context stays");
            yield_now();
        }
    }

    /// It was raised, and the one before did what it was raised for before it left.
    #[test]
    fn a_context_that_comes_back_to_nothing_leaves_again() {
        let runtime = on_one_cpu();
        let wq = runtime.new_wq("late", Spec::of(Kind::Bh)).expect("it is not shut down");
        let _pool = wq.cpu_pwq(Some(0)).pool;
        runtime.bh.stop();
        leaves(&runtime.bh);
        runtime.bh.come_back(runtime, 0);
        leaves(&runtime.bh);
    }
}
