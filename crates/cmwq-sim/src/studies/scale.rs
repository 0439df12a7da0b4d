//! Large runs: many CPUs, queues and items, every kind of queue, every affinity scope, a hotplug
//! storm, all checkers. For finding out how cost grows.
//!
//! Unlike the random runs of [`swarm`](crate::swarm) all sizes have the same mix, so they compare:
//! half of the queues are per CPU, a fifth managed, the others unbound, ordered and bottom halves;
//! unbound and managed ones have the scopes in turn. As in a real system a queue is used from a few
//! CPUs, up to four, and one in a hundred from all. Items burn up to 60 µs and sleep as long, some
//! announce it; one in eight queues itself again, one in twenty comes with a delay; some are taken
//! back, and now and then a queue is flushed. Items come at such a rate that two thirds of the
//! machine compute.

use std::sync::Arc;

use crate::Nanos;
use cmwq_core::place::QueueKind;

use crate::config::{Config, Hotplug};
use crate::plan::{Call, Item, Op, Plan};
use crate::rng::Rng;
use crate::scenario::{Flag, Flags, QueueSpec};
use crate::topology::{Scope, Shape};

const US: Nanos = 1_000;

/// How large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The virtual machine.
    pub shape: Shape,
    /// Queues.
    pub queues: usize,
    /// Items; each is queued once by a call, and some again by themselves.
    pub items: usize,
}

/// The conditions of a large run: nothing goes wrong, but switches, new threads and reports of
/// blocking take their time, and CPUs leave and come back, an eighth of them at once at most.
#[must_use]
pub fn config(seed: u64, size: Size) -> Config {
    let at_most = (size.shape.cpus() / 8).max(1);
    let hotplug = Hotplug { gap: 500 * US, away: 2_000 * US, at_most };
    Config { seed, shape: size.shape, hotplug: Some(hotplug), ..super::round_costs() }
}

/// What items do; many share a program.
struct Programs {
    list: Vec<(Arc<[Op]>, u32)>,
    /// On average they compute for so long.
    mean_burn: Nanos,
}

const NR_PROGRAMS: usize = 64;
const BURN: Nanos = 60 * US;

fn programs(rng: &mut Rng, may_sleep: bool) -> Programs {
    let mut total = 0;
    let mut program = |n: usize| {
        let mut ops = vec![Op::Burn(rng.between(1, BURN))];
        let pause = rng.between(1, BURN);
        if may_sleep && rng.chance(500_000) {
            ops.push(if rng.chance(300_000) { Op::Announced(pause) } else { Op::Sleep(pause) });
            ops.push(Op::Burn(rng.between(1, BURN / 4)));
        }
        total += ops.iter().map(|op| if let Op::Burn(ns) = op { *ns } else { 0 }).sum::<Nanos>();
        (ops.into(), u32::from(n.is_multiple_of(8)))
    };
    let list = (0..NR_PROGRAMS).map(&mut program).collect();
    Programs { list, mean_burn: total / NR_PROGRAMS as u64 }
}

fn queue(number: usize, scope: Option<Scope>) -> QueueSpec {
    let kind = match number % 20 {
        0..10 => Flag::Percpu,
        10..14 => Flag::Managed,
        14..17 => Flag::Unbound,
        17..19 => Flag::Ordered,
        _ => Flag::Bh,
    };
    let in_turn = Scope::ALL[(number / 20) % Scope::ALL.len()].0;
    let has_pods = matches!(kind, Flag::Managed | Flag::Unbound);
    let mut flags = Flags::NONE.with(kind);
    if number % 10 == 9 {
        flags = flags.with(Flag::Highpri);
    }
    let max_active = if has_pods && number.is_multiple_of(3) { 16 } else { 0 };
    let takes = |it: &Scope| kind != Flag::Managed || QueueKind::Managed.takes_scope(it.in_core());
    let scope = Some(scope.unwrap_or(in_turn)).filter(|it| has_pods && takes(it));
    QueueSpec { name: format!("q{number}"), flags, max_active, scope }
}

/// From where a queue is used.
fn cpu_for(rng: &mut Rng, queue: usize, cpus: u32) -> Option<u32> {
    let any = rng.below(u64::from(cpus)) as u32;
    if queue.is_multiple_of(100) {
        return Some(any);
    }
    let mut own = Rng::new(queue as u64 + 1);
    let (first, nr) = (own.below(u64::from(cpus)), own.between(1, 4));
    Some(((first + rng.below(nr)) % u64::from(cpus)) as u32)
}

/// A large load. `scope`: that of all unbound queues, and of managed ones if they can have it;
/// `None`: they have each in turn.
#[must_use]
pub fn plan(seed: u64, size: Size, scope: Option<Scope>) -> Plan {
    let mut rng = Rng::new(seed).fork(10);
    let cpus = size.shape.cpus();
    let queues: Vec<_> = (0..size.queues.max(1)).map(|number| queue(number, scope)).collect();
    let (usual, bh) = (programs(&mut rng, true), programs(&mut rng, false));
    let mut items = Vec::with_capacity(size.items);
    let mut calls = Vec::with_capacity(size.items + size.items / 50);
    // Two thirds of the machine, counting the eighth that comes twice.
    let gap = usual.mean_burn * 9 / 8 * 3 / 2;
    let mut at_ps = 0;
    for item in 0..size.items {
        let queue = rng.below(queues.len() as u64) as usize;
        let programs = if queues[queue].flags.has(Flag::Bh) { &bh } else { &usual };
        let (ops, again) = rng.pick(&programs.list).clone();
        let cpu = cpu_for(&mut rng, queue, cpus);
        let ops = if again > 0 { with_requeue(&ops, item) } else { ops };
        items.push(Item { queue, ops, nr_queueings: again });
        at_ps += rng.below(2 * gap * 1_000 / u64::from(cpus) + 1);
        let at = at_ps / 1_000;
        let delay = rng.between(1, 2_000 * US);
        calls.push(Call {
            at,
            op: if rng.chance(50_000) {
                Op::QueueDelayed { item, cpu, delay }
            } else {
                Op::Queue { item, cpu }
            },
        });
        if rng.chance(10_000) {
            let earlier = rng.below(item as u64 + 1) as usize;
            calls.push(Call { at, op: Op::Cancel(earlier) });
        }
        if rng.chance(1_000) {
            calls.push(Call { at, op: Op::FlushQueue(queue) });
        }
    }
    Plan { queues, items, calls, ..Plan::default() }
}

fn with_requeue(ops: &[Op], item: usize) -> Arc<[Op]> {
    ops.iter().copied().chain([Op::Queue { item, cpu: None }]).collect()
}

/// A plan in which each of so many per-CPU queues is used once from every CPU: for what that takes
/// in memory.
#[must_use]
pub fn touch_everything(shape: Shape, queues: usize) -> Plan {
    let spec = |n| QueueSpec {
        name: format!("q{n}"),
        flags: Flags::NONE.with(Flag::Percpu),
        ..QueueSpec::default()
    };
    let mut plan = Plan { queues: (0..queues).map(spec).collect(), ..Plan::default() };
    for queue in 0..queues {
        for cpu in 0..shape.cpus() {
            let item = plan.items.len();
            plan.items.push(Item { queue, ..Item::default() });
            plan.calls.push(Call { at: 0, op: Op::Queue { item, cpu: Some(cpu) } });
        }
    }
    plan
}
