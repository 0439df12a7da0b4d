//! Scripts: orders, one after the other, and what there must be after each.

use cmwq_sim::plan::Sighting;
use cmwq_sim::{Nanos, Rng};

use crate::simulated::simulated;
use crate::stage::{NR_STAGES, Stage};

const STEPS: usize = 70;
/// Delays that are over within a step, and after the script.
const SOON: Nanos = 1_000_000;
pub(crate) const LATE: Nanos = 3_600_000_000_000;
pub(crate) const NR_ITEMS: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Queue(usize),
    /// It is queued so much later, in nanoseconds.
    Arm(usize, Nanos),
    /// It is queued so much later, wherever it waits.
    Retime(usize, Nanos),
    Cancel(usize),
    Block(usize),
    Wake(usize),
    Finish(usize),
    SetMaxActive(usize, u32),
    /// The queue is led to pools with these attributes.
    SetAttrs(usize, Attributes),
    /// The timers of the queue's items are cancelled; then it lets no more in, and goes when it has
    /// none left, and no timer that was armed since.
    DropQueue(usize),
    /// One that has gone is made again, with its first limit.
    MakeQueue(usize),
    /// A thread of its own waits for the item, and queues it at once if its timer is armed.
    FlushItem(usize),
    /// Likewise, and would take it back if it did not run already.
    CancelSync(usize),
    /// Likewise, for all that is on the queue.
    FlushQueue(usize),
    /// Somebody reports what he has found of an item's worker, and of another item's, if that is
    /// of the same pool: of workers of two pools, woken at once, time would say who is first.
    Report(Sighting, Option<Sighting>),
}

/// Attributes of an unbound or ordered queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// 0: the usual ones. Others are nice levels.
    pub(crate) number: u8,
    /// One pool for all CPUs, and not one for each.
    pub(crate) is_whole: bool,
    /// The only one of the stage's CPUs that the queue may use, if it may not use all.
    pub(crate) only: Option<usize>,
    /// Workers stay in their pod.
    pub(crate) is_strict: bool,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Open,
    Dropping,
    Gone,
}

/// Of a pool that is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Workers {
    pub(crate) all: usize,
    /// Those that count as running, here or as guests of another pool.
    pub(crate) running: usize,
    /// What other pods see on the board: a CPU to spare, now or when its caller waits; a backlog,
    /// or an inbox that may hold one.
    pub(crate) on_board: [bool; 4],
}

/// What there is after a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) items: Vec<Is>,
    pub(crate) queues: Vec<Life>,
    /// By queue, how many timers are armed.
    pub(crate) timers: Vec<u64>,
    /// Of each order to wait, whether that is over.
    pub(crate) waits: Vec<bool>,
    /// By CPU; of unbound ones those that have workers, and attributes of their own.
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
            let Some(order) = any_order(&mut rng, &script) else { break };
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
    // Of a queue that is made again one sees whether its limit is as new.
    let limited = stage.limited_queues();
    let prefers_limited = changes_queues(seed) && !limited.is_empty();
    // Where a pool has items of several CPUs each of these has its turn behind the limit; in the
    // simulator they have one pwq.
    let is_bound = |queue| stage == Stage::Attributes && stage.limited_queues().contains(&queue);
    // Else mostly those of the pools that decide most.
    let often = if prefers_limited { limited } else { vec![0, 1, 2] };
    let mut any = || {
        let is_often = rng.chance(700_000);
        let queue = if is_often { *rng.pick(&often) } else { rng.below(nr_queues) as usize };
        // One CPU has more than the other: help is wanted.
        let is_other = nr_cpus > 1 && rng.chance(300_000);
        let nr_others = if is_other && !is_bound(queue) { nr_cpus } else { 1 };
        let cpu = rng.below(nr_others) as usize;
        Place { queue, cpu }
    };
    (0..NR_ITEMS).map(|_| any()).collect()
}

/// Whether the script has reports. The simulator's checkers take them for what they are, mistakes.
pub(crate) const fn has_reports(seed: u64) -> bool {
    seed / NR_STAGES % 2 == 1
}

/// Whether queues are dropped and made again.
const fn changes_queues(seed: u64) -> bool {
    seed / NR_STAGES / 2 % 2 == 1
}

fn any_order(rng: &mut Rng, script: &Script) -> Option<Order> {
    let begin = || State {
        items: vec![Is::Idle; NR_ITEMS],
        queues: vec![Life::Open; script.stage.queues().len()],
        ..State::default()
    };
    let state = script.states.last().cloned().unwrap_or_else(begin);
    let choice = Choice { script, state };
    (0..1_000).find_map(|_| choice.any(rng))
}

