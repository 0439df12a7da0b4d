//! Random plans, against a model that is plainly right ([`model`]).
//!
//! Callers and items queue, delay, time anew, cancel, flush and change limits at random times on
//! queues of all kinds whose items may block. Nothing costs anything, so what the calls mean
//! decides when each item is queued, starts (and on which CPU), ends or is taken back, and when
//! each wait returns: to the nanosecond, and the model says so beforehand. Times are so many that
//! hardly two things happen at one moment; plans in which they do are drawn again.
//!
//! `CMWQ_SEED=N` plays one seed. Of a plan that fails, only the first calls up to the failure are
//! shown.

#[path = "reference/model.rs"]
mod model;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cmwq_sim::event::{Event, Queueing, What};
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::{Config, Nanos, Rng, Scope, simulate};
use model::{Course, Lanes, Step, Waiter};

const PLANS: u64 = 1_000;
const CPUS: u32 = 3;
const NR_CALLS: usize = 60;
const NR_ITEMS: usize = 12;
/// Of one queue at most: from the fifteenth flusher at a time on they share a colour, and then wait
/// for each other's items, too.
const MOST_FLUSHES: usize = 12;
const SECOND: Nanos = 1_000_000_000;

#[test]
#[expect(clippy::print_stderr, reason = "the seed is needed to play it again")]
fn random_plans_do_what_the_model_says() {
    let one = env::var("CMWQ_SEED").ok().map(|seed| seed.parse().expect("CMWQ_SEED is a number"));
    let seeds = one.map_or(0..PLANS, |seed: u64| seed..seed + 1);
    eprintln!("seeds {seeds:?}");
    for seed in seeds {
        let plan = draw(seed);
        if let Err(complaint) = check(&plan) {
            eprintln!("CMWQ_SEED={seed} in short: {:?}", shorten(&plan));
            panic!("CMWQ_SEED={seed} fails: {complaint}");
        }
    }
}

// ---- plans

