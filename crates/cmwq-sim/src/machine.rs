//! The virtual machine under the simulation: CPUs, their run queues, and where threads run.
//!
//! It knows nothing of workqueues. A CPU runs one thread until that blocks or ends (or until its
//! time slice ends, if slices are on); threads that are runnable wait in two queues per CPU, high
//! priority before normal, first come, first served. A thread is pinned to one CPU or may run on
//! any of a *domain* (a pod, or the whole machine): it is put on the least loaded CPU when it
//! becomes runnable, and a CPU that runs dry takes a waiting one from the most loaded CPU of its
//! domains, so a domain's CPUs are never idle while its threads wait.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::Nanos;

/// A virtual thread, by its index.
pub(crate) type Tid = usize;
/// Where a thread may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Cpu(u32),
    Domain(u32),
}

/// What a thread is doing, as its scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for something that is not a CPU.
    Off,
    /// Waits for a CPU.
    Queued,
    /// Has a CPU.
    Running,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) place: Place,
    pub(crate) is_high: bool,
    /// The CPU it has, waits for, or had last.
    pub(crate) cpu: u32,
    pub(crate) state: State,
    /// Was woken and has not had a CPU since.
    pub(crate) is_fresh: bool,
    /// CPU time it still wants before it decides anything.
    pub(crate) burn: Nanos,
}

#[derive(Debug, Default)]
struct Cpu {
    running: Option<Tid>,
    /// High priority, normal.
    queues: [VecDeque<Tid>; 2],
    last: Option<Tid>,
    /// Threads that run or wait here.
    load: u32,
    /// How much slower than nominal, in hundredths.
    slowness: u64,
}