/// What may be ordered next.
struct Choice<'s> {
    script: &'s Script,
    state: State,
}

impl Choice<'_> {
    /// `None`: there is nothing for which this would be an order.
    fn any(&self, rng: &mut Rng) -> Option<Order> {
        let seed = self.script.seed;
        let has_attributes = self.script.stage == Stage::Attributes;
        let kinds = [
            (0..30, true),
            (30..36, changes_queues(seed)),
            (36..42, has_reports(seed)),
            (42..47, has_attributes),
        ];
        let kinds = kinds.into_iter().filter(|(_, may)| *may);
        let kinds: Vec<u64> = kinds.flat_map(|(kinds, _)| kinds).collect();
        Some(match *rng.pick(&kinds) {
            0..=6 => Order::Queue(self.item(rng, Is::Idle)?),
            7 => Order::Cancel(self.item(rng, Is::Pending)?),
            8..=11 => Order::Block(self.item(rng, Is::Computing)?),
            12..=14 => Order::Wake(self.item(rng, Is::Blocked)?),
            15..=18 => Order::Finish(self.item(rng, Is::Computing)?),
            19 => Order::SetMaxActive(self.limited_queue(rng)?, rng.between(1, 4) as u32),
            20 => Order::FlushItem(self.item(rng, Is::Pending)?),
            21 => Order::FlushItem(self.item(rng, Is::Computing)?),
            22 => Order::CancelSync(self.item(rng, Is::Blocked)?),
            23 => Order::FlushQueue(rng.below(self.state.queues.len() as u64) as usize),
            24 => Order::Arm(self.item_to_arm(rng, Is::Idle)?, SOON),
            25 => Order::Arm(self.item_to_arm(rng, Is::Idle)?, LATE),
            26 => Order::Cancel(self.item(rng, Is::Armed)?),
            27 => Order::Retime(self.item_to_arm(rng, Is::Armed)?, *rng.pick(&[0, SOON, LATE])),
            28 => Order::Retime(self.item_to_arm(rng, Is::Pending)?, *rng.pick(&[0, SOON, LATE])),
            29 => Order::FlushItem(self.item(rng, Is::Armed)?),
            30..=31 => Order::DropQueue(self.queue(rng, Life::Open)?),
            32..=35 => Order::MakeQueue(self.queue(rng, Life::Gone)?),
            42..=46 => {
                let attributes = Attributes {
                    number: rng.below(3) as u8,
                    is_whole: rng.chance(500_000),
                    only: rng.chance(300_000).then(|| rng.below(2) as usize),
                    is_strict: rng.chance(200_000),
                };
                Order::SetAttrs(self.queue(rng, Life::Open)?, attributes)
            }
            _ => {
                let one = self.sighting(rng)?;
                let other = if rng.chance(500_000) { self.sighting(rng) } else { None };
                // A look is about each once.
                Order::Report(one, other.filter(|other| other.item != one.item))
            }
        })
    }

    fn item(&self, rng: &mut Rng, is: Is) -> Option<usize> {
        any_of(rng, (0..NR_ITEMS).filter(|&item| self.state.items[item] == is))
    }

    /// One whose queue is there: its timer is armed also while the queue is being dropped, and the
    /// item is refused when that expires.
    fn item_to_arm(&self, rng: &mut Rng, is: Is) -> Option<usize> {
        let life = |item: usize| self.state.queues[self.script.places[item].queue];
        self.item(rng, is).filter(|&item| life(item) != Life::Gone)
    }

    fn queue(&self, rng: &mut Rng, life: Life) -> Option<usize> {
        let queues = self.state.queues.iter().enumerate();
        any_of(rng, queues.filter(|(_, is)| **is == life).map(|(queue, _)| queue))
    }

    fn limited_queue(&self, rng: &mut Rng) -> Option<usize> {
        let limited = self.script.stage.limited_queues().into_iter();
        any_of(rng, limited.filter(|&queue| self.state.queues[queue] == Life::Open))
    }

    /// What somebody takes for true of a worker.
    fn sighting(&self, rng: &mut Rng) -> Option<Sighting> {
        let (of, is_blocked) = match rng.below(6) {
            0..=1 => (Is::Computing, true),
            2 => (Is::Computing, false),
            3 => (Is::Blocked, false),
            4 => (Is::Blocked, true),
            // Of a run that is over; its worker may be in another one.
            _ => (Is::Done, true),
        };
        Some(Sighting { item: self.item(rng, of)?, is_blocked })
    }
}

fn any_of(rng: &mut Rng, those: impl Iterator<Item = usize>) -> Option<usize> {
    let those: Vec<_> = those.collect();
    (!those.is_empty()).then(|| *rng.pick(&those))
}
