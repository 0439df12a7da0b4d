//! The two drivers of the core, side by side: the same random scripts of queueings, blocks and
//! wake-ups are played in the simulator, and then on threads by the library, where after each step
//! everything must come to what it was there: which items wait, run or are blocked, and how many
//! workers the pool has.
//!
//! Nothing is left to time. Whatever an item does it was told to do, one thing after the other; a
//! worker blocks where it says so (`cmwq::blocking`), and nobody else looks at it
//! (`CMWQ_DETECT=inline`). So an item that computes may sleep for all that the pool knows, and the
//! core gets the same events in the same order from both drivers.
//!
//! Each script has a process of its own, so that it begins with nothing. `CMWQ_SEED=N` plays one.

#![allow(clippy::print_stderr, reason = "the seed is needed to play it again")]

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Work, Workqueue};
use cmwq_observe::inspect::Target;
use cmwq_sim::config::Costs;
use cmwq_sim::event::What;
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::{Config, Nanos, Rng, simulate};

const SCRIPTS: u64 = 40;
const STEPS: usize = 60;
const NR_ITEMS: usize = 24;
/// Virtual time of a step: many turns of all items that compute at once.
const STEP: Nanos = 10_000_000;
const SLICE: Nanos = 100_000;
const PATIENCE: Duration = Duration::from_secs(60);
/// In a process that is to play one script: its seed.
const CHILD: &str = "CMWQ_DRIVERS_SEED";

/// Queues by flag and `max_active`. The first three share a pool.
const QUEUES: [(Flag, u32); 5] = [
    (Flag::Percpu, 256),
    (Flag::Percpu, 256),
    (Flag::Percpu, 2),
    (Flag::Ordered, 0),
    (Flag::Unbound, 2),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Queue(usize),
    Cancel(usize),
    Block(usize),
    Wake(usize),
    Finish(usize),
    SetMaxActive(usize, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Idle,
    Pending,
    Computing,
    Blocked,
    Done,
}

/// What there is after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    items: Vec<Is>,
    /// Of the pool of the CPU.
    nr_workers: usize,
    /// Those that count as running.
    nr_running: usize,
}

