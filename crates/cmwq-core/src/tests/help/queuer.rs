//! Whose items may leave their CPU, and who may run them.

use crate::help::{Plain, Queuer};
use crate::place::QueueKind;

const OUTSIDE: Queuer = Queuer { is_worker: false, names_cpu: false };
const WORKER: Queuer = Queuer { is_worker: true, ..OUTSIDE };
const NAMES: Queuer = Queuer { names_cpu: true, ..OUTSIDE };
const PLAIN: Plain = Plain { is_intensive: false, has_rescuer: false, has_priority: false };
const OTHERS: [QueueKind; 4] =
    [QueueKind::Percpu, QueueKind::Bh, QueueKind::Unbound, QueueKind::Ordered];

#[test]
fn long_items_of_outsiders_leave_if_there_is_another_pod() {
    let lets_go = |who: Queuer, has_others, is_told| {
        assert!(OTHERS.iter().all(|kind| !who.lets_go(*kind, has_others, is_told)));
        who.lets_go(QueueKind::Managed, has_others, is_told)
    };
    assert!(lets_go(OUTSIDE, true, true));
    assert!(!lets_go(OUTSIDE, false, true) && !lets_go(OUTSIDE, true, false));
    assert!(!lets_go(WORKER, true, true) && !lets_go(NAMES, true, true));
}

#[test]
fn who_waits_runs_what_promises_nothing() {
    let runs = |who: Queuer, plain| {
        assert!(OTHERS.iter().all(|kind| !who.may_run_it(*kind, plain)));
        who.may_run_it(QueueKind::Managed, plain)
    };
    assert!(runs(OUTSIDE, PLAIN) && !runs(WORKER, PLAIN) && !runs(NAMES, PLAIN));
    assert!(!runs(OUTSIDE, Plain { is_intensive: true, ..PLAIN }));
    assert!(!runs(OUTSIDE, Plain { has_rescuer: true, ..PLAIN }));
    assert!(!runs(OUTSIDE, Plain { has_priority: true, ..PLAIN }));
}
