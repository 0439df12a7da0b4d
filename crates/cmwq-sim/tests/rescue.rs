//! Rescuers on virtual time. Every expected time is worked out by hand.

use cmwq_sim::config::{Costs, Faults, Sabotage};
use cmwq_sim::event::{Event, What};
use cmwq_sim::plan::{Attrs, Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, Flags, QueueSpec};
use cmwq_sim::swarm::{Fault, FaultSet, Options};
use cmwq_sim::{Config, Nanos, Outcome, Scope, run_seed, simulate};

const MS: Nanos = 1_000_000;
/// As good as for ever: no plan here lasts as long.
const FOR_EVER: Nanos = 600_000 * MS;

/// From `from` on no thread can be had.
fn outage(cpus: u32, from: Nanos) -> Config {
    let faults = Faults { create_outage: Some((from, FOR_EVER)), ..Faults::default() };
    Config { faults, keep_events: true, ..Config::exact(cpus) }
}

fn queue(name: &str, flags: &[Flag]) -> QueueSpec {
    QueueSpec {
        name: name.into(),
        flags: flags.iter().copied().collect::<Flags>(),
        ..QueueSpec::default()
    }
}

/// A plan whose items are queued in their order: `(queue, cpu, at, ops)`.
fn plan(queues: Vec<QueueSpec>, items: &[(usize, u32, Nanos, &[Op])]) -> Plan {
    let item = |&(queue, _, _, ops): &(usize, u32, Nanos, &[Op])| Item {
        queue,
        ops: ops.into(),
        nr_queueings: 0,
    };
    let call = |(item, &(_, cpu, at, _)): (usize, &(usize, u32, Nanos, &[Op]))| Call {
        at,
        op: Op::Queue { item, cpu: Some(cpu) },
    };
    Plan {
        queues,
        items: items.iter().map(item).collect(),
        calls: items.iter().enumerate().map(call).collect(),
        ..Plan::default()
    }
}

/// When each item started, in their order of starting.
fn starts(outcome: &Outcome) -> Vec<(usize, Nanos)> {
    let started = |event: &Event| match event.what {
        What::Started(what, ..) => Some((what.item, event.t)),
        _ => None,
    };
    outcome.events.iter().filter_map(started).collect()
}

/// The pool never has a worker. Creation is tried when the first item is queued, which is when the
/// 10 ms begin; then one item after the other, those of the other CPU when the first CPU's are
/// done.
#[test]
fn without_a_single_worker_items_run_one_by_one() {
    let nap: &[Op] = &[Op::Sleep(2 * MS)];
    let items = [(0, 0, 0, nap), (0, 1, 0, nap), (0, 0, 0, nap), (0, 1, MS, nap)];
    for kind in [Flag::Percpu, Flag::Unbound, Flag::Managed] {
        let plan = plan(vec![queue("q", &[kind, Flag::MemReclaim])], &items);
        // Unbound and managed pods of one CPU: the same pools as per CPU.
        let config = Config { scope: Scope::Cpu, ..outage(2, 0) };
        let outcome = simulate(&plan, &config);
        assert_eq!(outcome.violation, None, "{kind}");
        let expected = [(0, 10), (2, 12), (1, 14), (3, 16)];
        assert_eq!(starts(&outcome), expected.map(|(item, ms)| (item, ms * MS)), "{kind}");
    }
}

/// One worker and its standby; the standby's standby cannot be had. They block at 0; what comes at
/// 1 is called for at 11. The plain item comes when a worker is free, at 500.
#[test]
fn only_queues_with_a_rescuer_are_helped() {
    let wait: &[Op] = &[Op::Announced(500 * MS)];
    let work: &[Op] = &[Op::Burn(MS)];
    let queues =
        vec![queue("plain", &[Flag::Percpu]), queue("q", &[Flag::Percpu, Flag::MemReclaim])];
    let items =
        [(0, 0, 0, wait), (0, 0, 2, wait), (0, 0, MS, work), (1, 0, MS, work), (1, 0, MS, work)];
    let outcome = simulate(&plan(queues, &items), &outage(1, 1));
    assert_eq!(outcome.violation, None);
    let expected = [(0, 0), (1, 2), (3, 11 * MS), (4, 12 * MS), (2, 500 * MS)];
    assert_eq!(starts(&outcome), expected);
}

/// A rescuer creates no worker, not even if its item queues what needs one. The first attempt fails
/// at 0, so the next one is made at 20, when the pause is over; the rescuer comes at 10.
#[test]
fn a_rescuer_creates_no_worker() {
    let faults = Faults { create_outage: Some((0, 12 * MS)), ..Faults::default() };
    let config = Config { faults, create_cooldown: 20 * MS, keep_events: true, ..Config::exact(1) };
    let queues =
        vec![queue("plain", &[Flag::Percpu]), queue("q", &[Flag::Percpu, Flag::MemReclaim])];
    let ops: &[Op] = &[Op::Burn(3 * MS), Op::Queue { item: 1, cpu: Some(0) }];
    let mut plan = plan(queues, &[(1, 0, 0, ops), (0, 0, 0, &[])]);
    plan.items[0].nr_queueings = 1;
    plan.calls.truncate(1);
    let outcome = simulate(&plan, &config);
    assert_eq!(outcome.violation, None);
    assert_eq!(starts(&outcome), [(0, 10 * MS), (1, 20 * MS)]);
}

