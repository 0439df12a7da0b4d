//! The virtual machine under the simulation: CPUs, their run queues, and where threads run.
//!
//! It knows nothing of workqueues. A CPU runs one thread until that blocks or ends (or until its
//! time slice ends, if slices are on); threads that are runnable wait in two queues per CPU, high
//! priority before normal, first come, first served. A thread is pinned to one CPU or may run on
//! any of a *domain* (a pod, or the whole machine): it is put on the least loaded CPU when it
//! becomes runnable, and a CPU that runs dry takes a waiting one from the next CPU of its
//! domains, so a domain's CPUs are never idle while its threads wait. A thread whose CPUs are all
//! offline may run anywhere, until one of them is back: see `hotplug`.

use std::collections::{BTreeSet, VecDeque};

use crate::Nanos;
use crate::config::Placement;
use crate::topology::{Scope, Shape};

mod by_load;
mod caches;
mod domains;
mod hotplug;

pub(crate) use domains::{Cut, Domains};

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
    /// Its wait in an item of a managed queue was over once, or the item is a hog: any CPU may take
    /// it over.
    pub(crate) is_movable: bool,
    /// CPU time it still wants before it decides anything.
    pub(crate) burn: Nanos,
    /// CPU time it has used, but for what it uses now.
    used: Nanos,
    /// How often it gave its CPU up to wait for something else.
    pub(crate) nr_sleeps: u64,
    /// The domain whose CPUs may take it over, while it waits.
    waits_in: Option<u32>,
    /// The domain where it is woken, if that is not where it may run.
    near: Option<u32>,
    /// When it was last on a CPU; kept only where caches matter.
    ran_at: Nanos,
}

#[derive(Debug)]
struct Cpu {
    is_online: bool,
    running: Option<Tid>,
    /// High priority, normal.
    queues: [VecDeque<Tid>; 2],
    last: Option<Tid>,
    /// Threads that run or wait here.
    load: u32,
    /// How much slower than nominal, in hundredths.
    slowness: u64,
    /// Numbers the times that threads used it without a break, and when the present one began.
    burst: u64,
    since: Nanos,
    /// When a thread left it last, in the machine's own count.
    left: u64,
    /// It was called for a thread that waits elsewhere.
    is_called: bool,
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Machine {
    cpus: Vec<Cpu>,
    domains: Domains,
    /// Threads that run or wait outside their place, because all of that is offline.
    displaced: BTreeSet<Tid>,
    /// Movable threads that wait for a CPU.
    movable: BTreeSet<Tid>,
    pub(crate) threads: Vec<Thread>,
    /// CPUs that have nothing to run and should look.
    ready: VecDeque<u32>,
    /// CPUs that became idle or busy since somebody asked.
    idle_changes: Vec<u32>,
    placement: Placement,
    nr_left: u64,
    caches: Option<caches::Minded>,
}

/// The domain of the whole machine.
pub(crate) const WHOLE: u32 = 0;

impl Machine {
    #[cfg(test)]
    fn new(shape: Shape, placement: Placement) -> Self {
        Self::with_isolated(shape, placement, 0)
    }

    /// So many of the first CPUs are isolated.
    pub(crate) fn with_isolated(shape: Shape, placement: Placement, isolated: u32) -> Self {
        let cpu = |cpu| Cpu {
            is_online: true,
            running: None,
            queues: Default::default(),
            last: None,
            load: 0,
            slowness: shape.slowness(cpu),
            burst: 0,
            since: 0,
            left: 0,
            is_called: false,
        };
        Self {
            cpus: (0..shape.cpus()).map(cpu).collect(),
            domains: Domains::new(shape, isolated),
            displaced: BTreeSet::new(),
            movable: BTreeSet::new(),
            threads: Vec::new(),
            ready: VecDeque::new(),
            idle_changes: Vec::new(),
            placement,
            nr_left: 0,
            caches: None,
        }
    }

    pub(crate) fn nr_cpus(&self) -> u32 {
        self.cpus.len() as u32
    }

    /// The domains, and which CPUs they have.
    pub(crate) const fn domains(&self) -> &Domains {
        &self.domains
    }

