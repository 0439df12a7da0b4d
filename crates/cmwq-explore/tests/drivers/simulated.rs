//! A script in the simulator.

use std::collections::{BTreeMap, BTreeSet};

use cmwq_core::help::Set;
use cmwq_sim::config::{Checks, Costs};
use cmwq_sim::event::What;
use cmwq_sim::plan::{Attrs, Call, Item, Op, Plan};
use cmwq_sim::scenario::QueueSpec;
use cmwq_sim::topology::Scope;
use cmwq_sim::{Config, Nanos, simulate};

use crate::script::{Attributes, Is, Life, NR_ITEMS, Order, Script, State, Workers, has_reports};
use crate::stage::Stage;

/// Virtual time of a step: many turns of all items that compute at once.
const STEP: Nanos = 20_000_000;
const SLICE: Nanos = 100_000;

/// When an order is given, in virtual time.
const fn time(step: usize) -> Nanos {
    (step as Nanos + 1) * STEP
}

const fn first_scope(stage: Stage) -> Option<Scope> {
    match stage {
        Stage::Percpu => None,
        Stage::OnePod | Stage::TwoPods | Stage::FourPods => Some(Scope::Cpu),
        Stage::Attributes => Some(Scope::System),
    }
}

/// The script as a plan: the orders to each item are its program.
fn plan(script: &Script) -> Plan {
    let Script { stage, places, orders, .. } = script;
    let spec = |(number, &(flag, max_active))| QueueSpec {
        name: usize::to_string(&number),
        flags: [flag].into_iter().collect(),
        max_active,
        scope: first_scope(*stage),
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
        let mut ops = vec![Op::Burn(stage.computes_first())];
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
        Item { queue: places[number].queue, ops: ops.into(), nr_queueings: 0 }
    };
    let call = |(step, &order): (usize, &Order)| {
        let op = match order {
            Order::Queue(item) => Op::Queue { item, cpu: Some(places[item].cpu as u32) },
            Order::Arm(item, delay) => {
                Op::QueueDelayed { item, cpu: Some(places[item].cpu as u32), delay }
            }
            Order::Retime(item, delay) => {
                Op::ModDelayed { item, cpu: Some(places[item].cpu as u32), delay }
            }
            Order::Cancel(item) => Op::Cancel(item),
            Order::SetMaxActive(queue, max_active) => Op::SetMaxActive { queue, max_active },
            Order::SetAttrs(queue, Attributes { number, is_whole, only, is_strict }) => {
                let scope = if is_whole { Scope::System } else { Scope::Cpu };
                let cpus = only.map(|cpu| (Scope::Cpu, cpu as u32));
                Op::SetAttrs { queue, attrs: Attrs { nice: number, scope, cpus, is_strict } }
            }
            Order::DropQueue(queue) => Op::DropQueue(queue),
            Order::MakeQueue(queue) => Op::MakeQueue(queue),
            Order::FlushItem(item) => Op::FlushDelayed(item),
            Order::CancelSync(item) => Op::CancelSync(item),
            Order::FlushQueue(queue) => Op::FlushQueue(queue),
            Order::Report(one, other) => Op::Report(one, other),
            Order::Block(_) | Order::Wake(_) | Order::Finish(_) => None?,
        };
        Some(Call { at: time(step), op })
    };
    let calls = |(step, order)| {
        let count = Call { at: time(step) + STEP - 1, op: Op::Count };
        call((step, order)).into_iter().chain([count])
    };
    Plan {
        queues: stage.queues().iter().enumerate().map(spec).collect(),
        items: (0..NR_ITEMS).map(item).collect(),
        calls: orders.iter().enumerate().flat_map(calls).collect(),
        ..Plan::default()
    }
}

/// What the simulator comes to after each order.
pub(crate) fn simulated(script: &Script) -> Vec<State> {
    let config = Config {
        costs: Costs { slice: Some(SLICE), ..Costs::default() },
        checks: if has_reports(script.seed) { Checks::Only("reentrance") } else { Checks::All },
        keep_events: true,
        scope: Scope::System,
        ..Config::exact(script.stage.nr_cpus() as u32)
    };
    let outcome = simulate(&plan(script), &config);
    assert_eq!(outcome.violation, None, "{script:?}");

    let mut seen = Seen::new(script);
    let mut events = outcome.events.iter().peekable();
    let after = |step: usize| {
        seen.order = Some(script.orders[step]);
        if script.orders[step].waits() {
            seen.waits.push(Wait::Over);
        }
        while let Some(event) = events.next_if(|event| event.t < time(step) + STEP) {
            seen.take(event.what);
        }
        seen.state()
    };
    (0..script.orders.len()).map(after).collect()
}

/// A wait, by what the simulator calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Over,
    Item(usize),
    Queue(usize),
}

/// What events tell.
struct Seen<'s> {
    script: &'s Script,
    /// What was ordered last, until it waits.
    order: Option<Order>,
    items: Vec<Is>,
    queues: Vec<Life>,
    waits: Vec<Wait>,
    /// How many workers each pool counts as running.
    running: BTreeMap<usize, u32>,
    /// What the board says of each.
    on_board: BTreeMap<usize, [bool; 4]>,
    /// Each worker's own pool.
    homes: BTreeMap<usize, usize>,
    /// The pools with attributes of their own, and how many pwqs lead to each.
    own: BTreeMap<usize, usize>,
    /// The pools of the stage's CPUs, as far as items were queued there.
    pools: Vec<Option<usize>>,
}