#[derive(Debug)]
struct Domain {
    cpus: Range<u32>,
    nr_idle: u32,
    /// Threads of this domain that wait on some CPU.
    nr_waiting: u32,
    /// Kept only from the first thread of the domain on.
    by_load: Option<BTreeSet<(u32, u32)>>,
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Machine {
    cpus: Vec<Cpu>,
    domains: Vec<Domain>,
    pod_cpus: u32,
    pub(crate) threads: Vec<Thread>,
    /// CPUs that have nothing to run and should look.
    ready: VecDeque<u32>,
}

/// The domain of the whole machine.
pub(crate) const WHOLE: u32 = 0;

impl Machine {
    /// `cpus` CPUs in pods of `pod_cpus`. Domain 0 is the machine, domain `1 + n` is pod `n`.
    pub(crate) fn new(cpus: u32, pod_cpus: u32) -> Self {
        let domain = |cpus: Range<u32>| Domain {
            nr_idle: cpus.end - cpus.start,
            cpus,
            nr_waiting: 0,
            by_load: None,
        };
        let pods = (0..cpus).step_by(pod_cpus as usize);
        let domains = std::iter::once(domain(0..cpus))
            .chain(pods.map(|first| domain(first..(first + pod_cpus).min(cpus))))
            .collect();
        let cpu = |_| Cpu { slowness: 100, ..Cpu::default() };
        Self {
            cpus: (0..cpus).map(cpu).collect(),
            domains,
            pod_cpus,
            threads: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    pub(crate) fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    pub(crate) fn nr_pods(&self) -> u32 {
        self.domains.len() as u32 - 1
    }

    pub(crate) fn pod_of(&self, cpu: u32) -> u32 {
        cpu / self.pod_cpus
    }

    pub(crate) fn domain_cpus(&self, domain: u32) -> Range<u32> {
        self.domains[domain as usize].cpus.clone()
    }

    /// CPUs with nothing to run, of those where a thread of `place` may run.
    pub(crate) fn nr_idle(&self, place: Place) -> u32 {
        match place {
            Place::Cpu(cpu) => u32::from(self.is_idle(cpu)),
            Place::Domain(domain) => self.domains[domain as usize].nr_idle,
        }
    }

    pub(crate) fn is_idle(&self, cpu: u32) -> bool {
        self.load(cpu) == 0
    }

    /// The thread that `cpu` runs.
    pub(crate) fn running(&self, cpu: u32) -> Option<Tid> {
        self.cpus[cpu as usize].running
    }

    /// Whether another thread waits for `cpu`.
    pub(crate) fn has_waiters(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].queues.iter().any(|queue| !queue.is_empty())
    }

    pub(crate) fn set_slowness(&mut self, cpu: u32, hundredths: u64) {
        self.cpus[cpu as usize].slowness = hundredths;
    }

    /// How long `cpu` takes for so much CPU time.
    pub(crate) fn wall_time(&self, cpu: u32, burn: Nanos) -> Nanos {
        let wall = u128::from(burn) * u128::from(self.cpus[cpu as usize].slowness) / 100;
        Nanos::try_from(wall).unwrap_or(Nanos::MAX)
    }

    /// CPU time that `cpu` gives in so long, at least 1 ns unless `wall` is 0.
    pub(crate) fn cpu_time(&self, cpu: u32, wall: Nanos) -> Nanos {
        let burn = (u128::from(wall) * 100).div_ceil(u128::from(self.cpus[cpu as usize].slowness));
        Nanos::try_from(burn).unwrap_or(Nanos::MAX)
    }

    /// A new thread, off every CPU.
    pub(crate) fn spawn(&mut self, place: Place, is_high: bool) -> Tid {
        let cpu = match place {
            Place::Cpu(cpu) => cpu,
            Place::Domain(domain) => {
                self.track(domain);
                self.domains[domain as usize].cpus.start
            }
        };
        self.threads.push(Thread {
            place,
            is_high,
            cpu,
            state: State::Off,
            is_fresh: false,
            burn: 0,
        });
        self.threads.len() - 1
    }

    fn track(&mut self, domain: u32) {
        if self.domains[domain as usize].by_load.is_none() {
            let cpus = self.domain_cpus(domain);
            let by_load = cpus.map(|cpu| (self.load(cpu), cpu)).collect();
            self.domains[domain as usize].by_load = Some(by_load);
        }
    }

    // ---- becoming runnable, getting a CPU, leaving it

    /// The thread wants a CPU.
    pub(crate) fn wake(&mut self, tid: Tid) {
        let thread = &mut self.threads[tid];
        debug_assert_eq!(thread.state, State::Off, "woke a thread that is not asleep");
        thread.is_fresh = true;
        let (place, last) = (thread.place, thread.cpu);
        let cpu = match place {
            Place::Cpu(cpu) => cpu,
            Place::Domain(_) if self.is_idle(last) => last,
            Place::Domain(domain) => self.least_loaded(domain),
        };
        self.enqueue(tid, cpu);
        if self.cpus[cpu as usize].running.is_none() {
            self.ready.push_back(cpu);
        }
    }

    fn least_loaded(&self, domain: u32) -> u32 {
        let domain = &self.domains[domain as usize];
        let least = domain.by_load.as_ref().and_then(|by_load| by_load.first());
        least.map_or(domain.cpus.start, |&(_, cpu)| cpu)
    }

    fn enqueue(&mut self, tid: Tid, cpu: u32) {
        self.change_load(cpu, 1);
        let thread = &mut self.threads[tid];
        thread.state = State::Queued;
        thread.cpu = cpu;
        let place = thread.place;
        self.cpus[cpu as usize].queues[usize::from(!thread.is_high)].push_back(tid);
        self.count_waiting(place, 1);
    }

    fn count_waiting(&mut self, place: Place, change: i32) {
        if let Place::Domain(domain) = place {
            let count = &mut self.domains[domain as usize].nr_waiting;
            *count = count.wrapping_add_signed(change);
        }
    }

    /// A CPU that may have something to start.
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// Gives the idle `cpu` its next thread: `(thread, switched from another)`.
    pub(crate) fn dispatch(&mut self, cpu: u32) -> Option<(Tid, bool)> {
        if self.cpus[cpu as usize].running.is_some() {
            return None;
        }
        let tid = self.pop(cpu).or_else(|| self.steal(cpu))?;
        let thread = &mut self.threads[tid];
        thread.state = State::Running;
        let cpu = &mut self.cpus[cpu as usize];
        cpu.running = Some(tid);
        Some((tid, cpu.last.replace(tid) != Some(tid)))
    }

    fn pop(&mut self, cpu: u32) -> Option<Tid> {
        let queues = &mut self.cpus[cpu as usize].queues;
        let tid = queues.iter_mut().find_map(VecDeque::pop_front)?;
        self.count_waiting(self.threads[tid].place, -1);
        Some(tid)
    }

    /// Takes over a thread that waits for another CPU and may run here.
    fn steal(&mut self, cpu: u32) -> Option<Tid> {
        let mine = [1 + self.pod_of(cpu), WHOLE];
        for domain in mine.into_iter().filter(|&d| self.domains[d as usize].nr_waiting > 0) {
            let by_load = self.domains[domain as usize].by_load.as_ref()?;
            let busy = by_load.iter().rev().take_while(|(load, _)| *load > 1);
            let found = busy.into_iter().find_map(|&(_, from)| self.find_movable(from, domain));
            if let Some((from, queue, index)) = found {
                let tid = self.cpus[from as usize].queues[queue].remove(index)?;
                self.count_waiting(Place::Domain(domain), -1);
                self.change_load(from, -1);
                self.change_load(cpu, 1);
                self.threads[tid].cpu = cpu;
                return Some(tid);
            }
        }
        None
    }

    fn find_movable(&self, from: u32, domain: u32) -> Option<(u32, usize, usize)> {
        let queues = &self.cpus[from as usize].queues;
        (0..queues.len()).find_map(|queue| {
            let movable = |&tid: &Tid| self.threads[tid].place == Place::Domain(domain);
            queues[queue].iter().position(movable).map(|index| (from, queue, index))
        })
    }

    /// The thread gives its CPU up and waits for something else.
    pub(crate) fn leave(&mut self, tid: Tid) {
        let cpu = self.vacate(tid);
        self.threads[tid].state = State::Off;
        self.change_load(cpu, -1);
    }

    /// The thread goes behind the others that wait for its CPU.
    pub(crate) fn requeue(&mut self, tid: Tid) {
        let cpu = self.vacate(tid);
        self.change_load(cpu, -1);
        self.enqueue(tid, cpu);
    }

    fn vacate(&mut self, tid: Tid) -> u32 {
        let thread = &self.threads[tid];
        debug_assert_eq!(thread.state, State::Running);
        let cpu = thread.cpu;
        self.cpus[cpu as usize].running = None;
        self.ready.push_back(cpu);
        cpu
    }

    // ---- load

    fn load(&self, cpu: u32) -> u32 {
        self.cpus[cpu as usize].load
    }

    fn change_load(&mut self, cpu: u32, change: i32) {
        let load = &mut self.cpus[cpu as usize].load;
        let before = *load;
        let after = before.wrapping_add_signed(change);
        *load = after;
        for domain in [WHOLE, 1 + self.pod_of(cpu)] {
            let domain = &mut self.domains[domain as usize];
            domain.nr_idle += u32::from(after == 0);
            domain.nr_idle -= u32::from(before == 0);
            if let Some(by_load) = &mut domain.by_load {
                by_load.remove(&(before, cpu));
                by_load.insert((after, cpu));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets every CPU that can take a thread; returns the threads in the order in which they got
    /// CPUs.
    fn settle(machine: &mut Machine) -> Vec<Tid> {
        let mut started = Vec::new();
        while let Some(cpu) = machine.next_ready() {
            started.extend(machine.dispatch(cpu).map(|(tid, _)| tid));
        }
        started
    }

    fn spawn_awake(machine: &mut Machine, place: Place, is_high: bool) -> Tid {
        let tid = machine.spawn(place, is_high);
        machine.wake(tid);
        tid
    }

    #[test]
    fn high_priority_first_then_first_come_first_served() {
        let mut machine = Machine::new(1, 1);
        let first = spawn_awake(&mut machine, Place::Cpu(0), false);
        assert_eq!(settle(&mut machine), [first]);
        let second = spawn_awake(&mut machine, Place::Cpu(0), false);
        let third = spawn_awake(&mut machine, Place::Cpu(0), false);
        let high = spawn_awake(&mut machine, Place::Cpu(0), true);
        assert_eq!(settle(&mut machine), [], "run to block");
        let mut order = Vec::new();
        let mut running = first;
        for _ in 0..3 {
            machine.leave(running);
            let started = settle(&mut machine);
            running = started[0];
            order.extend(started);
        }
        assert_eq!(order, [high, second, third]);
    }

    #[test]
    fn free_threads_spread_and_idle_cpus_take_over() {
        let mut machine = Machine::new(4, 2);
        let pod = Place::Domain(2);
        let threads: Vec<_> = (0..4).map(|_| spawn_awake(&mut machine, pod, false)).collect();
        settle(&mut machine);
        let cpus: Vec<_> = threads.iter().map(|&t| machine.threads[t].cpu).collect();
        assert!(cpus.iter().all(|cpu| (2..4).contains(cpu)), "{cpus:?}");
        assert_eq!(machine.nr_idle(pod), 0);
        assert_eq!(machine.nr_idle(Place::Domain(WHOLE)), 2);
        // Both threads of CPU 3 leave: it takes over the one that waits for CPU 2.
        for _ in 0..2 {
            let running = machine.running(3).expect("CPU 3 runs");
            machine.leave(running);
            settle(&mut machine);
        }
        assert!(machine.running(3).is_some() && machine.running(2).is_some());
        assert!(!machine.has_waiters(2) && !machine.has_waiters(3));
    }

    #[test]
    fn a_slow_cpu_takes_longer() {
        let mut machine = Machine::new(2, 2);
        machine.set_slowness(1, 250);
        assert_eq!(machine.wall_time(0, 1_000), 1_000);
        assert_eq!(machine.wall_time(1, 1_000), 2_500);
        assert_eq!(machine.cpu_time(1, 2_500), 1_000);
    }
}
