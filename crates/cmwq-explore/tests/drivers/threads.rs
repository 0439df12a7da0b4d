//! A script on threads.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cmwq::explore::{self, Run};
use cmwq::{AffinityScope, Attrs, CpuSet, DelayedWork, Workqueue};
use cmwq_sim::Nanos;
use cmwq_sim::plan::Sighting;
use cmwq_sim::scenario::Flag;
use rustix::thread::{gettid, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::script::{Attributes, Is, LATE, Life, NR_ITEMS, Order, Script, State, Workers};
use crate::stage::{QueueKind, Stage};

const PATIENCE: Duration = Duration::from_secs(200);

#[derive(Debug, Default)]
struct Told {
    orders: Vec<Order>,
    /// The run in which the item was entered.
    run: Option<Run>,
    is_entered: bool,
    is_blocked: bool,
    is_done: bool,
}

#[derive(Debug, Default)]
struct Seat {
    told: Mutex<Told>,
    more: Condvar,
}

impl Seat {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("nobody panics there")
    }

    fn tell(&self, order: Order) {
        self.told().orders.push(order);
        self.more.notify_all();
    }

    /// Waits for the next order.
    fn next(&self) -> Order {
        let mut told = self.told();
        while told.orders.is_empty() {
            told = self.more.wait(told).expect("nobody panics there");
        }
        told.orders.remove(0)
    }

    /// The function of the item.
    fn run(&self, computes_first: Nanos) {
        self.told().run = Run::current();
        let begun = cpu_time();
        while cpu_time() < begun + computes_first {}
        self.told().is_entered = true;
        while let Order::Block(_) = self.next() {
            cmwq::blocking(|| {
                self.told().is_blocked = true;
                let _woken = self.next();
            });
            // The pool knows.
            self.told().is_blocked = false;
        }
        self.told().is_done = true;
    }
}

/// What this thread has used.
fn cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// Whether all other threads of the process sleep: then nothing more happens by itself.
fn all_others_sleep() -> bool {
    let me = gettid().as_raw_nonzero().to_string();
    let tasks = fs::read_dir("/proc/self/task").expect("procfs");
    tasks.flatten().filter(|task| *task.file_name() != *me).all(|task| {
        // One that has ended does nothing either.
        let Ok(stat) = fs::read_to_string(task.path().join("stat")) else { return true };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('S' | 'Z' | 'X'))
    })
}

struct Rig<'s> {
    script: &'s Script,
    cpus: Vec<u32>,
    /// `None`: it has gone.
    queues: Vec<Option<Workqueue>>,
    /// Of a queue that was dropped, who waits until it has gone.
    drops: Vec<Option<JoinHandle<()>>>,
    items: Vec<(DelayedWork, Arc<Seat>)>,
    queued: BTreeSet<usize>,
    cancelled: BTreeSet<usize>,
    /// The items whose timers do not expire within the script.
    late: BTreeSet<usize>,
    waits: Vec<JoinHandle<()>>,
}

fn make(&(flag, max_active): &QueueKind) -> Workqueue {
    let builder = Workqueue::builder("drivers");
    let builder = match flag {
        Flag::Percpu => builder.percpu().max_active(max_active),
        Flag::Ordered => builder.ordered(),
        Flag::Unbound => builder.unbound().max_active(max_active),
        _ => builder.max_active(max_active),
    };
    builder.build().expect("a queue")
}

