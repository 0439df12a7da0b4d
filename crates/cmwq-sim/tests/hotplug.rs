//! What CPUs that leave and come back do to a run. Every expected time is worked out by hand.

use cmwq_sim::config::{Detect, TickRole};
use cmwq_sim::event::{Event, What};
use cmwq_sim::plan::{Attrs, Call, Item, Op, Owner, Plan};
use cmwq_sim::scenario::{Flag, Flags, QueueSpec};
use cmwq_sim::{Config, Nanos, Scope, Shape, simulate};

const MS: Nanos = 1_000_000;

/// `nr` items that do `op`, queued on `cpu` at `at`, on a queue of this kind; and other calls.
fn plan(queue: QueueSpec, nr: usize, op: Op, cpu: u32, at: Nanos, others: &[(Nanos, Op)]) -> Plan {
    let items = (0..nr).map(|_| Item { ops: [op].into(), ..Item::default() }).collect();
    let queued = (0..nr).map(|item| Call { at, op: Op::Queue { item, cpu: Some(cpu) } });
    let others = others.iter().map(|&(at, op)| Call { at, op });
    let mut calls: Vec<_> = queued.chain(others).collect();
    calls.sort_by_key(|call| call.at);
    Plan { queues: vec![queue], items, calls, ..Plan::default() }
}

fn queue(flag: Flag, max_active: u32) -> QueueSpec {
    let flags = Flags::NONE.with(flag);
    QueueSpec { name: "q".into(), flags, max_active, scope: Some(Scope::Cpu) }
}

/// `(when, which item, on which CPU)` of every start.
#[track_caller]
fn starts(plan: &Plan, shape: &str) -> Vec<(Nanos, usize, u32)> {
    starts_with(plan, shape, true)
}

/// The same, where pods help each other or not.
#[track_caller]
fn starts_with(plan: &Plan, shape: &str, lending: bool) -> Vec<(Nanos, usize, u32)> {
    let shape: Shape = shape.parse().expect("a topology");
    let detect = Detect { tick: Some(TickRole::Alone), ..Detect::default() };
    let config = Config { shape, detect, lending, keep_events: true, ..Config::exact(1) };
    let outcome = simulate(plan, &config);
    assert_eq!(outcome.violation, None);
    let start = |event: &Event| match event.what {
        What::Started(what, _, runner) => Some((event.t, what.item, runner.cpu)),
        _ => None,
    };
    outcome.events.iter().filter_map(start).collect()
}

/// CPU 1 leaves in the middle of its first item, which goes on on CPU 0. The pool is disassociated,
/// so another worker starts the second item at once, on CPU 2, and a third one waits for CPU 0
/// until the first item is done at 10. When CPU 1 is back at 12, both return to it; they need it
/// until 15 and 23, and only then the last item may start, on CPU 1.
#[test]
fn items_of_a_gone_cpu_run_elsewhere_until_it_is_back() {
    let away = [(5 * MS, Op::Offline(1)), (12 * MS, Op::Online(1))];
    let plan = plan(queue(Flag::Percpu, 0), 4, Op::Burn(10 * MS), 1, 0, &away);
    let expected = [(0, 0, 1), (5 * MS, 1, 2), (10 * MS, 2, 0), (23 * MS, 3, 1)];
    assert_eq!(starts(&plan, "1x3x1"), expected);
}

/// A managed pod without CPUs runs what it has elsewhere, one after the other. CPU 0 is back at 15,
/// in the middle of the second item, which returns to it and ends at 20.
#[test]
fn managed_items_of_a_gone_cpu_run_elsewhere_one_at_a_time() {
    let away = [(MS, Op::Offline(0)), (15 * MS, Op::Online(0))];
    let plan = plan(queue(Flag::Managed, 0), 3, Op::Burn(10 * MS), 0, 0, &away);
    let expected = [(0, 0, 0), (10 * MS, 1, 1), (20 * MS, 2, 0)];
    assert_eq!(starts_with(&plan, "1x2x1", false), expected);
}

/// What is queued for CPU 0 on a managed queue after that CPU has gone is CPU 1's, also when CPU 0
/// is back: the pods do not help each other here.
#[test]
fn another_cpu_stands_in_for_one_that_has_gone() {
    let away = [(0, Op::Offline(0)), (15 * MS, Op::Online(0))];
    let plan = plan(queue(Flag::Managed, 0), 3, Op::Burn(10 * MS), 0, MS, &away);
    let expected = [(MS, 0, 1), (11 * MS, 1, 1), (21 * MS, 2, 1)];
    assert_eq!(starts_with(&plan, "1x2x1", false), expected);
}

