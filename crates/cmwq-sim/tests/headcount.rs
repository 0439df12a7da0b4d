//! A limit of how many workers the process has, on virtual time.

use cmwq_sim::event::What;
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, Flags, QueueSpec};
use cmwq_sim::{Config, Nanos, Outcome, simulate};

const MS: Nanos = 1_000_000;

fn queue(name: &str, flags: &[Flag]) -> QueueSpec {
    QueueSpec {
        name: name.into(),
        flags: flags.iter().copied().collect::<Flags>(),
        ..QueueSpec::default()
    }
}

/// Items in the order in which they are queued: `(queue, at, ops)`.
fn plan(queues: Vec<QueueSpec>, items: &[(usize, Nanos, Vec<Op>)]) -> Plan {
    let item = |(queue, _, ops): &(usize, Nanos, Vec<Op>)| Item {
        queue: *queue,
        ops: ops.as_slice().into(),
        nr_queueings: 0,
    };
    let call = |(item, (_, at, _)): (usize, &(usize, Nanos, Vec<Op>))| Call {
        at: *at,
        op: Op::Queue { item, cpu: Some(0) },
    };
    Plan {
        queues,
        items: items.iter().map(item).collect(),
        calls: items.iter().enumerate().map(call).collect(),
        ..Plan::default()
    }
}

/// The most workers that there were at a time, and how many items ended.
fn counts(outcome: &Outcome) -> (i32, usize) {
    assert!(outcome.violation.is_none(), "{:?}", outcome.violation);
    let (mut now, mut most, mut ended) = (0, 0, 0);
    for event in &outcome.events {
        match event.what {
            What::WorkerMade(..) => now += 1,
            What::WorkerLeft(..) => now -= 1,
            What::Finished(..) => ended += 1,
            _ => {}
        }
        most = most.max(now);
    }
    (most, ended)
}

fn config(cpus: u32, max_workers: Option<u32>) -> Config {
    Config { max_workers, keep_events: true, ..Config::exact(cpus) }
}

/// Three queues of sleepers: without a limit a worker for each, with one as many as there may be,
/// and all end.
#[test]
fn sleepers_have_no_more_workers_than_there_may_be() {
    let queues = || ["a", "b", "c"].map(|name| queue(name, &[Flag::Unbound])).to_vec();
    let items: Vec<_> = (0..300).map(|n| (n % 3, 0, vec![Op::Sleep(20 * MS)])).collect();
    let run = |max| counts(&simulate(&plan(queues(), &items), &config(2, max)));
    let (most, ended) = run(None);
    assert!(most >= 300, "{most}");
    assert_eq!(ended, 300);
    for max in [1, 4, 16, 100] {
        let (most, ended) = run(Some(max));
        assert_eq!(ended, 300);
        // The three queues share the pool.
        assert_eq!(most, i32::try_from(max).unwrap());
    }
}

/// The pools of two CPUs, one after the other: the first yields what it does not use.
#[test]
fn idle_workers_are_yielded() {
    others_get_what_is_idle(&config(1, Some(8)), 9);
}

/// The same where not the process, but the system has no more threads.
#[test]
fn idle_workers_are_yielded_where_threads_are_short() {
    let mut config = config(1, None);
    config.faults.max_threads = Some(8);
    others_get_what_is_idle(&config, 8);
}

fn others_get_what_is_idle(config: &Config, max: i32) {
    let sleepers = |queue, at| (0..8).map(move |_| (queue, at, vec![Op::Sleep(50 * MS)]));
    let items: Vec<_> = sleepers(0, 0).chain(sleepers(1, 1_000 * MS)).collect();
    let queues = vec![queue("first", &[Flag::Unbound]), queue("second", &[Flag::Percpu])];
    let outcome = simulate(&plan(queues, &items), config);
    let (most, ended) = counts(&outcome);
    assert_eq!(ended, 16);
    assert!(most <= max, "{most}");
    // Of the second pool's seven others each came when it asked again, every 10 ms.
    let finished = outcome.events.iter().rev().find(|e| matches!(e.what, What::Finished(..)));
    let last = finished.map_or(0, |event| event.t);
    assert!(last < 1_400 * MS, "{last}");
}

/// As many pools as threads have one each, and another one gets work: whoever rests yields its
/// last.
#[test]
fn a_pool_without_a_worker_gets_the_last_one_of_another() {
    let mut config = config(1, None);
    config.faults.max_threads = Some(1);
    let queues = vec![queue("first", &[Flag::Percpu]), queue("second", &[Flag::Unbound])];
    let items: Vec<_> = (0..6).map(|n| (n % 2, n as Nanos * 50 * MS, vec![Op::Burn(MS)])).collect();
    let outcome = simulate(&plan(queues, &items), &config);
    assert_eq!(counts(&outcome), (1, 6));
    let last = outcome.events.iter().rev().find(|e| matches!(e.what, What::Finished(..)));
    let last = last.map_or(0, |event| event.t);
    assert!(last < 300 * MS, "each has its turn when it asks again: {last}");
}

/// Everybody sleeps for long, and may have no help: the rescuer runs what it is there for.
#[test]
fn rescuers_go_on() {
    let mut items = vec![(0, 0, vec![Op::Sleep(60_000 * MS)]); 4];
    items.push((1, MS, vec![Op::Burn(MS)]));
    let queues = vec![
        queue("sleepers", &[Flag::Unbound]),
        queue("rescued", &[Flag::Unbound, Flag::MemReclaim]),
    ];
    let outcome = simulate(&plan(queues, &items), &config(1, Some(2)));
    let (_, ended) = counts(&outcome);
    assert_eq!(ended, 5);
    let at = |item: usize| {
        let is_it = |what: &What| matches!(what, What::Finished(it, ..) if it.item == item);
        outcome.events.iter().find(|event| is_it(&event.what)).map(|event| event.t)
    };
    assert!(at(4).unwrap() < 1_000 * MS, "{:?}", at(4));
}