/// Work that a rescuer's item leaves where nobody can come is called for as any other: 10 ms later,
/// and not only once the pause after the last failure is over.
#[test]
fn what_a_rescuer_queues_is_called_for_in_time() {
    let ops: &[Op] = &[Op::Burn(300 * MS), Op::Queue { item: 2, cpu: Some(1) }];
    let items = [(0, 1, 0, &[][..]), (0, 0, 0, ops), (0, 1, 0, &[])];
    let mut plan = plan(vec![queue("q", &[Flag::Percpu, Flag::MemReclaim])], &items);
    plan.items[1].nr_queueings = 1;
    plan.calls.truncate(2);
    let config = Config { create_cooldown: 1_000 * MS, ..outage(2, 0) };
    let outcome = simulate(&plan, &config);
    assert_eq!(outcome.violation, None);
    assert_eq!(starts(&outcome), [(0, 10 * MS), (1, 10 * MS), (2, 320 * MS)]);
}

/// Its last item is done at 13 ms. The rescuer tells that, and is back for the lock a while later.
#[test]
fn a_queue_goes_when_its_rescuer_has_left() {
    let ops: &[Op] = &[Op::Burn(3 * MS)];
    let mut plan = plan(vec![queue("q", &[Flag::Percpu, Flag::MemReclaim])], &[(0, 0, 0, ops)]);
    plan.calls.push(Call { at: 11 * MS, op: Op::DropQueue(0) });
    let config = Config { costs: Costs { unlocked: 45_000, ..Costs::default() }, ..outage(1, 0) };
    let outcome = simulate(&plan, &config);
    assert_eq!(outcome.violation, None);
    let when = |is: fn(&What) -> bool| {
        outcome.events.iter().find(|event| is(&event.what)).map(|event| event.t)
    };
    let left = when(|what| matches!(what, What::Relocked(_)));
    assert!(left > Some(13 * MS), "{left:?}");
    assert_eq!(when(|what| matches!(what, What::QueueGone(_))), left);
}

#[test]
fn a_rescuer_that_is_never_called_is_noticed() {
    let plan = plan(vec![queue("q", &[Flag::Percpu, Flag::MemReclaim])], &[(0, 0, 0, &[])]);
    let config = Config { sabotage: Some(Sabotage::NeverRescue), ..outage(1, 0) };
    let violation = simulate(&plan, &config).violation.expect("a complaint");
    assert_eq!((violation.checker, violation.at < 200 * MS), ("rescue", true), "{violation}");
}

/// The queue moves to another pool while its rescuer runs its item. Nobody can remove the old pwq
/// meanwhile, so that is left to the rescuer.
#[test]
fn a_rescuer_that_leaves_a_replaced_pwq_behind_is_noticed() {
    let mut plan = plan(
        vec![queue("q", &[Flag::Unbound, Flag::MemReclaim])],
        &[(0, 0, 0, &[Op::Burn(2 * MS)])],
    );
    let attrs = Attrs { nice: 5, ..Attrs::usual(Scope::Cache) };
    let op = Op::SetAttrs { queue: 0, attrs };
    plan.calls.push(Call { at: 11 * MS, op });
    let run = |sabotage| simulate(&plan, &Config { sabotage, ..outage(1, 0) });
    let honest = run(None);
    assert_eq!((honest.violation, honest.stats.pools), (None, 2));
    let violation = run(Some(Sabotage::LeaveDrained)).violation.expect("a complaint");
    assert_eq!(violation.checker, "core", "{violation}");
}

/// Random plans in which all queues have rescuers, and no thread can ever be had: everything is
/// done all the same.
#[test]
fn rescuers_are_enough() {
    let mut nr_plans = 0;
    for seed in 0..80 {
        let report = run_seed(seed, &Options { items: Some(40), ..Options::default() });
        let (mut plan, mut config) = (report.plan, report.config);
        if plan.queues.iter().any(|queue| queue.flags.has(Flag::Bh)) {
            continue;
        }
        for queue in &mut plan.queues {
            queue.flags = queue.flags.with(Flag::MemReclaim);
        }
        config.faults.create_outage = Some((0, FOR_EVER));
        config.create_cooldown = 1_000 * MS;
        config.keep_events = true;
        let outcome = simulate(&plan, &config);
        assert_eq!(outcome.violation, None, "seed {seed}");
        let finished = |event: &&Event| matches!(event.what, What::Finished(..));
        let end = outcome.events.iter().rfind(finished).map_or(0, |event| event.t);
        // 40 items with a few steps of milliseconds each, most of them queued more than once.
        assert!(end < FOR_EVER / 10, "seed {seed} takes {end} ns");
        nr_plans += 1;
    }
    assert!(nr_plans > 20, "{nr_plans} plans");
}

/// Outages of up to five seconds, some of the queues with rescuers.
#[test]
fn long_outages() {
    let faults = FaultSet::NONE.with(Fault::Outage).with(Fault::Create);
    for seed in 0..300 {
        let report = run_seed(seed, &Options { faults, ..Options::default() });
        assert!(report.violation().is_none(), "{report}");
    }
}
