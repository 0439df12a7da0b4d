//! Scripts: orders, one after the other, and what there must be after each.

use cmwq_sim::plan::Sighting;
use cmwq_sim::{Nanos, Rng};

use crate::simulated::simulated;
use crate::stage::Stage;

const STEPS: usize = 60;
/// Delays that are over within a step, and after the script.
const SOON: Nanos = 1_000_000;
pub(crate) const LATE: Nanos = 3_600_000_000_000;
pub(crate) const NR_ITEMS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Queue(usize),
    /// It is queued so much later, in nanoseconds.
    Arm(usize, Nanos),
    Cancel(usize),
    Block(usize),
    Wake(usize),
    Finish(usize),
    SetMaxActive(usize, u32),
    /// A thread of its own waits for the item.
    FlushItem(usize),
    /// Likewise, and would take it back if it did not run already.
    CancelSync(usize),
    /// Likewise, for all that is on the queue.
    FlushQueue(usize),
    /// Somebody reports what he has found of an item's worker, and of another item's, if that is
    /// of the same pool: of workers of two pools, woken at once, time would say who is first.
    Report(Sighting, Option<Sighting>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    Idle,
    /// Its timer runs.
    Armed,
    Pending,
    Computing,
    Blocked,
    Done,
}

/// Of a pool that is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workers {
    pub(crate) all: usize,
    /// Those that count as running, here or as guests of another pool.
    pub(crate) running: usize,
}

/// What there is after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) items: Vec<Is>,
    /// By queue, how many timers are armed.
    pub(crate) timers: Vec<u64>,
    /// Of each order to wait, whether that is over.
    pub(crate) waits: Vec<bool>,
    /// By CPU.
    pub(crate) pools: Vec<Workers>,
}

/// Where an item is queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) queue: usize,
    /// Which of the stage's CPUs.
    pub(crate) cpu: usize,
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) stage: Stage,
    pub(crate) places: Vec<Place>,
    pub(crate) orders: Vec<Order>,
    /// What the simulator comes to after each of them.
    pub(crate) states: Vec<State>,
}

impl Order {
    pub(crate) const fn waits(self) -> bool {
        matches!(self, Self::FlushItem(_) | Self::CancelSync(_) | Self::FlushQueue(_))
    }
}

impl Script {
    pub(crate) fn new(seed: u64) -> Self {
        let (mut rng, stage) = (Rng::new(seed), Stage::of(seed));
        let (orders, states) = (Vec::new(), Vec::new());
        let mut script = Self { seed, stage, places: places(seed, stage), orders, states };
        while script.orders.len() < STEPS {
            let items = script.states.last().map_or(vec![Is::Idle; NR_ITEMS], |s| s.items.clone());
            let Some(order) = any_order(&mut rng, seed, &items) else { break };
            script.orders.push(order);
            let all = simulated(&script);
            // What is told later does not change what was before.
            assert_eq!(all[..script.states.len()], script.states[..], "seed {seed}: {script:?}");
            script.states = all;
        }
        script
    }
}

fn places(seed: u64, stage: Stage) -> Vec<Place> {
    let mut rng = Rng::new(seed).fork(1);
    let (nr_queues, nr_cpus) = (stage.queues().len() as u64, stage.nr_cpus() as u64);
    let mut any = || {
        // Mostly of the pools that decide most.
        let queue = if rng.chance(700_000) { rng.below(3) } else { rng.below(nr_queues) };
        // One CPU has more than the other: help is wanted.
        let cpu = if nr_cpus > 1 && rng.chance(300_000) { 1 } else { 0 };
        Place { queue: queue as usize, cpu }
    };
    (0..NR_ITEMS).map(|_| any()).collect()
}

/// Whether the script has reports. The simulator's checkers take them for what they are, mistakes.
pub(crate) const fn has_reports(seed: u64) -> bool {
    seed / 4 % 2 == 1
}

fn any_order(rng: &mut Rng, seed: u64, items: &[Is]) -> Option<Order> {
    let stage = Stage::of(seed);
    let those = |is: Is| (0..NR_ITEMS).filter(|&item| items[item] == is).collect::<Vec<_>>();
    let limited = stage.queues().iter().enumerate().filter(|(_, queue)| queue.1 == 2);
    let limited: Vec<_> = limited.map(|(number, _)| number).collect();
    let found = |rng: &mut Rng| {
        let (of, is_blocked) = match rng.below(6) {
            0..=1 => (Is::Computing, true),
            2 => (Is::Computing, false),
            3 => (Is::Blocked, false),
            4 => (Is::Blocked, true),
            // Of a run that is over; its worker may be in another one.
            _ => (Is::Done, true),
        };
        let those = those(of);
        (!those.is_empty()).then(|| Sighting { item: *rng.pick(&those), is_blocked })
    };
    for _ in 0..1_000 {
        let (of, order): (_, fn(usize) -> Order) =
            match rng.below(if has_reports(seed) { 33 } else { 27 }) {
                0..=6 => (Is::Idle, Order::Queue),
                7 => (Is::Pending, Order::Cancel),
                8..=11 => (Is::Computing, Order::Block),
                12..=14 => (Is::Blocked, Order::Wake),
                15..=18 => (Is::Computing, Order::Finish),
                20 => (Is::Pending, Order::FlushItem),
                21 => (Is::Computing, Order::FlushItem),
                22 => (Is::Blocked, Order::CancelSync),
                23 => {
                    return Some(
                        Order::FlushQueue(rng.below(stage.queues().len() as u64) as usize),
                    );
                }
                24 => (Is::Idle, |item| Order::Arm(item, SOON)),
                25 => (Is::Idle, |item| Order::Arm(item, LATE)),
                26 => (Is::Armed, Order::Cancel),
                27..=32 => {
                    let Some(one) = found(rng) else { continue };
                    let other = if rng.chance(500_000) { found(rng) } else { None };
                    // A look is about each once.
                    let other = other.filter(|other| other.item != one.item);
                    return Some(Order::Report(one, other));
                }
                _ if limited.is_empty() => continue,
                _ => {
                    let queue = *rng.pick(&limited);
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
