//! The end of a runtime: who stops whom, and in which order.
//!
//! 1. The caller of [`close_down`](Runtime::close_down) marks the runtime as shut and closes the
//!    queues: from now on they take in what their own items queue, and nothing else.
//! 2. It discards armed timers: their items are refused.
//! 3. It waits until the queues are idle, or for its deadline. Up to here it may be called again.
//! 4. It stops the rescuers, one after the other, and waits for each: their queues are empty. Who
//!    is just making a queue stops that one's rescuer by himself.
//! 5. The first caller that comes so far tells watchdog, sentinels, BH contexts and service to
//!    leave, closes all pools, whose workers leave when they are idle, and waits for the last
//!    thread. Later callers wait for that, too.
//!
//! A thread that was let in before 1 may queue its item at any time, also behind 5. It runs: who
//! queues then creates the worker that it needs, or has the BH context come back, and tries again
//! where no thread can be had, which was the service's before. Only a standby that could not be
//! made then is made by nobody: a late item that waits for another one must say so (a join).
//!
//! Pools and queues stay in memory: an idle item may name a pool, and a handle a queue.

use std::time::Instant;

use cmwq_core::Closed;

#[cfg(not(cmwq_loom))]
use crate::engine::process::Process;
use crate::engine::runtime::Runtime;
use crate::engine::wq::Wq;
use crate::os::backoff::Backoff;
#[cfg(all(test, cmwq_shuttle))]
use crate::os::park::Event;
use crate::os::sync::{Arc, Ordering, lock};

impl Runtime {
    /// Waits until all queues are gone, those that armed timers keep included, and takes the
    /// runtime down: when this returns, its threads have left. Its memory stays: an idle item may
    /// name one of its pools.
    ///
    /// The caller sees to it that nobody makes a queue any more, and calls this once, from outside
    /// of a work function.
    #[cfg(all(test, cmwq_shuttle))]
    pub(crate) fn shutdown(&'static self) {
        self.wait_for_queues();
        self.dismiss_threads();
    }

    /// Lets nothing in any more, waits until all queues are idle, and sends all threads away. Some
    /// are not idle at the deadline: their names; it may be called again.
    pub(crate) fn close_down(&'static self, deadline: Option<Instant>) -> Result<(), Vec<String>> {
        // ORDERING: no pairing: who makes a queue at the same time may make it or not; under the
        // registry's lock it is either closed below or knows.
        self.is_shut.store(true, Ordering::Relaxed);
        self.inspect.header(|header| header.is_shut.store(1, Ordering::Relaxed));
        let wqs = self.wqs_but_reaper();
        for wq in &wqs {
            wq.close(Closed::SHUT);
        }
        self.service.discard_timers(self, deadline);
        #[cfg(not(cmwq_loom))]
        if let Some(process) = Process::existing() {
            process.bare_timers.discard(self);
        }
        wait_until_idle(&wqs, deadline)?;
        // Not sooner: who has begun to wait for one of the others is told when it is idle.
        wait_until_idle(self.close_reaper().as_slice(), deadline)?;
        self.threads.begin_joining();
        for rescuer in wqs.iter().filter_map(|wq| wq.rescuer.get()) {
            rescuer.stop();
        }
        let is_first = !std::mem::replace(&mut lock(&self.registry).is_closing, true);
        if is_first {
            self.dismiss_threads();
        } else {
            self.threads.wait_until_gone();
        }
        Ok(())
    }

    /// Lets nobody begin to wait any more. The queue that others wait by, if there is one.
    fn close_reaper(&self) -> Option<Arc<Wq>> {
        let mut registry = lock(&self.registry);
        registry.is_reaper_shut = true;
        let reaper = registry.reaper.clone()?;
        reaper.close(Closed::SHUT);
        Some(reaper)
    }

    fn dismiss_threads(&'static self) {
        // A thread that still acts on what it saw earlier may make a pool; it will be a closed one.
        lock(&self.registry).is_closing = true;
        self.watchdog.stop();
        self.sentinels.stop();
        self.bh.stop();
        // Behind those that have it try again where they get no thread.
        self.service.stop();
        for pool in self.pools() {
            pool.close();
        }
        self.threads.dismiss();
    }

    #[cfg(all(test, cmwq_shuttle))]
    fn wait_for_queues(&'static self) {
        let mut registry = lock(&self.registry);
        let all_gone = registry.has_queues().then(|| Arc::new(Event::new()));
        registry.all_gone.clone_from(&all_gone);
        drop(registry);
        if let Some(all_gone) = all_gone {
            all_gone.wait(None);
        }
        let reaper = lock(&self.registry).reaper.clone();
        if let Some(reaper) = reaper {
            reaper.destroy();
            self.forget_wq(reaper.key);
        }
    }
}

/// The names of those that are not idle at the deadline.
fn wait_until_idle(wqs: &[Arc<Wq>], deadline: Option<Instant>) -> Result<(), Vec<String>> {
    let mut backoff = Backoff::new();
    loop {
        let busy: Vec<_> = wqs.iter().filter(|wq| !wq.is_idle()).collect();
        if busy.is_empty() {
            return Ok(());
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(busy.into_iter().map(|wq| wq.name.to_string()).collect());
        }
        backoff.pause();
    }
}
