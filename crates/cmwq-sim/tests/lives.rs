//! Queues that come and go: what happens to their pools, worked out by hand.

use std::collections::BTreeSet;

use cmwq_core::TICK_NS;
use cmwq_sim::config::{Caches, Costs, Sabotage};
use cmwq_sim::event::{Event, What};
use cmwq_sim::plan::{Attrs, Call, Item, Op, Owner, Plan};
use cmwq_sim::scenario::{Flag, Flags, QueueSpec};
use cmwq_sim::{Config, Nanos, Outcome, Scope, Shape, simulate};

const US: Nanos = 1_000;

fn queue(name: &str, flag: Flag) -> QueueSpec {
    QueueSpec { name: name.into(), flags: Flags::NONE.with(flag), ..QueueSpec::default() }
}

fn item(queue: usize, ops: &[Op]) -> Item {
    Item { queue, ops: ops.into(), nr_queueings: 0 }
}

const fn attrs(queue: usize, nice: u8) -> Op {
    Op::SetAttrs { queue, attrs: Attrs { nice, ..Attrs::usual(Scope::Cache) } }
}

const fn put(item: usize) -> Op {
    Op::Queue { item, cpu: None }
}

/// What happens on a machine of two CPUs where nothing costs anything.
#[track_caller]
fn run(queues: &[QueueSpec], items: &[Item], ops: &[Op], unlocked: Nanos) -> Outcome {
    let owner = Owner { at: 0, ops: ops.to_vec() };
    let plan = Plan {
        queues: queues.to_vec(),
        items: items.to_vec(),
        owners: vec![owner],
        ..Plan::default()
    };
    let costs = Costs { unlocked, ..Costs::default() };
    let outcome = simulate(&plan, &Config { costs, keep_events: true, ..Config::exact(2) });
    assert_eq!(outcome.violation, None);
    outcome
}

/// The events that `pick` picks, with their times.
fn find<T>(outcome: &Outcome, pick: impl Fn(What) -> Option<T>) -> Vec<(Nanos, T)> {
    let pick = |event: &Event| Some((event.t, pick(event.what)?));
    outcome.events.iter().filter_map(pick).collect()
}

fn finished(outcome: &Outcome) -> Vec<(Nanos, usize)> {
    find(outcome, |what| match what {
        What::Finished(what, _) => Some(what.item),
        _ => None,
    })
}

#[test]
fn the_workers_of_a_pool_leave_with_its_last_queue() {
    let queues = [queue("a", Flag::Unbound), queue("b", Flag::Unbound)];
    let items = [item(0, &[Op::Burn(10 * US)]), item(1, &[Op::Burn(10 * US)])];
    let ops = [
        attrs(0, 5),
        attrs(1, 5),
        put(0),
        put(1),
        Op::DropQueue(0),
        Op::Sleep(10 * US),
        Op::DropQueue(1),
    ];
    let outcome = run(&queues, &items, &ops, 0);
    // Both run at once, on a CPU each, in one pool. The second queue goes 10 us after the first,
    // and the workers at that moment, not when they have idled for long.
    let gone = find(&outcome, |what| match what {
        What::QueueGone(queue) => Some(queue),
        _ => None,
    });
    assert_eq!(gone, [(10 * US, 0), (20 * US, 1)]);
    let made = find(&outcome, |what| matches!(what, What::WorkerMade(..)).then_some(()));
    let left = find(&outcome, |what| matches!(what, What::WorkerLeft(..)).then_some(()));
    assert_eq!(outcome.stats.pools, 1);
    // Two that run and one that stands by.
    assert_eq!(made.len(), 3);
    assert_eq!(left, [(20 * US, ()); 3]);
}

#[test]
fn a_pool_that_was_closed_serves_the_next_queue() {
    let queues = [queue("a", Flag::Unbound)];
    // The first waits for the second, which has to start beside it.
    let items = [item(0, &[Op::FlushItem(1)]), item(0, &[Op::Burn(10 * US)])];
    let round =
        [attrs(0, 5), put(0), put(1), Op::FlushQueue(0), Op::DropQueue(0), Op::MakeQueue(0)];
    let rounds = 50;
    // With a window behind each item in which all of this can happen.
    let outcome = run(&queues, &items, &round.repeat(rounds), 20 * US);
    assert_eq!(finished(&outcome).len(), 2 * rounds, "each once in each round");
    assert_eq!(outcome.stats.pools, 1, "always the same pool");
}

#[test]
fn a_pool_that_is_opened_again_begins_with_a_worker() {
    let queues = [queue("a", Flag::Unbound)];
    let items = [item(0, &[Op::Burn(10 * US)])];
    // The first pool is closed when the queue moves to another one, and opened when it comes back.
    let rest = Op::Sleep(10 * US);
    let ops = [attrs(0, 5), put(0), Op::FlushQueue(0), attrs(0, 6), rest, attrs(0, 5)];
    let outcome = run(&queues, &items, &ops, 0);
    let made = find(&outcome, |what| match what {
        What::WorkerMade(pool, _) => Some(pool),
        _ => None,
    });
    // The item's, and its standby; the other pool's; and the one that waits for an item.
    assert_eq!(made, [(0, 0), (0, 0), (10 * US, 1), (20 * US, 0)]);
}

