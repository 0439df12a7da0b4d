//! The workqueue that Linux had before its workers were shared: every queue has threads of its own,
//! one on each CPU (*multi-threaded*) or a single one (*single-threaded*).
//!
//! Written from descriptions of its behaviour:
//!
//! - An item is queued on the CPU of the caller, or of the timer that delayed it, and stays there.
//! - A thread runs its items strictly one after the other, in the order of queueing; while one
//!   blocks, all behind it wait. Threads of different CPUs know nothing of each other, so an item
//!   that is queued again on another CPU while it runs does run twice at once.
//! - PENDING is cleared just before the function is called: from then on the item may be queued
//!   again, also by itself.
//! - Flushing waits, one CPU after the other, until as many items are done as had been inserted
//!   when it began. Called by a thread of the queue itself, it first runs what is queued there.
//! - Destroying a queue flushes it and ends its threads.
//!
//! Timers are those of [`crate::timers`], where the kernel has a timer wheel on each CPU.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::sys;
use crate::timers::Timers;

/// What a thread of the kernel has, on most machines.
const KERNEL_STACK: usize = 16 << 10;

/// A reusable item; clones are the same item.
#[derive(Clone)]
pub(crate) struct Work(Arc<Item>);

struct Item {
    /// Set from being queued, or armed, until just before the function is called.
    pending: AtomicBool,
    func: Box<dyn Fn() + Send + Sync>,
}

impl Work {
    pub(crate) fn new(func: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(Item { pending: AtomicBool::new(false), func: Box::new(func) }))
    }

    /// Whether this caller is the one to queue it.
    fn claim(&self) -> bool {
        // ORDERING: AcqRel pairs with `run`: who finds the bit set is seen by the run that clears
        // it later, and who finds it clear sees what the run before did until then.
        !self.0.pending.swap(true, Ordering::AcqRel)
    }

    fn run(self) {
        // ORDERING: AcqRel pairs with `claim`.
        self.0.pending.swap(false, Ordering::AcqRel);
        (self.0.func)();
    }
}

/// A queue with its threads.
pub(crate) struct Workqueue {
    /// In the order of the CPUs' ids; a single one if there is one thread for all.
    lanes: Vec<Arc<Lane>>,
    threads: Vec<JoinHandle<()>>,
}

/// What the queue has on one CPU.
struct Lane {
    /// `None`: the single thread, on any CPU.
    cpu: Option<u32>,
    state: Mutex<State>,
    more_work: Condvar,
    work_done: Condvar,
}

#[derive(Default)]
struct State {
    worklist: VecDeque<Work>,
    /// Items inserted and items done since the beginning.
    insert_sequence: u64,
    remove_sequence: u64,
    /// Threads that wait for `remove_sequence` to rise.
    flushers: usize,
    should_stop: bool,
}

thread_local! {
    /// The lane that this thread serves, by its address; null for all other threads.
    static SERVES: Cell<*const Lane> = const { Cell::new(std::ptr::null()) };
}

impl Workqueue {
    /// A thread on each CPU that this process may use.
    pub(crate) fn multi_threaded(name: &str) -> Result<Self> {
        Self::start(name, Self::one_each()?, None)
    }

    /// One thread for all CPUs.
    pub(crate) fn single_threaded(name: &str) -> Result<Self> {
        Self::start(name, vec![None], None)
    }

    /// With threads whose stacks are no larger than a kernel thread's: for counting, not for items
    /// that call much. `multi`: one on each CPU.
    pub(crate) fn with_small_stacks(name: &str, multi: bool) -> Result<Self> {
        let cpus = if multi { Self::one_each()? } else { vec![None] };
        Self::start(name, cpus, Some(KERNEL_STACK))
    }

    fn one_each() -> Result<Vec<Option<u32>>> {
        Ok(sys::allowed_cpus()?.into_iter().map(Some).collect())
    }

