//! The thread that creates threads. It also does what waits for a lock under which one is created,
//! so that the service thread never does.
//!
//! KERNEL: `kthreadd` — differs: nobody waits for it but who makes the first queue with a rescuer,
//! and pools' managers create workers themselves.
//!
//! Where memory is short, a creation may take as long as the system needs to get some back, and
//! that may wait for what a rescuer would do. So from the first rescuer on the service thread,
//! which calls it, hands all this over to a thread of its own, `cmwq/creator`. In a process without
//! rescuers nobody is called, and the service thread does it itself.
//!
//! Lock: `left`, innermost.
//!
//! Why: docs/decisions/threads-create-threads.md

use std::{io, mem, ptr};

use cmwq_core::{Creator, LockFor, Retry};

use crate::engine::pool::Pool;
use crate::engine::runtime::Runtime;
use crate::engine::service::{Service, ToStart, Wanted, add_wanted};
use crate::engine::threads::rescuer;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::park::{Parker, WAKE};
use crate::os::sense;
use crate::os::sync::{Arc, Mutex, leaves_out, lock};

const STACK: usize = 256 << 10;

/// What is due.
#[derive(Debug, Default)]
pub(crate) struct Creations {
    /// Workers and BH contexts that could not be created.
    pub(crate) retries: bool,
    /// Workers for others, and as whom.
    pub(crate) workers: Vec<Wanted>,
    pub(crate) rescuers: Vec<ToStart>,
    /// Sentinels of the CPUs of these pools, which are missing.
    pub(crate) sentinels: Vec<&'static Pool>,
    pub(crate) watchdog: bool,
    /// A look which CPUs the process has, and whether workers go back to theirs: that takes the
    /// locks under which sentinels are created, and the queues'.
    pub(crate) rescan: Option<bool>,
    /// Nothing more will be due.
    pub(crate) end: bool,
}

impl Creations {
    fn is_empty(&self) -> bool {
        let Self { retries, workers, rescuers, sentinels, watchdog, rescan, end } = self;
        let flags = *retries || *watchdog || rescan.is_some() || *end;
        !flags && workers.is_empty() && rescuers.is_empty() && sentinels.is_empty()
    }

    fn add(&mut self, more: Self) {
        let Self { retries, workers, rescuers, sentinels, watchdog, rescan, end } = more;
        self.retries |= retries;
        workers.into_iter().for_each(|new| add_wanted(&mut self.workers, new));
        self.rescuers.extend(rescuers);
        for pool in sentinels {
            if !self.sentinels.iter().any(|known| ptr::eq(*known, pool)) {
                self.sentinels.push(pool);
            }
        }
        self.watchdog |= watchdog;
        self.rescan = self.rescan.max(rescan);
        self.end |= end;
    }

    /// By the creator, or if there is none by the service thread.
    pub(crate) fn carry_out(self, runtime: &'static Runtime) {
        for (rescuer, asked) in self.rescuers {
            asked.answer(rescuer::spawn(runtime, &rescuer));
        }
        if self.retries {
            retry(runtime);
        }
        for (pool, by) in self.workers {
            pool.create_worker(by);
        }
        for pool in self.sentinels {
            runtime.sentinels.cover(pool, &runtime.threads, || pool.guarded_cpus());
        }
        if self.watchdog {
            start_watchdog(runtime);
        }
        if let Some(repin) = self.rescan
            && !runtime.try_rescan(repin)
            && repin
        {
            // In a second.
            runtime.service.rescan_soon();
        }
        if self.end {
            end(runtime);
        }
    }
}

/// Tries again to create workers and BH contexts where that failed.
fn retry(runtime: &'static Runtime) {
    runtime.bh.retry(runtime);
    let now = clock::now();
    for pool in runtime.pools() {
        let mut guard = pool.lock(LockFor::Counts);
        let retry = guard.core.retry(now);
        drop(guard);
        match retry {
            Retry::Nothing => {}
            Retry::At(_) if leaves_out("service.retry_again") => {}
            Retry::At(at) => runtime.service.retry_at(at),
            Retry::Create => pool.create_worker(Creator::Spare),
        }
    }
}

fn start_watchdog(runtime: &'static Runtime) {
    if let Err(error) = crate::OBSERVERS.start_watchdog(runtime) {
        runtime.service.start_watchdog_at(Retry::after_failure(clock::now()));
        notice::once(Notice::Watchdog, || {
            format!(
                "the watchdog has no thread ({error}); stalls are not reported until it gets one"
            )
        });
    }
}

/// Who was let in just before all was shut down may have queued something that waits for a worker.
/// Who needs one from now on does not rely on anybody.
fn end(runtime: &'static Runtime) {
    runtime.service.end();
    runtime.bh.come_back_to_work(runtime);
    for pool in runtime.pools() {
        pool.create_without_service();
    }
}

/// The creator, as the service thread knows it.
#[derive(Debug)]
pub(crate) struct CreatorThread {
    left: Mutex<Creations>,
    /// A token says that something was left.
    parker: Parker,
}

impl CreatorThread {
    /// Starts the thread. By the service thread, whose policy, signals and CPUs it has.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub(crate) fn start(runtime: &'static Runtime) -> io::Result<Arc<Self>> {
        let this = Arc::new(Self { left: Mutex::new(Creations::default()), parker: Parker::new() });
        let own = Arc::clone(&this);
        runtime.threads.spawn("cmwq/creator", STACK, move || own.main(runtime))?;
        Ok(this)
    }

    /// Leaves this to the thread.
    pub(crate) fn leave(&self, due: Creations) {
        if due.is_empty() {
            return;
        }
        lock(&self.left).add(due);
        self.parker.unpark(WAKE);
    }

    fn main(&self, runtime: &'static Runtime) {
        Service::begin();
        // BH contexts, and what their items start, have the program's and not the service thread's.
        sense::sched::set_timer_slack_ns(runtime.timer_slack_ns);
        loop {
            self.parker.park(None);
            let due = mem::take(&mut *lock(&self.left));
            let is_last = due.end;
            due.carry_out(runtime);
            if is_last {
                return;
            }
        }
    }
}