    /// The pods of a queue that may use the online CPUs of the domain `usable`.
    pub(crate) fn cut(&mut self, scope: Scope, usable: u32) -> Cut {
        let cpus = &self.cpus;
        self.domains.cut(scope, usable, |cpu| cpus[cpu as usize].is_online)
    }

    /// CPUs with nothing to run, of those where a thread of `place` may run.
    pub(crate) fn nr_idle(&self, place: Place) -> u32 {
        match place {
            Place::Cpu(cpu) => u32::from(self.is_idle(cpu)),
            Place::Domain(domain) => self.domains.nr_idle(domain, |cpu| self.is_idle(cpu)),
        }
    }

    /// Online, with nothing to run.
    pub(crate) fn is_idle(&self, cpu: u32) -> bool {
        self.load(cpu) == 0 && self.is_online(cpu)
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
        let cpu = self.first_cpu(place);
        self.threads.push(Thread {
            place,
            is_high,
            cpu,
            state: State::Off,
            is_fresh: false,
            is_movable: false,
            burn: 0,
            used: 0,
            nr_sleeps: 0,
            waits_in: None,
            near: None,
            ran_at: 0,
        });
        self.threads.len() - 1
    }

    /// Keeps account of a domain's CPUs from now on.
    pub(crate) fn track(&mut self, domain: u32) {
        let cpus = &self.cpus;
        self.domains
            .track(domain, |cpu| cpus[cpu as usize].is_online.then(|| cpus[cpu as usize].load));
    }

    /// A thread that is off every CPU is to run elsewhere when it wakes.
    pub(crate) fn move_to(&mut self, tid: Tid, place: Place) {
        debug_assert_eq!(self.threads[tid].state, State::Off, "moved a thread that is awake");
        let cpu = self.first_cpu(place);
        let thread = &mut self.threads[tid];
        (thread.place, thread.cpu) = (place, cpu);
    }

    /// The thread may run elsewhere from now on. If it runs, it stays until it leaves its CPU.
    pub(crate) fn set_place(&mut self, tid: Tid, place: Place) {
        if let Place::Domain(domain) = place {
            self.track(domain);
        }
        let is_queued = self.threads[tid].state == State::Queued;
        if is_queued {
            self.withdraw(tid);
        }
        self.threads[tid].place = place;
        if is_queued {
            self.place_anew(tid);
        }
    }

    /// Whether the thread's CPU is one of its place's.
    pub(crate) fn is_in_place(&self, tid: Tid) -> bool {
        let Thread { place, cpu, .. } = self.threads[tid];
        match self.allowed(place) {
            Place::Cpu(own) => own == cpu,
            Place::Domain(domain) => self.domains.has(domain, cpu),
        }
    }

    /// Any CPU may take the thread over, or may not any longer.
    pub(crate) fn set_movable(&mut self, tid: Tid, is_movable: bool) {
        self.threads[tid].is_movable = is_movable;
        if is_movable && self.threads[tid].state == State::Queued {
            self.movable.insert(tid);
        } else {
            self.movable.remove(&tid);
        }
        self.track(WHOLE);
        self.track(self.domains.managed());
    }

    /// The movable threads that wait for a CPU.
    pub(crate) fn waiting_movable(&self) -> impl Iterator<Item = Tid> {
        self.movable.iter().copied()
    }

    fn first_cpu(&mut self, place: Place) -> u32 {
        match place {
            Place::Cpu(cpu) => cpu,
            Place::Domain(domain) => {
                self.track(domain);
                self.domains.cpus(domain).start
            }
        }
    }

    // ---- becoming runnable, getting a CPU, leaving it

    /// The thread wants a CPU.
    pub(crate) fn wake(&mut self, tid: Tid) {
        let thread = &mut self.threads[tid];
        debug_assert_eq!(thread.state, State::Off, "woke a thread that is not asleep");
        thread.is_fresh = true;
        let cpu = self.choose(tid);
        self.enqueue(tid, cpu);
        if self.cpus[cpu as usize].running.is_none() {
            self.ready.push_back(cpu);
        }
    }

