//! A CPU's number has one type, `u32`, wherever a program sees one.

use std::time::Duration;

use cmwq::{CpuSet, DelayedWork, Scope, TryQueueError, Work, Workqueue};

use crate::support::joined;

type Handle = cmwq::JoinHandle<()>;
type Delaying = fn(&Workqueue, u32, fn(), Duration) -> Handle;
type Trying = fn(&Workqueue, u32, fn()) -> Result<Handle, TryQueueError<fn()>>;
type Timing = fn(&Workqueue, u32, &DelayedWork, Duration) -> bool;

/// Whatever takes a CPU. It does not compile where one takes another type.
#[test]
fn every_function_takes_the_same_type() {
    let _closures: fn(&Workqueue, u32, fn()) -> Handle = Workqueue::queue_on;
    let _delayed: Delaying = Workqueue::queue_delayed_on;
    let _tried: Trying = Workqueue::try_queue_on;
    let _work: fn(&Workqueue, u32, &Work) -> bool = Workqueue::queue_work_on;
    let _timed: [Timing; 2] = [Workqueue::queue_delayed_work_on, Workqueue::mod_delayed_work_on];
    let _asked: fn(&Workqueue, Option<u32>) -> bool = Workqueue::is_congested;
    let _touched: fn(Option<u32>) = cmwq::watchdog::touch;
    let _called: fn(u32, fn()) = |cpu, func| cmwq::work_on_cpu(cpu, func);
    let _set: fn(u32) -> CpuSet = CpuSet::single;
    let _member: fn(&CpuSet, u32) -> bool = CpuSet::contains;
    let _first: fn(&CpuSet) -> Option<u32> = CpuSet::first;
    fn _scoped<'scope>(scope: &'scope Scope<'scope, '_>, cpu: u32) {
        scope.queue_on(cpu, || ());
    }
}

/// So what a set of CPUs says can be asked for as it is.
#[test]
fn the_members_of_a_set_are_what_queues_take() {
    let wq = Workqueue::builder("members").percpu().build().unwrap();
    let allowed: CpuSet = crate::support::sys::allowed_cpus().into_iter().collect();
    for cpu in &allowed {
        assert_eq!(joined(wq.queue_on(cpu, move || cpu)), cpu);
        assert_eq!(cmwq::work_on_cpu(cpu, move || cpu), cpu);
        assert!(!wq.is_congested(Some(cpu)));
    }
}
