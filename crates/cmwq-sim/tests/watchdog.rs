//! The stall watchdog in virtual time: when it speaks is worked out by hand, and a checker that
//! knows nothing of it agrees.

use cmwq_sim::config::{Checks, Sabotage};
use cmwq_sim::event::What;
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::swarm::{FaultSet, Options};
use cmwq_sim::{Config, Nanos, Outcome, run_seed, simulate};

const MS: Nanos = 1_000_000;
const SEEDS: u64 = 200;

/// One CPU and its queue; each item burns for so many ms, all are queued at 0.
fn burn(items: &[u64], config: &Config) -> Outcome {
    burn_on(Flag::Percpu, items, 0, config)
}

/// The same, where no more than `max_active` may be in execution.
fn burn_limited(items: &[u64], max_active: u32, config: &Config) -> Outcome {
    burn_on(Flag::Percpu, items, max_active, config)
}

fn burn_on(kind: Flag, items: &[u64], max_active: u32, config: &Config) -> Outcome {
    let queue = QueueSpec {
        name: "q".into(),
        flags: [kind].into_iter().collect(),
        max_active,
        ..QueueSpec::default()
    };
    let item =
        |&ms: &u64| Item { queue: 0, ops: vec![Op::Burn(ms * MS)].into(), ..Item::default() };
    let call = |item| Call { at: 0, op: Op::Queue { item, cpu: Some(0) } };
    let plan = Plan {
        queues: vec![queue],
        items: items.iter().map(item).collect(),
        calls: (0..items.len()).map(call).collect(),
        ..Plan::default()
    };
    simulate(&plan, config)
}

fn config(thresh_ms: u64) -> Config {
    Config { watchdog: Some(thresh_ms * MS), keep_events: true, ..Config::exact(1) }
}

/// When it said something, and for how long nothing had happened then, in ms.
fn said(outcome: &Outcome) -> Vec<(u64, u64)> {
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    let stalled = |event: &cmwq_sim::event::Event| match event.what {
        What::Stalled(_, time) | What::QueueStalled(_, time) => Some((event.t / MS, time / MS)),
        _ => None,
    };
    outcome.events.iter().filter_map(stalled).collect()
}

#[test]
fn a_hog_with_work_behind_it_is_reported_once_per_threshold() {
    // It looks at 10, 20, …; from 10 on nothing changes until 125.
    assert_eq!(said(&burn(&[125, 1], &config(40))), [(50, 40), (90, 80)]);
}

/// Nothing waits for a worker, since the second item waits for the first one's slot.
#[test]
fn a_hog_that_has_the_only_slot_is_reported_likewise() {
    let outcome = burn_limited(&[125, 1], 1, &config(40));
    assert_eq!(said(&outcome), [(50, 40), (90, 80)]);
    let of_pools = outcome.events.iter().filter(|event| matches!(event.what, What::Stalled(..)));
    assert_eq!(of_pools.count(), 0);
}

/// It looks at queues with items that wait for a slot; but these have none on purpose.
#[test]
fn a_frozen_queue_is_not_reported() {
    for kind in [Flag::Percpu, Flag::Unbound] {
        let flags = [kind].into_iter().collect();
        let queue = QueueSpec { name: "q".into(), flags, ..QueueSpec::default() };
        let set_frozen = |is_frozen| Op::SetFrozen { queue: 0, is_frozen };
        let plan = Plan {
            queues: vec![queue],
            items: vec![Item { queue: 0, ops: [Op::Burn(MS)].into(), ..Item::default() }],
            calls: vec![
                Call { at: 0, op: set_frozen(true) },
                Call { at: 0, op: Op::Queue { item: 0, cpu: Some(0) } },
                Call { at: 200 * MS, op: set_frozen(false) },
            ],
            ..Plan::default()
        };
        let outcome = simulate(&plan, &config(40));
        assert_eq!(said(&outcome), [], "{kind}");
        let started = |event: &&cmwq_sim::event::Event| matches!(event.what, What::Started(..));
        let started = outcome.events.iter().find(started).expect("it is thawed");
        assert_eq!(started.t, 200 * MS);
    }
}