#[test]
fn items_run_on_their_queues_cpus() {
    let queues = [queue("a", Flag::Unbound)];
    let items = [0; 3].map(|queue| item(queue, &[Op::Burn(10 * US)]));
    let only_one = Attrs { cpus: Some((Scope::Cpu, 1)), ..Attrs::usual(Scope::Cpu) };
    let all = [0, 1, 2].map(|item| Op::Queue { item, cpu: Some(0) });
    let cpus_of = |attrs| {
        let ops = [&[Op::SetAttrs { queue: 0, attrs }], &all[..]].concat();
        let starts = find(&run(&queues, &items, &ops, 0), |what| match what {
            What::Started(_, _, runner) => Some(runner.cpu),
            _ => None,
        });
        starts.into_iter().map(|(_, cpu)| cpu).collect::<BTreeSet<_>>()
    };
    assert_eq!(cpus_of(only_one), BTreeSet::from([1]));
    assert_eq!(cpus_of(Attrs { is_strict: true, ..only_one }), BTreeSet::from([1]));
    assert_eq!(cpus_of(Attrs::usual(Scope::Cpu)), BTreeSet::from([0]));
    assert_eq!(cpus_of(Attrs::usual(Scope::System)), BTreeSet::from([0, 1]));
}

#[test]
fn a_queue_that_moves_leaves_what_it_has_where_it_is() {
    let queues = [queue("a", Flag::Unbound)];
    let items = [item(0, &[Op::Burn(10 * US)]), item(0, &[Op::Burn(10 * US)])];
    let outcome = run(&queues, &items, &[attrs(0, 5), put(0), attrs(0, 6), put(1)], 0);
    let starts = find(&outcome, |what| match what {
        What::Started(what, site, _) => Some((what.item, site.pool)),
        _ => None,
    });
    assert_eq!(starts, [(0, (0, 0)), (0, (1, 1))]);
    // The first pool has no queue from the moment on at which its item is done.
    let unlinked = find(&outcome, |what| match what {
        What::Unlinked(queue, pool) => Some((queue, pool)),
        _ => None,
    });
    assert_eq!(unlinked, [(10 * US, (0, 0))]);
}

#[test]
fn an_ordered_queue_that_moves_keeps_its_order() {
    let queues = [queue("a", Flag::Ordered)];
    let items: Vec<_> = (0..6).map(|_| item(0, &[Op::Burn(10 * US)])).collect();
    let ops =
        [put(0), put(1), attrs(0, 5), put(2), put(3), attrs(0, 6), put(4), attrs(0, 0), put(5)];
    let outcome = run(&queues, &items, &ops, 0);
    let expected: Vec<_> = (0..6).map(|item| ((item as Nanos + 1) * 10 * US, item)).collect();
    assert_eq!(finished(&outcome), expected);
}

/// The item runs where it was queued first. It is queued again behind that run, at the queue's new
/// pool, and taken back there: then its word names that pool, and the run goes on at the old one.
#[test]
fn a_run_at_a_pool_that_an_ordered_queue_has_left_is_waited_for() {
    let queues = [queue("a", Flag::Ordered), queue("b", Flag::Unbound)];
    for wait in [Op::FlushItem(0), Op::CancelSync(0)] {
        let items = [item(0, &[Op::Burn(10 * US)]), item(1, &[Op::Burn(US)])];
        let again = [Op::Sleep(US), attrs(0, 5), put(0), Op::Cancel(0)];
        let ops = [&[put(0)][..], &again, &[wait, put(1)]].concat();
        let outcome = run(&queues, &items, &ops, 0);
        assert_eq!(finished(&outcome), [(10 * US, 0), (11 * US, 1)], "{wait:?}");
        let owners = vec![Owner { at: 0, ops }];
        let plan =
            Plan { queues: queues.to_vec(), items: items.to_vec(), owners, ..Plan::default() };
        let sabotage = Some(Sabotage::AskNamedPool);
        let outcome = simulate(&plan, &Config { sabotage, ..Config::exact(2) });
        assert_eq!(outcome.violation.expect("it is noticed").checker, "flush");
    }
}

#[test]
fn a_queue_goes_when_what_its_items_queued_is_done() {
    let queues = [queue("a", Flag::Unbound), queue("b", Flag::Unbound)];
    let other = item(1, &[Op::Burn(US)]);
    let chained = item(0, &[Op::Burn(10 * US)]);
    // The first item queues one of its own queue, which is let in, and later one from outside is
    // not.
    let mut first = item(0, &[Op::Burn(10 * US), put(1)]);
    first.nr_queueings = 1;
    let ops = [put(0), Op::DropQueue(0), put(0), put(2)];
    let outcome = run(&queues, &[first, chained, other], &ops, 0);
    assert_eq!(finished(&outcome), [(10 * US, 0), (20 * US, 1), (21 * US, 2)]);
}

