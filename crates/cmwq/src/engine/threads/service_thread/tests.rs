//! What relies on the thread when it has ended, and what it does not wait for.

use std::thread;

use cmwq_core::Creator;

use super::{Loop, start};
use crate::Workqueue;
use crate::engine::process::on_one_cpu;
use crate::engine::runtime::Runtime;
use crate::engine::wq::{Kind, Spec};
use crate::os::sense;

fn runtime() -> &'static Runtime {
    let runtime = on_one_cpu();
    start(runtime).unwrap();
    runtime
}

/// Workers must not inherit his niceness, so they are the service's to create, and there is none.
#[test]
fn a_nice_thread_that_comes_late_gets_a_worker() {
    let runtime = runtime();
    runtime.service.stop();
    while !runtime.service.has_ended() {
        thread::yield_now();
    }
    let late = thread::spawn(move || {
        sense::sched::set_nice_current(5).unwrap();
        let wq = Workqueue::builder("late").percpu().build_on(runtime).unwrap();
        wq.queue_on(0, || 3).join().unwrap()
    });
    assert_eq!(late.join().unwrap(), 3);
}

/// Its number may be another thread's then, whose mask tells nothing of the process.
#[test]
fn its_mask_tells_nothing_when_it_has_ended() {
    let runtime = runtime();
    runtime.rescan(false);
    runtime.service.stop();
    while !runtime.service.has_ended() {
        thread::yield_now();
    }
    assert!(!runtime.placement.knows_widest_mask());
}

/// A first worker is not kept waiting by the pause after a failure, as a spare one is. Asked for
/// twice, it is created once.
#[test]
fn the_service_creates_as_whom_it_was_asked_for() {
    let runtime = on_one_cpu();
    runtime.set_fault_no_threads(true);
    let spec = Spec::of(Kind::Percpu);
    let key = runtime.key_for(spec, spec.default_priority(), 0);
    let pool = runtime.pool_by_key(key).expect("a few pools").pool;
    for by in [Creator::First, Creator::Spare, Creator::First] {
        assert!(runtime.service.create_for(pool, by));
    }
    let asked = runtime.service.to_create_for().0.into_iter().map(|(_, by)| by);
    assert_eq!(asked.collect::<Vec<_>>(), [Creator::First, Creator::Spare]);
}

/// He may have lost his CPU, and timers and ticks would wait with it.
#[test]
fn it_does_not_wait_for_who_changes_which_cpus_are_used() {
    let runtime = on_one_cpu();
    let mut service = Loop::new(runtime);
    runtime.service.rescan_soon();
    let in_a_second = service.rescan.at(0);
    let changing = runtime.hold_changing();
    service.creations(in_a_second).carry_out(runtime);
    assert!(runtime.service.is_to_rescan(), "nobody has looked");
    drop(changing);
    let later = service.rescan.at(0);
    service.creations(later).carry_out(runtime);
    assert!(!runtime.service.is_to_rescan());
}