impl<'s> Seen<'s> {
    fn new(script: &'s Script) -> Self {
        Self {
            script,
            order: None,
            items: vec![Is::Idle; NR_ITEMS],
            queues: vec![Life::Open; script.stage.queues().len()],
            waits: Vec::new(),
            running: BTreeMap::new(),
            on_board: BTreeMap::new(),
            homes: BTreeMap::new(),
            own: BTreeMap::new(),
            pools: vec![None; script.stage.nr_cpus()],
        }
    }

    fn take(&mut self, what: What) {
        let (item, is) = match what {
            What::Queued(what, site) => {
                let Script { stage, places, .. } = self.script;
                if stage.queues()[what.queue].0 == stage.watched() {
                    self.pools[places[what.item].cpu] = Some(site.pool);
                }
                (what.item, Is::Pending)
            }
            What::Armed(what, _) => (what.item, Is::Armed),
            What::Cancelled(what) | What::Finished(what, _) => (what.item, Is::Done),
            What::Started(what, ..) | What::Woke(what, _) => (what.item, Is::Computing),
            What::Slept(what, _) => (what.item, Is::Blocked),
            What::WorkerMade(pool, worker) => {
                self.homes.insert(worker, pool);
                return;
            }
            What::WorkerLeft(_, worker) => {
                self.homes.remove(&worker);
                return;
            }
            What::Linked(_, pool) => {
                *self.own.entry(pool).or_default() += 1;
                return;
            }
            What::Unlinked(_, pool) => {
                *self.own.entry(pool).or_default() -= 1;
                // It may become a usual one.
                self.own.retain(|_, nr_links| *nr_links > 0);
                return;
            }
            What::Counted(pool, running) => {
                self.running.insert(pool, running);
                self.on_board.remove(&pool);
                return;
            }
            What::OnBoard(pool, set) => {
                let at = Set::SUMMED.into_iter().position(|it| it == set).expect("one of them");
                let has_board = self.script.stage.has_board();
                self.on_board.entry(pool).or_default()[at] = has_board;
                return;
            }
            What::DropBegan(queue) => return self.queues[queue] = Life::Dropping,
            What::QueueGone(queue) => return self.queues[queue] = Life::Gone,
            What::QueueMade(queue) => return self.queues[queue] = Life::Open,
            What::FlushBegan(number, queue) => {
                // Who drops a queue flushes it, too.
                if self.order == Some(Order::FlushQueue(queue)) {
                    self.begins(Wait::Queue(number));
                }
                return;
            }
            What::WaitBegan(number, _) => return self.begins(Wait::Item(number)),
            What::FlushEnded(number, _) => return self.ends(Wait::Queue(number)),
            What::WaitEnded(number, _) => return self.ends(Wait::Item(number)),
            _ => return,
        };
        self.items[item] = is;
    }

    /// The last order is not done at once.
    fn begins(&mut self, wait: Wait) {
        *self.waits.last_mut().expect("it was an order to wait") = wait;
        self.order = None;
    }

    fn ends(&mut self, wait: Wait) {
        self.waits.iter_mut().filter(|it| **it == wait).for_each(|it| *it = Wait::Over);
    }

    /// The pool of a CPU. Where nothing was queued yet it is the one that only helps.
    fn pool(&self, cpu: usize) -> Option<usize> {
        self.pools[cpu].or_else(|| {
            let is_other = |pool: &&usize| !self.pools.contains(&Some(**pool));
            let has_several = self.script.stage == Stage::TwoPods;
            self.homes.values().filter(|_| has_several).find(is_other).copied()
        })
    }

    fn workers(&self, pool: usize) -> Workers {
        Workers {
            all: self.homes.values().filter(|home| **home == pool).count(),
            running: self.running.get(&pool).map_or(0, |running| *running as usize),
            on_board: self.on_board.get(&pool).copied().unwrap_or_default(),
        }
    }

    fn state(&self) -> State {
        let mut pools: Vec<_> = match self.script.stage {
            Stage::Attributes => {
                let all = self.own.keys().map(|&pool| self.workers(pool));
                all.filter(|workers| workers.all > 0).collect()
            }
            Stage::FourPods => {
                let all: BTreeSet<_> = self.homes.values().collect();
                let mut all: Vec<_> = all.into_iter().map(|&pool| self.workers(pool)).collect();
                all.resize(self.pools.len(), Workers::default());
                all
            }
            _ => {
                let of = |cpu| self.pool(cpu).map(|pool| self.workers(pool)).unwrap_or_default();
                (0..self.pools.len()).map(of).collect()
            }
        };
        if !self.script.stage.knows_whose() {
            pools.sort_unstable();
        }
        let waits = self.waits.iter().map(|wait| *wait == Wait::Over).collect();
        let armed = (0..NR_ITEMS).filter(|&item| self.items[item] == Is::Armed);
        let armed: Vec<_> = armed.map(|item| self.script.places[item].queue).collect();
        let count = |queue| armed.iter().filter(|of| **of == queue).count() as u64;
        let timers = (0..self.queues.len()).map(count).collect();
        let (items, queues) = (self.items.clone(), self.queues.clone());
        State { items, queues, timers, waits, pools }
    }
}
