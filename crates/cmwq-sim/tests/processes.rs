//! Items that stand for processes. Every expected time is worked out by hand.

use cmwq_sim::event::{Event, What};
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::{Config, Nanos, simulate};

const MS: Nanos = 1_000_000;

/// Items of a queue of one CPU, queued at once.
fn plan(items: &[&[Op]]) -> Plan {
    let queue = QueueSpec {
        name: "commands".to_owned(),
        flags: [Flag::Percpu].into_iter().collect(),
        max_active: 512,
        scope: None,
    };
    let item = |ops: &&[Op]| Item { queue: 0, ops: (*ops).into(), nr_queueings: 0 };
    let call = |item| Call { at: 0, op: Op::Queue { item, cpu: Some(0) } };
    Plan {
        queues: vec![queue],
        items: items.iter().map(item).collect(),
        calls: (0..items.len()).map(call).collect(),
        ..Plan::default()
    }
}

fn play(plan: &Plan) -> Vec<Event> {
    let outcome = simulate(plan, &Config { keep_events: true, ..Config::exact(1) });
    assert_eq!(outcome.violation, None);
    outcome.events
}

#[track_caller]
fn starts(events: &[Event], item: usize, at: Nanos) {
    let is_start = |what| matches!(what, What::Started(what, ..) if what.item == item);
    let start = events.iter().find(|event| is_start(event.what)).expect("it starts");
    assert_eq!(start.t, at, "item {item}");
}

const COMPUTES: &[Op] = &[Op::Process(true), Op::Burn(30 * MS), Op::Process(false)];

/// For however long: that it computes for more than 10 ms does not make room, either.
#[test]
fn while_a_process_computes_no_other_item_starts() {
    let events = play(&plan(&[COMPUTES, COMPUTES, COMPUTES]));
    for item in 0..3 {
        starts(&events, item, item as Nanos * 30 * MS);
    }
}

#[test]
fn while_a_process_waits_the_next_item_starts() {
    let waits = [
        Op::Process(true),
        Op::Burn(MS),
        Op::Sleep(10 * MS),
        Op::Burn(MS),
        Op::Process(false),
        Op::Burn(MS),
    ];
    let short = [Op::Burn(MS)];
    let events = play(&plan(&[&waits, &short, COMPUTES, &short]));
    starts(&events, 1, MS);
    starts(&events, 2, 2 * MS);
    // The first process is back at 11 ms, beside the other one, which has the CPU until 32 ms.
    starts(&events, 3, 34 * MS);
}

/// An item whose own function waits is not held to be running because it had a process before.
#[test]
fn behind_its_process_an_item_is_one_like_others() {
    let ops = [Op::Process(true), Op::Burn(MS), Op::Process(false), Op::Sleep(10 * MS)];
    let events = play(&plan(&[&ops, &[Op::Burn(MS)]]));
    starts(&events, 1, MS);
    let announced = [Op::Process(true), Op::Process(false), Op::Announced(10 * MS)];
    let events = play(&plan(&[&announced, &[Op::Burn(MS)]]));
    starts(&events, 1, 0);
}

/// How often an idle CPU alone was enough to begin an item.
fn unseen(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event.what, What::BeginsOnAlarm(_))).count()
}

/// Computes for so long before it waits.
fn fetches(first: Nanos) -> [Op; 4] {
    [Op::Process(true), Op::Burn(first), Op::Sleep(500 * MS), Op::Process(false)]
}

/// The first four are looked at, and the next three waits are believed. When the last one waits no
/// work does.
#[test]
fn when_processes_wait_soon_an_idle_cpu_is_enough_for_the_next() {
    let events = play(&plan(&[&fetches(MS)[..]; 8]));
    for item in 0..8 {
        starts(&events, item, item as Nanos * MS);
    }
    assert_eq!(unseen(&events), 3);
}

/// 10 ms is not soon. Where nobody looks on the alarm, the tick finds out 1 ms later.
#[test]
fn processes_that_compute_first_are_looked_at() {
    for (first, expected) in [(8 * MS, 3), (10 * MS, 0)] {
        let events = play(&plan(&[&fetches(first)[..]; 8]));
        assert_eq!(unseen(&events), expected, "{first} ns");
    }
}

/// One that ends and was not found waiting: the next three are looked at again.
#[test]
fn a_process_that_never_waits_ends_the_belief() {
    let fetch = &fetches(MS)[..];
    let plan = plan(&[fetch, fetch, fetch, fetch, COMPUTES, fetch, fetch, fetch, fetch]);
    assert_eq!(unseen(&play(&plan)), 0);
}
