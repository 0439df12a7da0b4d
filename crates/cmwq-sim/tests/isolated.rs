//! Isolated CPUs: managed queues use them only for items that are queued for them.

use cmwq_sim::config::{Config, Detect, TickRole};
use cmwq_sim::event::What;
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, Flags, QueueSpec};
use cmwq_sim::{Outcome, simulate};

const MS: u64 = 1_000_000;

/// Four CPUs, of which the first are isolated; long items of managed queues, of so long each, which
/// are queued at these times, some of them for a CPU.
fn run(config: Config, items: &[(u64, Option<u32>)]) -> Outcome {
    let burn = [Op::Burn(MS)];
    let item = || Item { queue: 0, ops: burn.as_slice().into(), nr_queueings: 1 };
    let call =
        |(item, &(at, cpu)): (usize, &(u64, Option<u32>))| Call { at, op: Op::Queue { item, cpu } };
    let plan = Plan {
        queues: vec![QueueSpec { flags: Flags::NONE.with(Flag::Managed), ..QueueSpec::default() }],
        items: items.iter().map(|_| item()).collect(),
        calls: items.iter().enumerate().map(call).collect(),
        ..Plan::default()
    };
    let detect = Detect { tick: Some(TickRole::Behind), ..Detect::default() };
    let config = Config { has_long_items: true, keep_events: true, detect, ..config };
    let outcome = simulate(&plan, &config);
    assert_eq!(outcome.violation, None);
    outcome
}

/// How many items started on each CPU, if one comes whenever so much time has passed.
fn started(every: u64) -> [usize; 4] {
    let config = Config { isolated: 2, ..Config::exact(4) };
    let items: Vec<_> = (0..100).map(|n| (n * every, None)).collect();
    let outcome = run(config, &items);
    [0, 1, 2, 3].map(|cpu| {
        let is_there = |what: &What| matches!(what, What::Started(_, _, by) if by.cpu == cpu);
        outcome.events.iter().filter(|event| is_there(&event.what)).count()
    })
}

/// A thread that computes on an isolated CPU takes no other one: its items go to the CPU that
/// stands in for its own, and are shared with others only if they are too many.
#[test]
fn who_computes_on_an_isolated_cpu_leaves_the_others_alone() {
    assert_eq!(started(2 * MS), [0, 0, 100, 0]);
    assert_eq!(started(MS / 2), [0, 0, 50, 50]);
}

/// Pods of one cache have one backlog for items of those who wait; that of a pod which is apart is
/// only for items that are queued there.
#[test]
fn nobody_joins_the_backlog_of_an_isolated_cpu() {
    let config = Config { isolated: 1, callers_wait: true, ..Config::exact(4) };
    let named = (0..20).map(|_| (0, Some(0)));
    let others = (0..100).map(|n| (1 + n, None));
    run(config, &named.chain(others).collect::<Vec<_>>());
}
