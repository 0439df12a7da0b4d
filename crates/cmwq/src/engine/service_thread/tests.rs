//! What relies on the thread when it has ended.

use std::thread;

use super::start;
use crate::Workqueue;
use crate::engine::process::on_one_cpu;
use crate::engine::runtime::Runtime;
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