/// One item waits for the other, which waits for the first one's next run. That is behind the
/// limit, and taken back at 125 ms: so the circle ends.
#[test]
fn items_that_wait_for_each_other_are_reported_while_they_do() {
    let queue = QueueSpec {
        name: "q".into(),
        flags: [Flag::Percpu].into_iter().collect(),
        max_active: 2,
        ..QueueSpec::default()
    };
    let item = |ops: &[Op], nr_queueings| Item { queue: 0, ops: ops.into(), nr_queueings };
    let of_item = |item| Op::Queue { item, cpu: Some(0) };
    let plan = Plan {
        queues: vec![queue],
        items: vec![
            item(&[Op::Burn(MS), of_item(0), Op::FlushItem(1)], 1),
            item(&[Op::FlushItem(0)], 0),
        ],
        calls: vec![
            Call { at: 0, op: of_item(0) },
            Call { at: 0, op: of_item(1) },
            Call { at: 125 * MS, op: Op::Cancel(0) },
        ],
        ..Plan::default()
    };
    let outcome = simulate(&plan, &config(40));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    let told = outcome.events.iter().filter_map(|event| match event.what {
        What::CircleStalled(item, time) => Some((event.t / MS, item, time / MS)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(50, 0, 40), (90, 0, 80)]);
}

/// An item flushes the other queue at 1 ms. There another one sleeps until 125 ms, and one that was
/// queued at `at` waits for the next run of the first one, which is taken back at 120 ms.
fn who_flushes_what_was_queued(at: Nanos) -> Vec<(u64, usize, u64)> {
    let queue = |name: &str| QueueSpec {
        name: name.into(),
        flags: [Flag::Percpu].into_iter().collect(),
        max_active: if name == "own" { 1 } else { 8 },
        ..QueueSpec::default()
    };
    let item = |queue, ops: &[Op]| Item { queue, ops: ops.into(), nr_queueings: 1 };
    let of_item = |item| Op::Queue { item, cpu: Some(0) };
    let call = |at, op| Call { at, op };
    let mut plan = Plan {
        queues: vec![queue("own"), queue("flushed")],
        items: vec![
            item(0, &[Op::Burn(MS), of_item(0), Op::FlushQueue(1)]),
            item(1, &[Op::Burn(2 * MS), Op::FlushItem(0)]),
            item(1, &[Op::Sleep(125 * MS)]),
        ],
        calls: vec![call(0, of_item(2)), call(0, of_item(0)), call(120 * MS, Op::Cancel(0))],
        ..Plan::default()
    };
    plan.calls.push(call(at, of_item(1)));
    plan.calls.sort_by_key(|call| call.at);
    let outcome = simulate(&plan, &config(40));
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    let flushed = outcome.events.iter().any(|event| matches!(event.what, What::FlushEnded(..)));
    assert!(flushed, "the run ends");
    let told = outcome.events.iter().filter_map(|event| match event.what {
        What::CircleStalled(item, time) => Some((event.t / MS, item, time / MS)),
        _ => None,
    });
    told.collect()
}

/// A flush waits for what was queued before it, so that who was queued later may wait for it.
#[test]
fn who_waits_for_a_flush_that_does_not_wait_for_it_is_not_reported() {
    assert_eq!(who_flushes_what_was_queued(0), [(50, 0, 40), (90, 0, 80)]);
    assert_eq!(who_flushes_what_was_queued(2 * MS), []);
}

#[test]
fn items_that_start_in_time_are_not_reported() {
    assert_eq!(said(&burn(&[39, 39, 39, 39, 39, 39], &config(40))), []);
}

#[test]
fn a_hog_that_keeps_nobody_waiting_is_not_reported() {
    assert_eq!(said(&burn(&[1_000], &config(40))), []);
}

/// Random loads, with and without faults.
#[test]
fn the_checker_agrees_with_the_watchdog() {
    let mut nr_said = 0;
    // In the last two a barrier is passed, and a slot handed on, while work waits behind.
    for seed in (0..SEEDS).chain([1_763, 698]) {
        let faults = if seed % 2 == 0 { FaultSet::NONE } else { FaultSet::ALL };
        let honest = run_seed(seed, &Options { faults, ..Options::default() });
        let thresh = Some(2 * MS);
        let config = Config { watchdog: thresh, keep_events: true, ..honest.config.clone() };
        let outcome = simulate(&honest.plan, &config);
        assert!(outcome.violation.is_none(), "seed {seed}: {:?}", outcome.violation);
        nr_said += said(&outcome).len();
    }
    assert!(nr_said > 100, "only {nr_said} stalls in {SEEDS} seeds: they test nothing");
}

/// What is said by the checker where a hog of a queue is in the way and the watchdog is so blind.
fn complaint(sabotage: Sabotage, kind: Flag, max_active: u32) -> Option<String> {
    let checks = Checks::Only("watchdog");
    let blind = Config { sabotage: Some(sabotage), checks, ..config(40) };
    let outcome = burn_on(kind, &[125, 1], max_active, &blind);
    outcome.violation.map(|violation| violation.message)
}

#[test]
fn a_blind_watchdog_is_noticed() {
    for kind in [Flag::Percpu, Flag::Managed] {
        let said = complaint(Sabotage::BlindWatchdog, kind, 0).expect("it complains");
        assert!(said.starts_with("work waits at pool 0"), "{kind}: {said}");
    }
}

#[test]
fn a_watchdog_that_does_not_look_at_pods_is_noticed() {
    assert_eq!(complaint(Sabotage::BlindToPods, Flag::Percpu, 0), None);
    let said = complaint(Sabotage::BlindToPods, Flag::Managed, 0).expect("it complains");
    assert!(said.starts_with("work waits at pool 0"), "{said}");
}

#[test]
fn a_watchdog_that_does_not_look_at_queues_is_noticed() {
    assert_eq!(complaint(Sabotage::BlindToQueues, Flag::Percpu, 0), None);
    for kind in [Flag::Percpu, Flag::Unbound, Flag::Managed] {
        let said = complaint(Sabotage::BlindToQueues, kind, 1).expect("it complains");
        assert!(said.starts_with("queue 0 is at its limit"), "{kind}: {said}");
    }
}