impl<'s> Rig<'s> {
    fn new(script: &'s Script) -> Self {
        let computes_first = script.stage.computes_first();
        let item = |_| {
            let seat = Arc::new(Seat::default());
            let theirs = Arc::clone(&seat);
            (DelayedWork::new(move || theirs.run(computes_first)), seat)
        };
        let queues = script.stage.queues().iter();
        let mask = sched_getaffinity(None).expect("a thread may ask for its mask");
        let is_there = |&cpu: &u32| script.stage.pretends() || mask.is_set(cpu as usize);
        let cpus = (0..u32::MAX).filter(is_there);
        Self {
            script,
            cpus: cpus.take(script.stage.nr_cpus()).collect(),
            queues: queues.map(|kind| Some(make(kind))).collect(),
            drops: script.stage.queues().iter().map(|_| None).collect(),
            items: (0..NR_ITEMS).map(item).collect(),
            queued: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            late: BTreeSet::new(),
            waits: Vec::new(),
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Queue(item) => self.queue(item, 0),
            Order::Arm(item, delay) => self.queue(item, delay),
            Order::Retime(item, delay) => self.retime(item, delay),
            Order::Cancel(item) => {
                assert!(self.items[item].0.cancel(), "{order:?}");
                self.cancelled.insert(item);
            }
            Order::SetMaxActive(queue, most) => {
                self.open(queue).set_max_active(most).expect("it has a limit");
            }
            Order::SetAttrs(queue, attributes) => {
                self.open(queue).apply_attrs(&self.attrs(attributes)).expect("they make sense");
            }
            Order::DropQueue(queue) => self.drop_queue(queue),
            Order::MakeQueue(queue) => {
                let stage = self.script.stage;
                self.queues[queue] = Some(make(&stage.queues()[queue]));
                self.drops[queue] = None;
            }
            Order::FlushItem(item) => {
                self.late.remove(&item);
                let item = self.items[item].0.clone();
                self.waits.push(thread::spawn(move || _ = item.flush()));
            }
            Order::CancelSync(item) => {
                let item = self.items[item].0.clone();
                self.waits.push(thread::spawn(move || assert!(!item.cancel_sync(), "it runs")));
            }
            Order::FlushQueue(queue) => {
                let queue = self.queues[queue].clone();
                let flush = move || queue.iter().for_each(Workqueue::flush);
                self.waits.push(thread::spawn(flush));
            }
            Order::Report(one, other) => {
                let run = |Sighting { item, is_blocked }| {
                    Some((self.items[item].1.told().run?, is_blocked))
                };
                let found = [one].into_iter().chain(other).filter_map(run);
                Run::report(&found.collect::<Vec<_>>());
            }
            Order::Block(item) | Order::Wake(item) | Order::Finish(item) => {
                self.items[item].1.tell(order);
            }
        }
    }

    fn attrs(&self, Attributes { number, is_whole, only, is_strict }: Attributes) -> Attrs {
        let scope = if is_whole { AffinityScope::System } else { AffinityScope::Cpu };
        let attrs = Attrs::new().nice(5 * i32::from(number)).affinity_scope(Some(scope));
        let attrs = attrs.affinity_strict(is_strict);
        match only {
            Some(cpu) => attrs.cpumask(CpuSet::single(self.cpus[cpu])),
            None => attrs,
        }
    }

    /// A queue that is there.
    fn open(&self, queue: usize) -> &Workqueue {
        self.queues[queue].as_ref().expect("it has not gone")
    }

    /// Queues that are drained go, as soon as none of their timers is armed.
    fn reap(&mut self) {
        let lives: Vec<_> = (0..self.queues.len()).map(|queue| self.life(queue)).collect();
        let queues = self.queues.iter_mut().zip(lives);
        queues.filter(|(_, life)| *life == Life::Gone).for_each(|(queue, _)| *queue = None);
    }

    fn life(&self, queue: usize) -> Life {
        match &self.drops[queue] {
            None => Life::Open,
            Some(drop) if drop.is_finished() && self.nr_timers(queue) == 0 => Life::Gone,
            Some(_) => Life::Dropping,
        }
    }

    fn nr_timers(&self, queue: usize) -> u64 {
        self.queues[queue].as_ref().map_or(0, explore::nr_timers)
    }

    fn queue(&mut self, item: usize, delay: Nanos) {
        let place = self.script.places[item];
        let Some(queue) = &self.queues[place.queue] else { return };
        let cpu = self.cpus[place.cpu];
        let is_mine =
            queue.queue_delayed_work_on(cpu, &self.items[item].0, Duration::from_nanos(delay));
        assert!(is_mine, "item {item} was pending");
        if delay == 0 && self.drops[place.queue].is_some() {
            // It was refused, and is idle.
            return;
        }
        self.queued.insert(item);
        if delay == LATE {
            self.late.insert(item);
        }
    }

    fn retime(&mut self, item: usize, delay: Nanos) {
        let place = self.script.places[item];
        let (queue, cpu) = (self.open(place.queue), self.cpus[place.cpu]);
        let delay_of = Duration::from_nanos(delay);
        assert!(queue.mod_delayed_work_on(cpu, &self.items[item].0, delay_of), "it was pending");
        if delay == LATE {
            self.late.insert(item)
        } else {
            self.late.remove(&item)
        };
    }