/// A queue that is being dropped has timers armed, keeps in being until they have expired, and
/// refuses their items then.
#[test]
fn timers_are_armed_while_a_queue_goes_and_their_items_refused() {
    let owners = vec![Owner { at: 0, ops: vec![put(0), Op::DropQueue(0)] }];
    let at = |us, op| Call { at: us * US, op };
    let calls = vec![
        at(5, Op::QueueDelayed { item: 1, cpu: None, delay: 100 * US }),
        at(6, Op::QueueDelayed { item: 2, cpu: None, delay: 100 * US }),
        at(6, Op::QueueDelayed { item: 3, cpu: None, delay: 0 }),
        at(7, Op::FlushDelayed(2)),
    ];
    let items = vec![item(0, &[Op::Burn(10 * US)]); 4];
    let plan = Plan { queues: vec![queue("a", Flag::Unbound)], items, owners, calls };
    let outcome = simulate(&plan, &Config { keep_events: true, ..Config::exact(2) });
    assert_eq!(outcome.violation, None);
    let armed = find(&outcome, |what| match what {
        What::Armed(what, _) => Some(what.item),
        _ => None,
    });
    assert_eq!(armed, [(5 * US, 1), (6 * US, 2)]);
    let refused = find(&outcome, |what| match what {
        What::Cancelled(what) => Some(what.item),
        _ => None,
    });
    assert_eq!(refused, [(7 * US, 2), (TICK_NS, 1)]);
    assert_eq!(finished(&outcome), [(10 * US, 0)]);
    let gone = find(&outcome, |what| matches!(what, What::QueueGone(_)).then_some(()));
    assert_eq!(gone, [(TICK_NS, ())]);
}

#[test]
fn workers_of_a_pool_with_attributes_of_its_own_may_leave_its_pod_too() {
    // Two caches of two CPUs: idle ones take workers of the other cache over.
    let caches = Caches { transfer: 0, hot: 0, look: 10 * US, is_loose: true };
    let starts = |nice| {
        let items = vec![item(0, &[Op::Burn(100 * US)]); 5];
        // The first has one of the other CPUs wake up.
        let put = |item| Op::Queue { item, cpu: Some(if item == 0 { 2 } else { 0 }) };
        let ops: Vec<_> = [attrs(0, nice)].into_iter().chain((0..5).map(put)).collect();
        let owners = vec![Owner { at: 0, ops }];
        let plan =
            Plan { queues: vec![queue("a", Flag::Unbound)], items, owners, ..Plan::default() };
        let shape = Shape::Regular([1, 2, 2, 1]);
        let config = Config { shape, caches: Some(caches), keep_events: true, ..Config::exact(4) };
        let outcome = simulate(&plan, &config);
        assert_eq!(outcome.violation, None);
        finished(&outcome)
    };
    assert_eq!(starts(1), starts(0));
}

/// Two nodes of four CPUs: of 20, each may run 10. When the queue may use the first node's CPUs
/// only, that may run 20, also of what waits already.
#[test]
fn a_limit_is_split_by_the_cpus_that_the_queue_may_use() {
    let starts = |cpus| {
        let items = vec![item(0, &[Op::Sleep(100 * US)]); 16];
        let first = (0..15).map(|item| Op::Queue { item, cpu: Some(0) });
        let attrs = Op::SetAttrs { queue: 0, attrs: Attrs { cpus, ..Attrs::usual(Scope::Numa) } };
        let then = [Op::Sleep(10 * US), attrs, Op::Sleep(10 * US), put(15)];
        let owners = vec![Owner { at: 0, ops: first.chain(then).collect() }];
        let queues = vec![QueueSpec { max_active: 20, ..queue("a", Flag::Unbound) }];
        let plan = Plan { queues, items, owners, ..Plan::default() };
        let shape = Shape::Regular([2, 1, 4, 1]);
        let outcome = simulate(&plan, &Config { shape, keep_events: true, ..Config::exact(8) });
        assert_eq!(outcome.violation, None);
        let starts = find(&outcome, |what| matches!(what, What::Started(..)).then_some(()));
        [0, 10, 20].map(|us| starts.iter().filter(|(at, ())| *at == us * US).count())
    };
    assert_eq!(starts(None), [10, 0, 0]);
    assert_eq!(starts(Some((Scope::Numa, 0))), [10, 5, 1]);
}

#[test]
fn a_queue_that_is_frozen_while_it_is_used_starts_nothing() {
    for kind in [Flag::Percpu, Flag::Unbound, Flag::Managed] {
        let frozen = |is_frozen| Op::SetFrozen { queue: 0, is_frozen };
        let calls = [(0, put(0)), (US, frozen(true)), (2 * US, put(1)), (50 * US, frozen(false))];
        let plan = Plan {
            queues: vec![queue("q", kind)],
            items: vec![item(0, &[Op::Burn(10 * US)]), item(0, &[Op::Burn(10 * US)])],
            calls: calls.into_iter().map(|(at, op)| Call { at, op }).collect(),
            ..Plan::default()
        };
        let outcome = simulate(&plan, &Config { keep_events: true, ..Config::exact(2) });
        assert_eq!(outcome.violation, None, "{kind}");
        assert_eq!(finished(&outcome), [(10 * US, 0), (60 * US, 1)], "{kind}");
    }
}
