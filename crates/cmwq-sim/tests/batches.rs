//! Items that come around a pool's lock, and that a worker takes along: nobody notices, but for
//! what they cost. Every expected time is worked out by hand.

use std::sync::Arc;

use cmwq_sim::config::{Costs, Detect, TickRole};
use cmwq_sim::event::{Event, What};
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::swarm::Options;
use cmwq_sim::topology::Scope;
use cmwq_sim::{Config, Nanos, Outcome, run_seed, simulate};

const US: Nanos = 1_000;
const SECOND: Nanos = 1_000_000_000;
const NR_ITEMS: usize = 200;

/// Items of 1 µs, queued at once on one CPU, of which one sleeps for a second instead. The first
/// half is of queue 0, the others of queue 1.
fn burst(sleeper: usize, later: Option<Op>) -> Plan {
    let queue = |name: &str| QueueSpec {
        name: name.to_owned(),
        flags: [Flag::Percpu].into_iter().collect(),
        max_active: 512,
        scope: None,
    };
    let item = |number| Item {
        queue: usize::from(number >= NR_ITEMS / 2),
        ops: [if number == sleeper { Op::Sleep(SECOND) } else { Op::Burn(US) }].into(),
        nr_queueings: 0,
    };
    let mut calls: Vec<_> = (0..NR_ITEMS).map(|item| call(0, item, 0)).collect();
    calls.extend(later.map(|op| Call { at: 3 * US + US / 2, op }));
    Plan {
        queues: vec![queue("first"), queue("second")],
        items: (0..NR_ITEMS).map(item).collect(),
        calls,
        ..Plan::default()
    }
}

/// Queue 0 is managed, with a pod for each CPU.
fn with_pods(mut plan: Plan) -> Plan {
    let queue = &mut plan.queues[0];
    (queue.flags, queue.scope) = ([Flag::Managed].into_iter().collect(), Some(Scope::Cpu));
    plan
}

fn item(ops: &[Op]) -> Item {
    Item { ops: ops.into(), ..Item::default() }
}

fn call(at: Nanos, item: usize, cpu: u32) -> Call {
    Call { at, op: Op::Queue { item, cpu: Some(cpu) } }
}

/// On two CPUs.
#[track_caller]
fn play_on_pods(plan: &Plan, detect: Detect) -> Outcome {
    let outcome = simulate(plan, &Config { detect, keep_events: true, ..Config::exact(2) });
    assert_eq!(outcome.violation, None);
    outcome
}

#[track_caller]
fn play(plan: &Plan) -> Outcome {
    let outcome = simulate(plan, &Config { keep_events: true, ..Config::exact(1) });
    assert_eq!(outcome.violation, None);
    // All but the first ones, which find the pool with something to decide.
    assert!(outcome.stats.pushed > NR_ITEMS as u64 / 2, "{:?}", outcome.stats);
    outcome
}

fn time_of(events: &[Event], is_it: impl Fn(&What) -> bool) -> Nanos {
    events.iter().find(|event| is_it(&event.what)).expect("it happens").t
}

#[test]
fn items_that_are_taken_along_start_in_turn() {
    let outcome = play(&burst(usize::MAX, None));
    assert!(outcome.stats.taken_along > NR_ITEMS as u64 / 4, "{:?}", outcome.stats);
    for number in 0..NR_ITEMS {
        let start = |what: &What| matches!(what, What::Started(what, ..) if what.item == number);
        assert_eq!(time_of(&outcome.events, start), number as Nanos * US, "item {number}");
    }
}

/// Wherever in a batch it is: those behind it start as soon as it sleeps.
#[test]
fn an_item_that_blocks_holds_nobody_up_behind_it() {
    let mut taken_along = 0;
    for sleeper in 4..NR_ITEMS - 1 {
        let outcome = play(&burst(sleeper, None));
        taken_along += outcome.stats.taken_along;
        let next =
            |what: &What| matches!(what, What::Started(what, ..) if what.item == sleeper + 1);
        let slept = |what: &What| matches!(what, What::Slept(what, _) if what.item == sleeper);
        let at = sleeper as Nanos * US;
        assert_eq!(time_of(&outcome.events, slept), at, "item {sleeper}");
        assert_eq!(time_of(&outcome.events, next), at, "behind item {sleeper}");
    }
    assert!(taken_along > NR_ITEMS as u64, "{taken_along}");
}

