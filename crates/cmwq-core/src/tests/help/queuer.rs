//! Whose items may leave their CPU, and who may run them.

use crate::help::{Plain, Queuer};
use crate::place::QueueKind;

const OUTSIDE: Queuer = Queuer { is_worker: false };
const WORKER: Queuer = Queuer { is_worker: true };
const PLAIN: Plain = Plain { is_intensive: false, has_rescuer: false, has_priority: false };
const OTHERS: [QueueKind; 4] =
    [QueueKind::Percpu, QueueKind::Bh, QueueKind::Unbound, QueueKind::Ordered];

#[test]
fn long_items_of_outsiders_leave_if_there_is_another_pod() {
    assert!(OUTSIDE.lets_go(true, true) && !WORKER.lets_go(true, true));
    assert!(!OUTSIDE.lets_go(false, true) && !OUTSIDE.lets_go(true, false));
    assert!(QueueKind::Managed.may_leave(false) && !QueueKind::Managed.may_leave(true));
    assert!(OTHERS.iter().all(|kind| !kind.may_leave(false)));
}

#[test]
fn only_who_computes_on_the_pods_cpu_takes_it() {
    assert!(OUTSIDE.takes_cpu(true, true) && !OUTSIDE.takes_cpu(false, true));
    // His items come here in place of an isolated CPU's, say.
    assert!(!OUTSIDE.takes_cpu(true, false) && !OUTSIDE.takes_cpu(false, false));
}

#[test]
fn who_waits_runs_what_promises_nothing() {
    let runs = |who: Queuer, plain| {
        assert!(OTHERS.iter().all(|kind| !who.may_run_it(*kind, plain)));
        who.may_run_it(QueueKind::Managed, plain)
    };
    assert!(runs(OUTSIDE, PLAIN) && !runs(WORKER, PLAIN));
    assert!(!runs(OUTSIDE, Plain { is_intensive: true, ..PLAIN }));
    assert!(!runs(OUTSIDE, Plain { has_rescuer: true, ..PLAIN }));
    assert!(!runs(OUTSIDE, Plain { has_priority: true, ..PLAIN }));
}
