//! A scheduler that keeps threads near their caches: where they wake up, and who takes over those
//! that wait.
//!
//! Off unless [`Caches`](crate::config::Caches) asks for it; the rules are said there.

use super::{Machine, Tid};
use crate::Nanos;
use crate::config::Caches;
use crate::topology::Scope;

/// See the module header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Minded {
    /// A thread that has waited for less stays with its cache.
    hot: Nanos,
    now: Nanos,
}

impl Machine {
    /// From now on caches matter.
    pub(crate) fn mind_caches(&mut self, caches: &Caches) {
        self.caches = Some(Minded { hot: caches.hot, now: 0 });
        for cpu in 0..self.nr_cpus() {
            self.track(self.domains.pod(Scope::Cache, cpu));
        }
        self.track(super::WHOLE);
    }

    /// What time it is, where that matters.
    #[inline]
    pub(crate) fn set_time(&mut self, now: Nanos) {
        if let Some(minded) = &mut self.caches {
            minded.now = now;
        }
    }

    /// The thread, which may run in a wider place, wakes up in `domain`.
    pub(crate) fn keep_near(&mut self, tid: Tid, domain: u32) {
        self.threads[tid].near = Some(domain);
    }

    /// The thread is taken off its CPU.
    #[inline]
    pub(super) fn record_ran(&mut self, tid: Tid) {
        if let Some(minded) = &self.caches {
            self.threads[tid].ran_at = minded.now;
        }
    }

    /// Where a thread wakes up that may run in `domain`.
    pub(super) fn choose_near(&self, tid: Tid, domain: u32) -> u32 {
        let last = self.threads[tid].cpu;
        let cache = self.domains.pod(Scope::Cache, last);
        let near = self.threads[tid].near.unwrap_or(cache);
        let cpus = self.domains.cpus(near);
        let is_within =
            self.domains.has(domain, cpus.start) && self.domains.has(domain, cpus.end - 1);
        let near = if is_within && self.domains.nr_online(near) > 0 { near } else { domain };
        if self.is_idle(last) && self.domains.has(near, last) {
            return last;
        }
        self.domains.least_loaded(near)
    }

    /// Takes over a thread that waits for another CPU.
    pub(super) fn pull(&mut self, cpu: u32, minded: Minded) -> Option<Tid> {
        let cache = self.domains.pod(Scope::Cache, cpu);
        let mine = self.domains.cpus(cache);
        if let Some((from, at)) = self.find_waiting(mine.clone(), cpu, |_| true) {
            return self.take_over(from, at, cpu);
        }
        let other = self.busiest_other(cache, cpu)?;
        let is_cold = |ran_at: Nanos| minded.now - ran_at >= minded.hot;
        let (from, at) = self.find_waiting(self.domains.cpus(other), cpu, is_cold)?;
        self.take_over(from, at, cpu)
    }

    /// The first thread that may come to `cpu`, on the CPU of `cpus` with most threads.
    fn find_waiting(
        &self,
        cpus: std::ops::Range<u32>,
        cpu: u32,
        may: impl Fn(Nanos) -> bool,
    ) -> Option<(u32, (usize, usize))> {
        let movable = |&tid: &Tid| {
            let thread = &self.threads[tid];
            may(thread.ran_at)
                && thread.waits_in.is_some_and(|domain| self.domains.has(domain, cpu))
        };
        let first = |from: u32| {
            let queues = self.cpus[from as usize].queues.iter().enumerate();
            let mut found =
                queues.filter_map(|(queue, tids)| Some((queue, tids.iter().position(movable)?)));
            Some((from, found.next()?))
        };
        cpus.filter_map(first).max_by_key(|&(from, _)| self.load(from))
    }

    /// The cache with most threads, if it has so many that `cpu` should take one.
    fn busiest_other(&self, cache: u32, cpu: u32) -> Option<u32> {
        let caches = (0..self.nr_cpus()).map(|cpu| self.domains.pod(Scope::Cache, cpu));
        let mut others: Vec<u32> = caches.filter(|&other| other != cache).collect();
        others.dedup();
        let load = |cache: u32| self.domains.cpus(cache).map(|cpu| self.load(cpu)).sum::<u32>();
        let nr_idle = |cache: u32| self.domains.nr_idle(cache, |cpu| self.is_idle(cpu));
        let busiest = others.into_iter().max_by_key(|&other| load(other))?;
        let is_overloaded = load(busiest) > self.domains.cpus(busiest).len() as u32;
        // The one that looks is about to be busy.
        let mine = nr_idle(cache) - u32::from(self.is_idle(cpu));
        (is_overloaded || mine > nr_idle(busiest) + 1).then_some(busiest)
    }
}