    /// Where the thread may run as things are.
    fn allowed(&self, place: Place) -> Place {
        match place {
            Place::Cpu(cpu) if self.is_online(cpu) => place,
            Place::Domain(domain) if self.domains.nr_online(domain) > 0 => place,
            _ => Place::Domain(self.domains.managed()),
        }
    }

    /// The best CPU for a thread that wants one.
    fn choose(&self, tid: Tid) -> u32 {
        let last = self.threads[tid].cpu;
        match self.allowed(self.threads[tid].place) {
            Place::Cpu(cpu) => cpu,
            Place::Domain(domain) if self.placement == Placement::Thrifty => {
                self.thriftiest(domain).unwrap_or_else(|| self.domains.least_loaded(domain))
            }
            Place::Domain(domain) if self.caches.is_some() => self.choose_near(tid, domain),
            Place::Domain(domain) if self.is_idle(last) && self.domains.has(domain, last) => last,
            Place::Domain(domain) => self.domains.least_loaded(domain),
        }
    }

    /// The idle CPU of a domain that takes least to use.
    fn thriftiest(&self, domain: u32) -> Option<u32> {
        let idle = self.domains.cpus(domain).filter(|&cpu| self.is_idle(cpu));
        // The lowest number of those that were never used.
        idle.rev().max_by_key(|&cpu| {
            let Cpu { slowness, left, .. } = self.cpus[cpu as usize];
            (slowness, left)
        })
    }

    fn enqueue(&mut self, tid: Tid, cpu: u32) {
        self.change_load(cpu, 1);
        let thread = &mut self.threads[tid];
        thread.state = State::Queued;
        thread.cpu = cpu;
        let (place, is_high) = (thread.place, thread.is_high);
        if thread.is_movable {
            self.movable.insert(tid);
        }
        self.cpus[cpu as usize].queues[usize::from(!is_high)].push_back(tid);
        let allowed = self.allowed(place);
        if allowed != place {
            self.displaced.insert(tid);
        } else if !self.displaced.is_empty() {
            self.displaced.remove(&tid);
        }
        if let Place::Domain(domain) = allowed {
            self.threads[tid].waits_in = Some(domain);
            self.domains.count_waiting(domain, cpu, 1);
        }
    }

    /// The thread does not wait any more.
    fn dequeued(&mut self, tid: Tid) {
        if self.threads[tid].is_movable {
            self.movable.remove(&tid);
        }
        if let Some(domain) = self.threads[tid].waits_in.take() {
            self.domains.count_waiting(domain, self.threads[tid].cpu, -1);
        }
    }

    /// A CPU that may have something to start.
    pub(crate) fn next_ready(&mut self) -> Option<u32> {
        self.ready.pop_front()
    }

    /// Gives the idle `cpu` its next thread: `(thread, switched from another)`.
    pub(crate) fn dispatch(&mut self, cpu: u32) -> Option<(Tid, bool)> {
        if self.cpus[cpu as usize].running.is_some() || !self.is_online(cpu) {
            return None;
        }
        let own = self.pop(cpu);
        let tid = own.or_else(|| match self.caches {
            Some(minded) => self.pull(cpu, minded),
            None => self.steal(cpu),
        })?;
        let thread = &mut self.threads[tid];
        thread.state = State::Running;
        self.offer(cpu);
        if std::mem::take(&mut self.cpus[cpu as usize].is_called) && own.is_some() {
            self.offer_others(cpu);
        }
        let cpu = &mut self.cpus[cpu as usize];
        cpu.running = Some(tid);
        Some((tid, cpu.last.replace(tid) != Some(tid)))
    }

    /// Threads that chose `cpu` while it was idle, and were overtaken by one of high priority: an
    /// idle CPU takes one over.
    fn offer(&mut self, cpu: u32) {
        if self.caches.is_none() {
            let domains = self.domains.of(cpu).iter();
            let idle = domains.filter_map(|&domain| self.domains.idle_for(domain, cpu)).next();
            self.call(idle);
        }
    }

