//! What relies on the thread when it has ended.

use std::thread;

use super::start;
use crate::Workqueue;
use crate::engine::params::Params;
use crate::engine::process::UPCALLS;
use crate::engine::runtime::{Machine, Runtime};
use crate::os::sense;
use crate::os::topo::{CpuSet, Pod};
use crate::record::Inspect;

fn runtime() -> &'static Runtime {
    let cpus = CpuSet::single(0);
    let pods = vec![Pod { cpus: cpus.clone(), node: None }];
    let params = Params { detect: Some(crate::Detect::Inline), ..Params::default() };
    let machine = Machine::new(&cpus, None, pods.clone(), pods);
    let runtime: &'static Runtime =
        Box::leak(Runtime::assemble(params, machine, 0, Inspect::off(), UPCALLS));
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