/// Nor does a wait for an item behind it take longer than that item.
#[test]
fn an_item_behind_one_that_blocks_is_waited_for_alone() {
    for sleeper in 4..NR_ITEMS - 1 {
        let outcome = play(&burst(sleeper, Some(Op::FlushItem(NR_ITEMS - 1))));
        let waited = |what: &What| matches!(what, What::WaitEnded(..));
        let all_but_one = (NR_ITEMS as Nanos - 1) * US;
        assert_eq!(time_of(&outcome.events, waited), all_but_one, "item {sleeper}");
    }
}

/// The flushed queue's items are behind those of another one, of which one sleeps.
#[test]
fn a_flush_does_not_wait_for_a_blocked_batch_of_another_queue() {
    for sleeper in 4..NR_ITEMS / 2 {
        let outcome = play(&burst(sleeper, Some(Op::FlushQueue(1))));
        let flushed = |what: &What| matches!(what, What::FlushEnded(..));
        let all_but_one = (NR_ITEMS as Nanos - 1) * US;
        assert_eq!(time_of(&outcome.events, flushed), all_but_one, "item {sleeper}");
    }
}

/// An item queues the others, and computes until it is a hog. The worker that begins these first
/// creates a standby, which lists none of them.
#[test]
fn items_are_taken_along_behind_a_creation() {
    let mut plan = burst(usize::MAX, None);
    let queue = |item| Op::Queue { item, cpu: Some(0) };
    plan.items[0].ops = (1..NR_ITEMS / 2).map(queue).chain([Op::Burn(SECOND / 50)]).collect();
    plan.items[0].nr_queueings = NR_ITEMS as u32;
    plan.calls.truncate(1);
    let costs = Costs { slice: Some(1_000 * US), ..Costs::default() };
    let detect = Detect { tick: Some(TickRole::Alone), ..Detect::default() };
    let config = Config { costs, detect, keep_events: true, ..Config::exact(1) };
    let outcome = simulate(&plan, &config);
    assert_eq!(outcome.violation, None);
    let is_made = |what: &What| matches!(what, What::WorkerMade(..));
    let made = outcome.events.iter().filter(|event| is_made(&event.what));
    assert!(made.filter(|event| event.t > 0).count() > 0, "nobody was created for the hog");
    assert!(outcome.stats.taken_along > 20, "{:?}", outcome.stats);
}

/// Every other queuer that finds the pool saturated loses its CPU for a while: by the time that its
/// item is in the inbox, the worker has long gone idle, and is woken.
#[test]
fn items_that_are_pushed_late_run() {
    let costs = Costs { push: SECOND / 100, ..Costs::default() };
    let config = Config { costs, keep_events: true, ..Config::exact(1) };
    let outcome = simulate(&burst(usize::MAX, None), &config);
    assert_eq!(outcome.violation, None);
    assert!(outcome.stats.pushed > NR_ITEMS as u64 / 2, "{:?}", outcome.stats);
    let is_queued = |event: &&Event| matches!(event.what, What::Queued(..));
    let late = outcome.events.iter().filter(is_queued).filter(|event| event.t > SECOND / 1_000);
    assert!(late.count() > NR_ITEMS / 4, "queuers are not late");
}

/// A long item of a managed queue, on one of two CPUs, and behind it short ones, of which one
/// sleeps. The other CPU's worker comes to help.
fn beside_a_long_item(sleeper: usize) -> Outcome {
    let mut plan = with_pods(burst(sleeper, None));
    plan.items.truncate(NR_ITEMS / 2);
    plan.calls.truncate(NR_ITEMS / 2);
    plan.items[0].ops = [Op::Burn(SECOND / 20)].into();
    let short: Arc<[Op]> = [Op::Burn(US / 2)].into();
    for (number, item) in plan.items.iter_mut().enumerate().skip(1) {
        if number != sleeper {
            item.ops = Arc::clone(&short);
        }
    }
    play_on_pods(&plan, Detect { tick: Some(TickRole::Alone), ..Detect::default() })
}

/// It finds them short, but stays, since nobody else runs them.
#[test]
fn a_helper_takes_short_items_along_whose_own_worker_is_busy() {
    let outcome = beside_a_long_item(usize::MAX);
    assert!(outcome.stats.taken_along > NR_ITEMS as u64 / 4, "{:?}", outcome.stats);
    for number in 1..NR_ITEMS / 2 {
        let start = |what: &What| matches!(what, What::Started(what, ..) if what.item == number);
        assert_eq!(time_of(&outcome.events, start), (number - 1) as Nanos * US / 2, "{number}");
    }
}

