//! A pool that is made where things have changed already, and one that was there when they did.

use std::time::Duration;

use cmwq_core::LockFor;

use super::*;
use crate::engine::tools::attrs::Sched;

/// Where the workers of a pool belong, and what follows for it.
type Belonging = (CpuSet, CpuSet, Option<u32>, bool, bool, Option<CpuSet>, (u32, Option<u8>));

fn belonging(pool: &'static Pool) -> Belonging {
    let (bound, unbound, pinned_to) = pool.belonging();
    let config = pool.lock(LockFor::Counts).core.config().clone();
    let runs = (config.concurrency, config.batches);
    let (away, helps) = (pool.is_disassociated(), pool.may_help());
    (bound, unbound, pinned_to, away, helps, pool.guarded_cpus(), runs)
}

/// Asks of both where the pool behind this slot belongs after the change.
#[track_caller]
fn check_alike(
    start: impl Fn() -> &'static Runtime,
    change: impl Fn(&'static Runtime),
    (kind, slot): (Kind, usize),
) {
    let pool = |runtime: &'static Runtime| {
        runtime.set_fault_no_threads(true);
        let spec = Spec::of(kind);
        let key = runtime.key_for(spec, spec.default_priority(), slot);
        runtime.pool_by_key(key).expect("a few pools").pool
    };
    let (moved_in, made_in) = (start(), start());
    let moved = pool(moved_in);
    [moved_in, made_in].into_iter().for_each(change);
    let made = pool(made_in);
    assert_eq!(belonging(made), belonging(moved), "{kind:?}, slot {slot}: made, and moved");
}

#[test]
fn where_a_pool_belongs_does_not_depend_on_when_it_is_made() {
    let narrow = |cpus: &'static str, allowed: &'static str| {
        move |runtime: &'static Runtime| {
            runtime.set_unbound_cpumask(&set(cpus)).expect("some are here");
            runtime.allow(&set(allowed));
        }
    };
    for kind in [Kind::Percpu, Kind::Bh, Kind::Managed] {
        for slot in [2, 5] {
            check_alike(server, narrow("0-1", "0-4,6-15"), (kind, slot));
            check_alike(server, narrow("0-15", "0-4"), (kind, slot));
        }
    }
}

/// One pod for all CPUs, of which these are there at first.
fn one_pod(at_first: &str) -> &'static Runtime {
    let whole = || vec![Pod { cpus: set("0-3"), node: None }];
    let runtime = without_threads(Machine::new(&set("0-3"), None, whole(), whole()));
    runtime.allow(&set(at_first));
    runtime
}

/// Else touches of other CPUs would excuse it, or only those of the CPU that it had at first. Where
/// deadline workers can be pinned is another matter.
#[test]
fn the_watchdog_takes_the_only_managed_pod_for_one_of_the_cpus_that_there_are() {
    let (runtime, spec) = (one_pod("1"), Spec::of(Kind::Managed));
    runtime.set_fault_no_threads(true);
    let ms = Duration::from_millis;
    let sched = Sched::Deadline { runtime: ms(1), deadline: ms(10), period: ms(10) };
    let usual = spec.default_priority();
    let pool = |priority| {
        let key = runtime.key_for(spec, priority, 0);
        runtime.pool_by_key(key).expect("a few pools").pool
    };
    let pools = [usual, Priority { sched, ..usual }].map(pool);
    pools.iter().for_each(|pool| assert_eq!(pool.worker_cpus(), set("1")));
    runtime.allow(&set("0-3"));
    pools.iter().for_each(|pool| assert_eq!(pool.worker_cpus(), set("0-3")));
}

#[test]
fn the_only_managed_pod_has_the_cpus_that_come() {
    for now in ["1-3", "2"] {
        check_alike(|| one_pod("1"), |runtime| runtime.allow(&set(now)), (Kind::Managed, 0));
        check_alike(|| one_pod("0-3"), |runtime| runtime.allow(&set(now)), (Kind::Managed, 0));
    }
}