    fn drop_queue(&mut self, queue: usize) {
        // Armed timers would keep it in being.
        let armed = self.late.difference(&self.cancelled).copied();
        let armed: Vec<_> = armed.filter(|&item| self.script.places[item].queue == queue).collect();
        armed.into_iter().for_each(|item| self.obey(Order::Cancel(item)));
        // It goes with the last handle, which refuses items until then.
        let handle = self.open(queue).clone();
        self.drops[queue] = Some(thread::spawn(move || handle.close().wait()));
    }

    /// As a reader, who lists nothing: if what has come by the inbox were listed, an item that has
    /// to wait for its limit would be overtaken by those behind it.
    fn state(&self) -> State {
        let is = |(number, (work, seat)): (usize, &(DelayedWork, Arc<Seat>))| {
            let told = seat.told();
            match (told.is_entered, told.is_blocked) {
                _ if told.is_done || self.cancelled.contains(&number) => Is::Done,
                (true, true) => Is::Blocked,
                (true, false) => Is::Computing,
                // Its queue has refused it.
                (false, _) if self.queued.contains(&number) && !work.is_pending() => Is::Done,
                (false, _) if self.late.contains(&number) => Is::Armed,
                (false, _) if self.queued.contains(&number) => Is::Pending,
                (false, _) => Is::Idle,
            }
        };
        let count = |(all, running): (u32, u32), on_board| Workers {
            all: all as usize,
            running: running as usize,
            on_board,
        };
        let mut pools: Vec<_> = if self.script.stage == Stage::Attributes {
            explore::unusual_workers().into_iter().map(|counts| count(counts, [false; 4])).collect()
        } else {
            let of_managed = self.script.stage.watched() != Flag::Percpu;
            let of = |&cpu: &u32| {
                let on_board =
                    if self.script.stage.has_board() { explore::on_board(cpu) } else { [false; 4] };
                count(explore::workers(of_managed, cpu).unwrap_or_default(), on_board)
            };
            self.cpus.iter().map(of).collect()
        };
        if !self.script.stage.knows_whose() {
            pools.sort_unstable();
        }
        State {
            items: self.items.iter().enumerate().map(is).collect(),
            queues: (0..self.queues.len()).map(|queue| self.life(queue)).collect(),
            timers: (0..self.queues.len()).map(|queue| self.nr_timers(queue)).collect(),
            waits: self.waits.iter().map(JoinHandle::is_finished).collect(),
            pools,
        }
    }
}

pub(crate) fn play(seed: u64) {
    let script = Script::new(seed);
    let mut rig = Rig::new(&script);
    for (step, (&order, expected)) in script.orders.iter().zip(&script.states).enumerate() {
        rig.obey(order);
        let begun = Instant::now();
        loop {
            rig.reap();
            let state = rig.state();
            // A timer may expire between the two, and what follows from that is not to be missed.
            if state == *expected && all_others_sleep() && rig.state() == *expected {
                break;
            }
            if begun.elapsed() > PATIENCE {
                complain(&script, step, &state);
            }
            thread::yield_now();
        }
    }
    // Nobody is left waiting, whoever it is.
    for (number, (_, seat)) in rig.items.iter().enumerate() {
        seat.tell(Order::Wake(number));
        seat.tell(Order::Finish(number));
    }
    for wait in rig.waits.into_iter().chain(rig.drops.into_iter().flatten()) {
        wait.join().expect("it is over");
    }
}

fn complain(script: &Script, step: usize, state: &State) -> ! {
    let expected = &script.states[step];
    let mut said = format!("after step {step}, {:?}:", script.orders[step]);
    let pairs = state.items.iter().zip(&expected.items).enumerate();
    for (item, (is, should)) in pairs.filter(|(_, (is, should))| is != should) {
        let _ = write!(said, " item {item} is {is:?}, in the simulator {should:?};");
    }
    if state.queues != expected.queues {
        let _ = write!(said, " queues are {:?}, there {:?};", state.queues, expected.queues);
    }
    if state.timers != expected.timers {
        let _ = write!(said, " timers are {:?}, there {:?};", state.timers, expected.timers);
    }
    if state.waits != expected.waits {
        let _ = write!(said, " waits are {:?}, there {:?};", state.waits, expected.waits);
    }
    eprintln!("{said} the pools' workers are {:?}, there {:?}", state.pools, expected.pools);
    eprintln!("{:?}", script.places);
    for (at, (order, state)) in script.orders.iter().zip(&script.states).enumerate().take(step + 1)
    {
        eprintln!("{at}: {order:?}, then {:?}", state.pools);
    }
    // Items that wait for orders would be waited for.
    std::process::exit(1);
}