/// Flags, `max_active`, scope (of unbound queues the machine is one pod, if nothing else is said).
type Kind = (&'static [Flag], u32, Option<Scope>);

const KINDS: [Kind; 7] = [
    (&[Flag::Percpu], 1, None),
    (&[Flag::Percpu], 3, None),
    (&[Flag::Percpu, Flag::Highpri], 2, None),
    (&[Flag::Ordered], 0, None),
    (&[Flag::Unbound], 2, None),
    // Pods that share a limit.
    (&[Flag::Unbound], 2, Some(Scope::Cpu)),
    (&[Flag::Managed], 1, Some(Scope::System)),
];

/// What seed `seed` does.
fn draw(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    loop {
        let plan = any_plan(&mut rng);
        if model::predict(&plan).is_some() {
            return plan;
        }
    }
}

fn any_plan(rng: &mut Rng) -> Plan {
    let queue = |(number, &(flags, max_active, scope)): (usize, &Kind)| QueueSpec {
        name: number.to_string(),
        flags: flags.iter().copied().collect(),
        max_active,
        scope,
    };
    let queues: Vec<_> = KINDS.iter().enumerate().map(queue).collect();
    // Few queues have many items each: each plan is about some of them.
    let few = [(); 3].map(|()| rng.below(KINDS.len() as u64) as usize);
    let items = (0..NR_ITEMS).map(|_| {
        let mut ops = vec![block(rng)];
        for _ in 0..rng.below(3) {
            ops.extend([inner_op(rng), block(rng)]);
        }
        Item { queue: *rng.pick(&few), ops: ops.into(), nr_queueings: rng.below(4) as u32 }
    });
    let items = items.collect();
    let mut nr_flushes = [0; KINDS.len()];
    let mut calls = Vec::new();
    while calls.len() < NR_CALLS {
        let op = outer_op(rng, &few);
        if let Op::FlushQueue(queue) = op {
            nr_flushes[queue] += 1;
            if nr_flushes[queue] > MOST_FLUSHES {
                continue;
            }
        }
        calls.push(Call { at: rng.below(20 * SECOND), op });
    }
    calls.sort_by_key(|call| call.at);
    Plan { queues, items, calls, ..Plan::default() }
}

fn block(rng: &mut Rng) -> Op {
    let ns = rng.between(1, 3 * SECOND);
    if rng.below(2) == 0 { Op::Sleep(ns) } else { Op::Announced(ns) }
}

/// What items do: nothing that waits, because they could wait for each other.
fn inner_op(rng: &mut Rng) -> Op {
    let item = rng.below(NR_ITEMS as u64) as usize;
    let cpu = Some(rng.below(u64::from(CPUS)) as u32);
    let delay = rng.between(1, 2 * SECOND);
    match rng.below(7) {
        0 => Op::Cancel(item),
        1..=2 => Op::QueueDelayed { item, cpu, delay },
        3 => Op::ModDelayed { item, cpu, delay },
        _ => Op::Queue { item, cpu },
    }
}

fn outer_op(rng: &mut Rng, few: &[usize]) -> Op {
    let (item, queue) = (rng.below(NR_ITEMS as u64) as usize, *rng.pick(few));
    match rng.below(20) {
        0 => Op::FlushItem(item),
        1 => Op::FlushDelayed(item),
        2 => Op::CancelSync(item),
        3..=4 => Op::FlushQueue(queue),
        5 if !KINDS[queue].0.contains(&Flag::Ordered) => {
            Op::SetMaxActive { queue, max_active: rng.between(1, 4) as u32 }
        }
        _ => inner_op(rng),
    }
}

// ---- playing them

/// Plays `plan`; what went otherwise than the model says.
fn check(plan: &Plan) -> Result<(), String> {
    let expected = model::predict(plan).ok_or("two things happen at one moment")?;
    let config = Config { keep_events: true, ..Config::exact(CPUS) };
    // The core asserts its invariants.
    let outcome = catch_unwind(AssertUnwindSafe(|| simulate(plan, &config)))
        .map_err(|_| "the core panicked".to_owned())?;
    if let Some(violation) = outcome.violation {
        return Err(violation.to_string());
    }
    let seen = course(plan, &outcome.events);
    same("steps", &seen.steps, &expected.steps)?;
    same("returns", &seen.returns, &expected.returns)
}

/// The first difference.
fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    seen: &[T],
    expected: &[T],
) -> Result<(), String> {
    let all = 0..seen.len().max(expected.len());
    match all.into_iter().find(|&at| seen.get(at) != expected.get(at)) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what}, number {at}: saw {:?}, expected {:?}",
            seen.get(at),
            expected.get(at)
        )),
    }
}

fn course(plan: &Plan, events: &[Event]) -> Course {
    let mut course = Course::default();
    for &Event { t, what } in events {
        let mut step = |what: Queueing, step| course.steps.push((t, what.item, what.ticket, step));
        let has_cpu = |what: Queueing| Lanes::of(plan, what.queue) != Lanes::One;
        match what {
            What::Armed(what, due) => step(what, Step::Armed(due)),
            What::Queued(what, _) => step(what, Step::Queued),
            What::Cancelled(what) => step(what, Step::Cancelled),
            What::Started(what, _, runner) => {
                step(what, Step::Started(has_cpu(what).then_some(runner.cpu)));
            }
            What::Finished(what, _) => step(what, Step::Finished),
            What::WaitEnded(number, _) => course.returns.push((t, Waiter::Item(number))),
            What::FlushEnded(number, _) => course.returns.push((t, Waiter::Queue(number))),
            _ => {}
        }
    }
    course.sort();
    course
}

/// The fewest first calls of `plan` that fail.
fn shorten(plan: &Plan) -> Plan {
    let first = |nr: usize| Plan { calls: plan.calls[..nr].to_vec(), ..plan.clone() };
    let mut all = (0..plan.calls.len()).map(first);
    all.find(|plan| model::predict(plan).is_some() && check(plan).is_err())
        .unwrap_or_else(|| plan.clone())
}