#[test]
fn both_drivers_decide_the_same() {
    if let Ok(seed) = env::var(CHILD) {
        return play(seed.parse().expect("a number"));
    }
    let one = env::var("CMWQ_SEED").ok().map(|seed| seed.parse().expect("CMWQ_SEED is a number"));
    for seed in one.map_or(0..SCRIPTS, |seed: u64| seed..seed + 1) {
        let output = Command::new(env::current_exe().expect("a test has a program"))
            .args(["--exact", "both_drivers_decide_the_same", "--nocapture"])
            .envs([(CHILD, seed.to_string().as_str()), ("CMWQ_DETECT", "inline")])
            .output()
            .expect("a test can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "CMWQ_SEED={seed} fails:\n{said}");
    }
}

// ---- scripts

fn queue_of(seed: u64) -> Vec<usize> {
    let mut rng = Rng::new(seed).fork(1);
    // Mostly of the pool that decides most.
    let mut any = || if rng.chance(700_000) { rng.below(3) } else { rng.below(5) } as usize;
    (0..NR_ITEMS).map(|_| any()).collect()
}

/// A script, and what the simulator comes to after each step.
fn script(seed: u64) -> (Vec<Order>, Vec<State>) {
    let (mut rng, queues) = (Rng::new(seed), queue_of(seed));
    let mut orders = Vec::new();
    let mut states = Vec::new();
    while orders.len() < STEPS {
        let items =
            states.last().map_or(vec![Is::Idle; NR_ITEMS], |state: &State| state.items.clone());
        let Some(order) = any_order(&mut rng, &items) else { break };
        orders.push(order);
        let all = simulated(&orders, &queues);
        // What is told later does not change what was before.
        assert_eq!(all[..states.len()], states[..], "seed {seed}: {orders:?}");
        states = all;
    }
    (orders, states)
}

fn any_order(rng: &mut Rng, items: &[Is]) -> Option<Order> {
    let those = |is: Is| (0..NR_ITEMS).filter(|&item| items[item] == is).collect::<Vec<_>>();
    for _ in 0..1_000 {
        let (of, order): (_, fn(usize) -> Order) = match rng.below(20) {
            0..=6 => (Is::Idle, Order::Queue),
            7 => (Is::Pending, Order::Cancel),
            8..=11 => (Is::Computing, Order::Block),
            12..=14 => (Is::Blocked, Order::Wake),
            15..=18 => (Is::Computing, Order::Finish),
            _ => {
                let queue = *rng.pick(&[2, 4]);
                return Some(Order::SetMaxActive(queue, rng.between(1, 4) as u32));
            }
        };
        let those = those(of);
        if !those.is_empty() {
            return Some(order(*rng.pick(&those)));
        }
    }
    None
}

// ---- in the simulator

/// When an order is given, in virtual time.
const fn time(step: usize) -> Nanos {
    (step as Nanos + 1) * STEP
}

/// The orders as a plan: each item's are its program.
fn plan(orders: &[Order], queues: &[usize]) -> Plan {
    let spec = |(number, &(flag, max_active)): (usize, &(Flag, u32))| QueueSpec {
        name: number.to_string(),
        flags: [flag].into_iter().collect(),
        max_active,
        scope: None,
    };
    let end = time(orders.len());
    let item = |number| {
        let own = orders.iter().enumerate().filter_map(|(step, &order)| match order {
            Order::Block(item) | Order::Wake(item) | Order::Finish(item) if item == number => {
                Some((time(step), order))
            }
            _ => None,
        });
        let own: Vec<_> = own.collect();
        let mut ops = Vec::new();
        for (at, &(told, order)) in own.iter().enumerate() {
            match order {
                Order::Block(_) => {
                    let until = own.get(at + 1).map_or(end, |&(woken, _)| woken);
                    ops.extend([Op::BurnUntil(told), Op::Announced(until - told)]);
                }
                Order::Finish(_) => ops.push(Op::BurnUntil(told)),
                _ => {}
            }
        }
        if !matches!(own.last(), Some((_, Order::Finish(_)))) {
            ops.push(Op::BurnUntil(end));
        }
        Item { queue: queues[number], ops: ops.into(), nr_queueings: 0 }
    };
    let call = |(step, &order): (usize, &Order)| {
        let op = match order {
            Order::Queue(item) => Op::Queue { item, cpu: Some(0) },
            Order::Cancel(item) => Op::Cancel(item),
            Order::SetMaxActive(queue, max_active) => Op::SetMaxActive { queue, max_active },
            _ => return None,
        };
        Some(Call { at: time(step), op })
    };
    Plan {
        queues: QUEUES.iter().enumerate().map(spec).collect(),
        items: (0..NR_ITEMS).map(item).collect(),
        calls: orders.iter().enumerate().filter_map(call).collect(),
        ..Plan::default()
    }
}

/// What the simulator comes to after each order.
fn simulated(orders: &[Order], queues: &[usize]) -> Vec<State> {
    let config = Config {
        costs: Costs { slice: Some(SLICE), ..Costs::default() },
        keep_events: true,
        ..Config::exact(1)
    };
    let outcome = simulate(&plan(orders, queues), &config);
    assert_eq!(outcome.violation, None, "{orders:?}");

    let mut state = State { items: vec![Is::Idle; NR_ITEMS], nr_workers: 0, nr_running: 0 };
    let mut events = outcome.events.iter().peekable();
    let mut pool = None;
    let after = |step: usize| {
        while let Some(event) = events.next_if(|event| event.t < time(step) + STEP) {
            let (item, is) = match event.what {
                What::Queued(what, site) => {
                    if QUEUES[what.queue].0 == Flag::Percpu {
                        pool = Some(site.pool);
                    }
                    (what.item, Is::Pending)
                }
                What::Cancelled(what) | What::Finished(what, _) => (what.item, Is::Done),
                What::Started(what, ..) | What::Woke(what, _) => (what.item, Is::Computing),
                What::Slept(what, _) => (what.item, Is::Blocked),
                What::WorkerMade(at, _) if pool == Some(at) => {
                    state.nr_workers += 1;
                    continue;
                }
                _ => continue,
            };
            state.items[item] = is;
        }
        let is_running = |&item: &usize| {
            state.items[item] == Is::Computing && QUEUES[queues[item]].0 == Flag::Percpu
        };
        state.nr_running = (0..NR_ITEMS).filter(is_running).count();
        state.clone()
    };
    (0..orders.len()).map(after).collect()
}

// ---- on threads

#[derive(Debug, Default)]
struct Told {
    orders: Vec<Order>,
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
    fn run(&self) {
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

struct Rig {
    target: Target,
    cpu: u32,
    queues: Vec<Workqueue>,
    items: Vec<(Work, Arc<Seat>)>,
    queued: BTreeSet<usize>,
    cancelled: BTreeSet<usize>,
}

fn first_cpu() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let first = list.expect("the kernel says so").trim().split([',', '-']).next();
    first.expect("not empty").parse().expect("a number")
}

impl Rig {
    fn new() -> Self {
        let queue = |(flag, max_active)| {
            let builder = Workqueue::builder("drivers");
            let builder = match flag {
                Flag::Percpu => builder.percpu().max_active(max_active),
                Flag::Ordered => builder.ordered(),
                _ => builder.unbound().max_active(max_active),
            };
            builder.build().expect("a queue")
        };
        let item = |_| {
            let seat = Arc::new(Seat::default());
            let theirs = Arc::clone(&seat);
            (Work::new(move || theirs.run()), seat)
        };
        let queues = QUEUES.into_iter().map(queue).collect();
        Self {
            target: Target::open(std::process::id()).expect("a process may look at itself"),
            cpu: first_cpu(),
            queues,
            items: (0..NR_ITEMS).map(item).collect(),
            queued: BTreeSet::new(),
            cancelled: BTreeSet::new(),
        }
    }

    fn obey(&mut self, order: Order, queue_of: &[usize]) {
        match order {
            Order::Queue(item) => {
                let queue = &self.queues[queue_of[item]];
                assert!(queue.queue_work_on(self.cpu, &self.items[item].0), "{order:?}");
                self.queued.insert(item);
            }
            Order::Cancel(item) => {
                assert!(self.items[item].0.cancel(), "{order:?}");
                self.cancelled.insert(item);
            }
            Order::SetMaxActive(queue, most) => {
                self.queues[queue].set_max_active(most).expect("it has a limit");
            }
            Order::Block(item) | Order::Wake(item) | Order::Finish(item) => {
                self.items[item].1.tell(order);
            }
        }
    }

    /// Without any pool's lock: who takes that lists what has come by the inbox, and then an item
    /// that has to wait for its limit is overtaken by those behind it.
    fn state(&self) -> State {
        let is = |(number, (_, seat)): (usize, &(Work, Arc<Seat>))| {
            let told = seat.told();
            match (told.is_entered, told.is_blocked) {
                _ if told.is_done || self.cancelled.contains(&number) => Is::Done,
                (true, true) => Is::Blocked,
                (true, false) => Is::Computing,
                (false, _) if self.queued.contains(&number) => Is::Pending,
                (false, _) => Is::Idle,
            }
        };
        let items: Vec<_> = self.items.iter().enumerate().map(is).collect();
        let is_its = |pool: &&cmwq_observe::inspect::Pool| {
            let is_percpu = pool.kind == cmwq_observe::inspect::PoolKind::Cpu;
            is_percpu && pool.cpu == Some(self.cpu) && pool.nice == 0
        };
        let snapshot = self.target.snapshot().expect("of this process");
        let pool = snapshot.pools.iter().find(is_its);
        State {
            items,
            nr_workers: pool.map_or(0, |pool| pool.nr_workers as usize),
            nr_running: pool.map_or(0, |pool| pool.nr_running as usize),
        }
    }
}

fn play(seed: u64) {
    let (orders, states) = script(seed);
    let (mut rig, queue_of) = (Rig::new(), queue_of(seed));
    for (step, (&order, expected)) in orders.iter().zip(&states).enumerate() {
        rig.obey(order, &queue_of);
        let begun = Instant::now();
        loop {
            let state = rig.state();
            if state == *expected {
                break;
            }
            if begun.elapsed() > PATIENCE {
                let mut said = format!("after step {step}, {order:?}:");
                let pairs = state.items.iter().zip(&expected.items).enumerate();
                for (item, (is, should)) in pairs.filter(|(_, (is, should))| is != should) {
                    let _ = write!(said, " item {item} is {is:?}, in the simulator {should:?};");
                }
                let workers = |state: &State| (state.nr_running, state.nr_workers);
                let (is, should) = (workers(&state), workers(expected));
                eprintln!("{said} workers (that run, all) are {is:?}, there {should:?}");
                eprintln!("queues {queue_of:?}, script {orders:?}");
                // Items that wait for orders would be waited for.
                std::process::exit(1);
            }
            thread::yield_now();
        }
    }
    // Nobody is left waiting, whoever it is.
    for (number, (_, seat)) in rig.items.iter().enumerate() {
        seat.tell(Order::Wake(number));
        seat.tell(Order::Finish(number));
    }
}
