//! CPUs leave and come back.
//!
//! Whatever runs or waits on a CPU that leaves goes elsewhere at once: within its place, if other
//! CPUs of that are online, or else anywhere (the kernel breaks a thread's affinity rather than not
//! running it). When a CPU comes back, threads that were driven out of their place return to it at
//! once, running or not.

use super::{Machine, State, Tid, WHOLE};
use crate::Nanos;

impl Machine {
    pub(crate) fn is_online(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].is_online
    }

    /// Online CPUs of the machine.
    pub(crate) fn nr_online(&self) -> u32 {
        self.domains.nr_online(WHOLE)
    }

    /// One of a domain's CPUs that are online, counted from 0.
    pub(crate) fn nth_online(&self, domain: u32, nth: usize) -> Option<u32> {
        self.domains.cpus(domain).filter(|&cpu| self.is_online(cpu)).nth(nth)
    }

    /// `cpu`, or the next one behind it that is online.
    pub(crate) fn online_from(&self, cpu: u32) -> u32 {
        let all = self.nr_cpus();
        let mut behind = (0..all).map(|n| (cpu + n) % all);
        behind.find(|&cpu| self.is_online(cpu)).unwrap_or(cpu)
    }

    /// The thread on `cpu` uses it from now on: the number of this burst.
    pub(crate) fn begin_burst(&mut self, cpu: u32, now: Nanos) -> u64 {
        let cpu = &mut self.cpus[cpu as usize];
        cpu.burst += 1;
        cpu.since = now;
        cpu.burst
    }

    /// Whether the burst still goes on: the thread was not taken off the CPU.
    pub(crate) fn is_in_burst(&self, cpu: u32, burst: u64) -> bool {
        self.cpus[cpu as usize].burst == burst
    }

    /// Takes a CPU, not the last one, away.
    pub(crate) fn take_down(&mut self, cpu: u32, now: Nanos) {
        debug_assert!(self.is_online(cpu) && self.nr_online() > 1);
        self.track(WHOLE);
        self.track(self.domains.managed());
        let running = self.running(cpu);
        if let Some(tid) = running {
            self.preempt(tid, now);
        }
        self.domains.set_online(cpu, self.load(cpu), false);
        self.cpus[cpu as usize].is_online = false;
        self.idle_changes.push(cpu);
        // What ran goes first, as it would have.
        let queued: Vec<Tid> =
            self.cpus[cpu as usize].queues.iter_mut().flat_map(std::mem::take).collect();
        for &tid in &queued {
            self.dequeued(tid);
            self.change_load(cpu, -1);
        }
        for tid in running.into_iter().chain(queued) {
            self.place_anew(tid);
        }
    }

    /// Brings a CPU back, and to it the threads that belong there, if those are to `return_home`.
    pub(crate) fn bring_up(&mut self, cpu: u32, now: Nanos, return_home: bool) {
        debug_assert!(!self.is_online(cpu) && self.load(cpu) == 0);
        self.cpus[cpu as usize].is_online = true;
        self.domains.set_online(cpu, 0, true);
        self.idle_changes.push(cpu);
        let displaced: Vec<Tid> = self.displaced.iter().copied().collect();
        for tid in displaced {
            let place = self.threads[tid].place;
            if !return_home || self.allowed(place) != place {
                continue;
            }
            match self.threads[tid].state {
                State::Running => self.preempt(tid, now),
                State::Queued => self.withdraw(tid),
                State::Off => unreachable!("it left its CPU, so it is not displaced"),
            }
            self.place_anew(tid);
        }
        self.ready.push_back(cpu);
    }

    /// Takes a running thread off its CPU, in the middle of what it does.
    fn preempt(&mut self, tid: Tid, now: Nanos) {
        let cpu = self.vacate(tid);
        self.change_load(cpu, -1);
        let entry = &mut self.cpus[cpu as usize];
        entry.burst += 1;
        let used = self.cpu_time(cpu, now - self.cpus[cpu as usize].since);
        self.count_used(tid, used);
    }

    /// The thread has used so much of the CPU time that it wanted.
    pub(crate) fn count_used(&mut self, tid: Tid, used: Nanos) {
        let thread = &mut self.threads[tid];
        let used = used.min(thread.burn);
        thread.burn -= used;
        thread.used += used;
    }

    /// CPU time that the thread has used until now.
    pub(crate) fn used(&self, tid: Tid, now: Nanos) -> Nanos {
        let thread = &self.threads[tid];
        let here = match thread.state {
            State::Running => self.cpu_time(thread.cpu, now - self.cpus[thread.cpu as usize].since),
            State::Off | State::Queued => 0,
        };
        thread.used + here.min(thread.burn)
    }

    /// Takes a waiting thread off its CPU's queue.
    pub(super) fn withdraw(&mut self, tid: Tid) {
        let cpu = self.threads[tid].cpu;
        for queue in &mut self.cpus[cpu as usize].queues {
            queue.retain(|&other| other != tid);
        }
        self.dequeued(tid);
        self.change_load(cpu, -1);
    }

    pub(super) fn place_anew(&mut self, tid: Tid) {
        let cpu = self.choose(tid);
        self.enqueue(tid, cpu);
        self.ready.push_back(cpu);
    }
}
