//! A pod that was called to help, and got work of its own before its worker came.

use cmwq_sim::config::{Costs, Detect, TickRole};
use cmwq_sim::event::{Event, What};
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::topology::Scope;
use cmwq_sim::{Config, Nanos, simulate};

const US: Nanos = 1_000;
const MS: Nanos = 1_000 * US;

fn time_of(events: &[Event], is_it: impl Fn(&What) -> bool) -> Nanos {
    events.iter().find(|event| is_it(&event.what)).expect("it happens").t
}

/// Two items wait on CPU 0, so CPU 1 is called; while its worker is on the way, an item is queued
/// there, which the worker runs instead, and which waits for long. Later two items are queued on
/// CPU 0 again.
#[test]
fn a_pod_that_was_called_and_got_work_of_its_own_is_called_again() {
    let queue = QueueSpec {
        name: "q".to_owned(),
        flags: [Flag::Managed].into_iter().collect(),
        scope: Some(Scope::Cpu),
        ..QueueSpec::default()
    };
    let other = QueueSpec {
        name: "other".to_owned(),
        flags: [Flag::Percpu].into_iter().collect(),
        ..QueueSpec::default()
    };
    let item = |ops: &[Op]| Item { ops: ops.into(), ..Item::default() };
    let items = vec![
        item(&[Op::Burn(50 * US)]),
        item(&[Op::Burn(50 * US)]),
        item(&[Op::Burn(200 * US), Op::Announced(1_000 * MS)]),
        item(&[Op::Burn(100 * MS)]),
        item(&[Op::Burn(100 * MS)]),
        // So that each pod has workers, and the one on CPU 1 is not there at once.
        item(&[Op::Burn(US)]),
        item(&[Op::Burn(US)]),
        Item { queue: 1, ..item(&[Op::Burn(US)]) },
    ];
    let call = |at, item, cpu| Call { at, op: Op::Queue { item, cpu: Some(cpu) } };
    let plan = Plan {
        queues: vec![queue, other],
        items,
        calls: vec![
            call(0, 5, 0),
            call(0, 6, 1),
            call(MS / 2, 7, 1),
            call(MS, 0, 0),
            call(MS + US, 1, 0),
            call(MS + US + 1, 2, 1),
            call(2 * MS, 3, 0),
            call(2 * MS, 4, 0),
        ],
        ..Plan::default()
    };
    for switch in [US, 5 * US, 20 * US] {
        let costs = Costs { switch, ..Costs::default() };
        let detect = Detect { tick: Some(TickRole::Alone), ..Detect::default() };
        let config = Config { costs, detect, keep_events: true, ..Config::exact(2) };
        let outcome = simulate(&plan, &config);
        assert_eq!(outcome.violation, None);
        let start =
            |number| move |what: &What| matches!(what, What::Started(it, ..) if it.item == number);
        assert!(time_of(&outcome.events, start(4)) < 3 * MS, "switch {switch}");
    }
}