/// Of 20, a node with 4 of 8 CPUs may run 10; with 4 of 5 it may run 16.
#[test]
fn limits_follow_the_cpus() {
    let away: Vec<_> = (5..8).map(|cpu| (MS, Op::Offline(cpu))).collect();
    let plan = plan(queue(Flag::Unbound, 20), 15, Op::Sleep(10 * MS), 0, 0, &away);
    let starts = starts(&plan, "2x4x1");
    let at = |ms| starts.iter().filter(|(t, ..)| *t == ms * MS).count();
    assert_eq!((at(0), at(1)), (10, 5));
}

/// Of 20, the node of CPU 4 may run 10 as long as it has CPUs, and 8 without: the least that there
/// is. But then the queue's items go to the pool of all its CPUs, which lie in the other node.
#[test]
fn a_pod_without_cpus_serves_no_unbound_queue() {
    let at_once = |away: &[(Nanos, Op)]| {
        let plan = plan(queue(Flag::Unbound, 20), 15, Op::Sleep(10 * MS), 4, MS, away);
        starts(&plan, "2x4x1").iter().filter(|(t, ..)| *t == MS).count()
    };
    let away: Vec<_> = (4..8).map(|cpu| (0, Op::Offline(cpu))).collect();
    assert_eq!(at_once(&away), 15);
    let back: Vec<_> = (4..8).map(|cpu| (MS / 2, Op::Online(cpu))).collect();
    assert_eq!(at_once(&[away, back].concat()), 10);
}

/// 10 of 20 items for CPU 0 sleep when the other node's CPUs leave. Then the node may run all 20
/// that the queue may, also of those for CPUs that have gone, and not 20 more.
#[test]
fn a_node_that_is_left_alone_has_the_whole_limit_once() {
    for cpu in [0, 4] {
        let cache = QueueSpec { scope: Some(Scope::Cache), ..queue(Flag::Unbound, 20) };
        let away = (4..8).map(|cpu| (MS, Op::Offline(cpu)));
        let more = (20..40).map(|item| (2 * MS, Op::Queue { item, cpu: Some(cpu) }));
        let mut plan =
            plan(cache, 20, Op::Sleep(10 * MS), 0, 0, &away.chain(more).collect::<Vec<_>>());
        plan.items.extend_from_within(..);
        let starts = starts(&plan, "2x4x1");
        let by = |ms| starts.iter().filter(|(t, ..)| *t <= ms * MS).count();
        assert_eq!((by(0), by(1), by(9)), (10, 20, 20), "items for CPU {cpu}");
    }
}

/// By item, the pool at which it was queued.
fn pools(plan: &Plan, shape: &str) -> Vec<usize> {
    let shape: Shape = shape.parse().expect("a topology");
    let config = Config { shape, keep_events: true, ..Config::exact(1) };
    let outcome = simulate(plan, &config);
    assert_eq!(outcome.violation, None);
    let mut pools = vec![usize::MAX; plan.items.len()];
    for event in outcome.events {
        if let What::Queued(what, site) = event.what {
            pools[what.item] = site.pool;
        }
    }
    pools
}

/// A cache of 12 cores has two shards, of 11 one: the cores are counted that are there. A CPU that
/// has gone is in none, so its items have all CPUs, which are the same here.
#[test]
fn shards_are_cut_of_the_cpus_that_are_there() {
    let shards = QueueSpec { scope: Some(Scope::CacheShard), ..queue(Flag::Unbound, 0) };
    // Two at each of these times, for CPUs 0 and 6, and one for the CPU that leaves.
    let cpus = [0, 6, 3];
    let items = (0..9).map(|_| Item { ops: [Op::Burn(MS / 10)].into(), ..Item::default() });
    let queued = (0..9).map(|item| {
        let at = [MS, 3 * MS, 5 * MS][item / 3];
        Call { at, op: Op::Queue { item, cpu: Some(cpus[item % 3]) } }
    });
    let away = [(2 * MS, Op::Offline(3)), (4 * MS, Op::Online(3))];
    let mut calls: Vec<_> = queued.chain(away.map(|(at, op)| Call { at, op })).collect();
    calls.sort_by_key(|call| call.at);
    let plan = Plan { queues: vec![shards], items: items.collect(), calls, ..Plan::default() };
    let at = pools(&plan, "1x12x1");
    assert!(at[0] != at[1] && at[2] == at[0], "two shards: {at:?}");
    assert!(at[3] == at[4] && at[5] == at[3] && !at[..3].contains(&at[3]), "one: {at:?}");
    assert_eq!(at[6..], at[..3], "as before");
}

