//! What relies on the thread when it has ended.

use std::thread;

use cmwq_core::Creator;

use super::start;
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
    let asked = runtime.service.to_create_for().into_iter().map(|(_, by)| by);
    assert_eq!(asked.collect::<Vec<_>>(), [Creator::First, Creator::Spare]);
}