/// The helper is replaced by another one.
#[test]
fn an_item_that_blocks_in_a_helpers_batch_holds_nobody_up() {
    for sleeper in 2..NR_ITEMS / 2 - 1 {
        let outcome = beside_a_long_item(sleeper);
        let next =
            |what: &What| matches!(what, What::Started(what, ..) if what.item == sleeper + 1);
        let slept = |what: &What| matches!(what, What::Slept(what, _) if what.item == sleeper);
        let at = (sleeper - 1) as Nanos * US / 2;
        assert_eq!(time_of(&outcome.events, slept), at, "item {sleeper}");
        assert_eq!(time_of(&outcome.events, next), at, "behind item {sleeper}");
    }
}

/// An item of its own pod calls it back; behind that it comes again.
#[test]
fn a_helper_with_an_item_of_its_own_pod_comes_back_at_once() {
    const NR_SHORT: usize = 4_000;
    let mut plan = with_pods(burst(usize::MAX, None));
    let short = item(&[Op::Burn(US / 2)]);
    let lone = NR_SHORT + 1;
    plan.items = vec![item(&[Op::Burn(SECOND / 20)])];
    plan.items.extend(vec![short; NR_SHORT]);
    plan.items.push(item(&[Op::Burn(5 * US)]));
    plan.calls = (0..=NR_SHORT).map(|number| call(0, number, 0)).collect();
    let calls = (1..=5).map(|number| call(number * 100 * US, lone, 1));
    plan.calls.extend(calls);
    let detect = Detect { tick: Some(TickRole::Alone), ..Detect::default() };
    let outcome = play_on_pods(&plan, detect);
    let is_last = |what: &What| matches!(what, What::Finished(it, ..) if it.item == NR_SHORT);
    let all = NR_SHORT as Nanos * US / 2 + 5 * 5 * US;
    assert_eq!(time_of(&outcome.events, is_last), all);
}

/// Detectors watch the helper's own pool although no other one says that it wants help, so the
/// helper is replaced although nobody is told that it sleeps.
#[test]
fn a_helper_that_blocks_after_a_while_is_seen_at_once() {
    const NR_SHORT: usize = 8_000;
    let mut plan = with_pods(burst(usize::MAX, None));
    plan.items = vec![item(&[Op::Burn(SECOND / 20)])];
    plan.items.extend(vec![item(&[Op::Burn(US / 2)]); NR_SHORT]);
    let sleeper = NR_SHORT - 100;
    plan.items[sleeper] = item(&[Op::Sleep(SECOND)]);
    plan.calls = (0..=NR_SHORT).map(|item| call(0, item, 0)).collect();
    let detect = Detect { tick: Some(TickRole::Alone), is_watched_only: true, ..Detect::default() };
    let outcome = play_on_pods(&plan, detect);
    let started = |what: &What| matches!(what, What::Started(what, ..) if what.item == sleeper + 1);
    assert_eq!(time_of(&outcome.events, started), (sleeper - 1) as Nanos * US / 2);
}

/// Without a tick nothing is pushed into inboxes, and nobody calls a batch back now and then.
#[test]
fn a_helper_leaves_its_batch_for_an_item_of_its_own_pod() {
    const MS: Nanos = 1_000 * US;
    const NR_ITEMS: usize = 100;
    let mut plan = with_pods(burst(usize::MAX, None));
    plan.items = vec![item(&[Op::Burn(SECOND)])];
    plan.items.extend(vec![item(&[Op::Burn(MS)]); NR_ITEMS]);
    let lone = plan.items.len();
    plan.items.push(item(&[Op::Burn(MS)]));
    let at = 50 * MS + MS / 2;
    plan.calls = (0..=NR_ITEMS).map(|number| call(0, number, 0)).collect();
    plan.calls.push(call(at, lone, 1));
    let outcome = play_on_pods(&plan, Config::exact(2).detect);
    assert!(outcome.stats.taken_along > NR_ITEMS as u64 / 4, "{:?}", outcome.stats);
    let start = |what: &What| matches!(what, What::Started(it, ..) if it.item == lone);
    assert_eq!(time_of(&outcome.events, start), at + MS / 2);
}

#[test]
fn random_runs_push_items_and_take_them_along() {
    // Where all items are of one queue, so that those of a kind come one after the other.
    let options = Options { cpus: Some(2), queues: Some(1), ..Options::default() };
    let (mut pushed, mut taken_along) = (0, 0);
    for seed in 0..300 {
        let stats = run_seed(seed, &options).outcome.stats;
        pushed += stats.pushed;
        taken_along += stats.taken_along;
    }
    assert!(pushed > 2_000 && taken_along > 1_000, "{pushed} pushed, {taken_along} taken along");
}