/// With 19 of 20 cores in a cache there are two shards, and neither was one of the three.
#[test]
fn a_shard_may_be_another_one_than_all_that_were() {
    let shards = QueueSpec { scope: Some(Scope::CacheShard), ..queue(Flag::Unbound, 0) };
    let cpus = [0, 10, 11, 19];
    let queued = |at, from: usize| {
        let call = move |(n, cpu): (usize, &u32)| Call {
            at,
            op: Op::Queue { item: from + n, cpu: Some(*cpu) },
        };
        cpus.iter().enumerate().map(call).collect::<Vec<_>>()
    };
    let leaves = vec![Call { at: 2 * MS, op: Op::Offline(3) }];
    let calls = [queued(MS, 0), leaves, queued(3 * MS, 4)].concat();
    let item = || Item { ops: [Op::Burn(MS / 10)].into(), ..Item::default() };
    let items = (0..8).map(|_| item()).collect();
    let plan = Plan { queues: vec![shards], items, calls, ..Plan::default() };
    let at = pools(&plan, "1x20x1");
    assert!(at[1] == at[2] && at[0] != at[1] && at[2] != at[3], "0-6, 7-13, 14-19: {at:?}");
    assert!(at[4] == at[5] && at[6] == at[7] && at[5] != at[6], "0-10, 11-19: {at:?}");
    assert!(at[4..].iter().all(|pool| !at[..4].contains(pool)), "{at:?}");
}

/// Pods that are cut anew are those of queues without attributes of their own, so their pools stay
/// when the last queue goes, with their workers.
#[test]
fn pools_of_usual_pods_that_are_cut_anew_stay() {
    let shards = QueueSpec { scope: Some(Scope::CacheShard), ..queue(Flag::Unbound, 0) };
    let item = || Item { ops: [Op::Burn(MS / 10)].into(), ..Item::default() };
    let owner = |scope| {
        let attrs = Op::SetAttrs { queue: 0, attrs: Attrs::usual(scope) };
        let queued = [0, 19].map(|cpu| Op::Queue { item: cpu as usize / 19, cpu: Some(cpu) });
        let ops = [&[Op::Offline(3), attrs], &queued[..], &[Op::Sleep(MS), Op::DropQueue(0)]];
        Owner { at: 0, ops: ops.concat() }
    };
    let nr_gone = |scope| {
        let plan = Plan {
            queues: vec![shards.clone()],
            items: vec![item(), item()],
            owners: vec![owner(scope)],
            ..Plan::default()
        };
        let shape = "1x20x1".parse().expect("a topology");
        let config = Config { shape, keep_events: true, ..Config::exact(1) };
        let outcome = simulate(&plan, &config);
        assert_eq!(outcome.violation, None);
        let gone = |event: &&Event| matches!(event.what, What::WorkerLeft(..)) && event.t < 2 * MS;
        outcome.events.iter().filter(gone).count()
    };
    assert_eq!(nr_gone(Scope::CacheShard), 0);
    assert!(nr_gone(Scope::Smt) > 0, "no usual ones");
}

/// What was queued first stays where it is, until it has run.
#[test]
fn an_ordered_queue_that_is_led_elsewhere_stays_ordered() {
    let ordered = QueueSpec { scope: None, ..queue(Flag::Ordered, 1) };
    let attrs = Attrs { cpus: Some((Scope::Cpu, 1)), ..Attrs::usual(Scope::Cpu) };
    let others = [
        (0, Op::SetAttrs { queue: 0, attrs }),
        (2 * MS, Op::Offline(1)),
        (3 * MS, Op::Queue { item: 0, cpu: None }),
        (14 * MS, Op::Online(1)),
        (15 * MS, Op::Queue { item: 1, cpu: None }),
    ];
    let mut plan = plan(ordered, 3, Op::Burn(5 * MS), 0, MS, &others);
    plan.items[0].ops = [Op::Burn(MS)].into();
    let runs: Vec<_> = starts(&plan, "1x2x1").iter().map(|&(t, item, _)| (t / MS, item)).collect();
    assert_eq!(runs, [(1, 0), (2, 1), (7, 2), (12, 0), (15, 1)]);
}

#[test]
fn the_last_cpu_stays() {
    let away = [(0, Op::Offline(1)), (0, Op::Offline(0)), (0, Op::Offline(1))];
    let plan = plan(queue(Flag::Percpu, 0), 1, Op::Burn(MS), 1, MS, &away);
    assert_eq!(starts(&plan, "1x2x1"), [(MS, 0, 0)]);
}