    fn start(name: &str, cpus: Vec<Option<u32>>, stack: Option<usize>) -> Result<Self> {
        ensure!(!cpus.is_empty(), "no CPU to run on");
        let lanes: Vec<Arc<Lane>> = cpus.into_iter().map(|cpu| Arc::new(Lane::new(cpu))).collect();
        // From here on, what was started is ended by `drop` if the next thread cannot be had.
        let mut queue = Self { lanes, threads: Vec::new() };
        for lane in &queue.lanes {
            let serve = Arc::clone(lane);
            let label = lane.cpu.map_or_else(|| name.to_owned(), |cpu| format!("{name}/{cpu}"));
            let builder = thread::Builder::new().name(label);
            let builder = stack.into_iter().fold(builder, thread::Builder::stack_size);
            let thread = builder.spawn(move || serve.serve());
            queue.threads.push(thread.context("starting a thread of a workqueue")?);
        }
        Ok(queue)
    }

    /// Queues `work` on the caller's CPU; `false` if it is pending already.
    pub(crate) fn queue_work(&self, work: &Work) -> bool {
        self.queue_work_on(sys::current_cpu(), work)
    }

    /// The same, on a CPU of the caller's choice.
    pub(crate) fn queue_work_on(&self, cpu: u32, work: &Work) -> bool {
        let claimed = work.claim();
        if claimed {
            self.lane(cpu).insert(work.clone());
        }
        claimed
    }

    /// Queues `work` after `delay`, on the CPU that arms it; it is pending from now on.
    pub(crate) fn queue_delayed_work(&self, work: &Work, delay: Duration) -> bool {
        self.queue_delayed_work_on(sys::current_cpu(), work, delay)
    }

    /// The same, on a CPU of the caller's choice.
    pub(crate) fn queue_delayed_work_on(&self, cpu: u32, work: &Work, delay: Duration) -> bool {
        if delay.is_zero() {
            return self.queue_work_on(cpu, work);
        }
        let claimed = work.claim();
        if claimed {
            let (lane, work) = (Arc::clone(self.lane(cpu)), work.clone());
            Timers::of_process().after(delay, move || lane.insert(work));
        }
        claimed
    }

    /// Waits until every item that is queued now is done; armed timers are not waited for.
    pub(crate) fn flush(&self) {
        self.lanes.iter().for_each(|lane| lane.flush());
    }

    /// A CPU that this process may not use is served by the first one's thread.
    fn lane(&self, cpu: u32) -> &Arc<Lane> {
        self.lanes.iter().find(|lane| lane.cpu == Some(cpu)).unwrap_or(&self.lanes[0])
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // Where a thread could not be started nothing was queued.
        self.flush();
        for lane in &self.lanes {
            lane.lock().should_stop = true;
            lane.more_work.notify_one();
        }
        for thread in self.threads.drain(..) {
            // Its panic has been printed, and the queue goes away in any case.
            let _ = thread.join();
        }
    }
}

impl Lane {
    fn new(cpu: Option<u32>) -> Self {
        Self { cpu, state: Mutex::default(), more_work: Condvar::new(), work_done: Condvar::new() }
    }

    fn insert(&self, work: Work) {
        let mut state = self.lock();
        state.worklist.push_back(work);
        state.insert_sequence += 1;
        drop(state);
        self.more_work.notify_one();
    }

    /// The thread's life.
    fn serve(&self) {
        SERVES.set(self);
        if let Some(cpu) = self.cpu {
            // A CPU that has just gone: the thread then runs elsewhere, as the kernel's does.
            let _ = sys::pin_to(cpu);
        }
        let mut state = self.lock();
        loop {
            state = self.run_worklist(state);
            if state.should_stop {
                return;
            }
            state = self.more_work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs items until there are none.
    fn run_worklist<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while let Some(work) = state.worklist.pop_front() {
            drop(state);
            work.run();
            state = self.lock();
            state.remove_sequence += 1;
            if state.flushers > 0 {
                self.work_done.notify_all();
            }
        }
        state
    }

    fn flush(&self) {
        let mut state = self.lock();
        if std::ptr::eq(SERVES.get(), self) {
            // Who would wait here would wait for itself; what runs, the caller, is not waited for.
            drop(self.run_worklist(state));
            return;
        }
        let needed = state.insert_sequence;
        state.flushers += 1;
        while state.remove_sequence < needed {
            state = self.work_done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.flushers -= 1;
    }

    /// No function is called under the lock, so a panic in one leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