    fn pop(&mut self, cpu: u32) -> Option<Tid> {
        let queues = &mut self.cpus[cpu as usize].queues;
        let tid = queues.iter_mut().find_map(VecDeque::pop_front)?;
        self.dequeued(tid);
        Some(tid)
    }

    /// Takes over a thread that waits for another CPU and may run here.
    fn steal(&mut self, cpu: u32) -> Option<Tid> {
        for at in 0..self.domains.of(cpu).len() {
            let domain = self.domains.of(cpu)[at];
            let Some(from) = self.domains.next_waiting(domain, cpu) else { continue };
            let at = self.find_movable(from, domain)?;
            let tid = self.take_over(from, at, cpu);
            self.offer(from);
            self.offer_others(cpu);
            return tid;
        }
        None
    }

    /// What `cpu` was called for may have been another thread than the one it has taken over, or
    /// than its own that came meanwhile, and still waits beside idle CPUs.
    fn offer_others(&mut self, cpu: u32) {
        let waiting = |&domain: &u32| {
            let other = self.domains.next_waiting(domain, cpu)?;
            self.domains.idle_for(domain, other)
        };
        let idle = self.domains.of(cpu).iter().find_map(waiting);
        self.call(idle);
    }

    fn call(&mut self, idle: Option<u32>) {
        if let Some(cpu) = idle {
            self.cpus[cpu as usize].is_called = true;
            self.ready.push_back(cpu);
        }
    }

    /// The thread at this place of the queues of `from` waits for `cpu` from now on, and is not
    /// queued.
    fn take_over(&mut self, from: u32, (queue, index): (usize, usize), cpu: u32) -> Option<Tid> {
        let tid = self.cpus[from as usize].queues[queue].remove(index)?;
        self.dequeued(tid);
        self.change_load(from, -1);
        self.change_load(cpu, 1);
        self.threads[tid].cpu = cpu;
        Some(tid)
    }

    fn find_movable(&self, from: u32, domain: u32) -> Option<(usize, usize)> {
        let queues = &self.cpus[from as usize].queues;
        (0..queues.len()).find_map(|queue| {
            let movable = |&tid: &Tid| self.threads[tid].waits_in == Some(domain);
            queues[queue].iter().position(movable).map(|index| (queue, index))
        })
    }

    /// The thread gives its CPU up and waits for something else.
    pub(crate) fn leave(&mut self, tid: Tid) {
        let cpu = self.vacate(tid);
        self.threads[tid].state = State::Off;
        self.threads[tid].nr_sleeps += 1;
        self.change_load(cpu, -1);
        if !self.displaced.is_empty() {
            self.displaced.remove(&tid);
        }
    }

    /// The thread goes behind the others that wait for its CPU.
    pub(crate) fn requeue(&mut self, tid: Tid) {
        let cpu = self.vacate(tid);
        self.change_load(cpu, -1);
        if self.threads[tid].is_movable {
            // An idle CPU takes it over.
            return self.place_anew(tid);
        }
        self.enqueue(tid, cpu);
    }

    fn vacate(&mut self, tid: Tid) -> u32 {
        let thread = &self.threads[tid];
        debug_assert_eq!(thread.state, State::Running);
        let cpu = thread.cpu;
        self.record_ran(tid);
        self.nr_left += 1;
        let entry = &mut self.cpus[cpu as usize];
        (entry.running, entry.left) = (None, self.nr_left);
        self.ready.push_back(cpu);
        cpu
    }

    // ---- load

    /// A CPU that became idle or busy, perhaps more than once, and was not yet asked for.
    pub(crate) fn next_idle_change(&mut self) -> Option<u32> {
        self.idle_changes.pop()
    }

    fn load(&self, cpu: u32) -> u32 {
        self.cpus[cpu as usize].load
    }

    fn change_load(&mut self, cpu: u32, change: i32) {
        let load = &mut self.cpus[cpu as usize].load;
        let before = *load;
        let after = before.wrapping_add_signed(change);
        *load = after;
        if before == 0 || after == 0 {
            self.idle_changes.push(cpu);
        }
        if self.is_online(cpu) {
            self.domains.load_changed(cpu, before, after);
        }
    }
}

#[cfg(test)]
mod tests;
