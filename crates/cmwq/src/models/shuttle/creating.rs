//! Workers come into being as they are needed, or cannot.

use shuttle::thread;

use super::{Pods, check, check_with};
use crate::detect::method::Detect;
use crate::engine::threads::current::blocking;
use crate::engine::tools::params::Params;
use crate::engine::wq::{Kind, Spec};
use crate::os::park::Event;
use crate::os::sync::Arc;

const PERCPU: Spec = Spec { max_active: 1, ..Spec::of(Kind::Percpu) };

/// A chain of items, each of which waits for the next: as many workers as items.
#[test]
fn each_blocked_worker_is_replaced_by_a_new_one() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        let events: Vec<_> = (0..3).map(|_| Arc::new(Event::new())).collect();
        let mut handles = Vec::new();
        for n in 0..3 {
            let mine = Arc::clone(&events[n]);
            let next = events.get(n + 1).map(Arc::clone);
            handles.push(wq.queue_on(0, move || {
                if let Some(next) = next {
                    blocking(|| next.wait(None));
                }
                mine.set();
            }));
        }
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

/// No thread can be had for a while. Nothing is lost.
#[test]
fn items_wait_for_a_thread_that_cannot_be_had() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        world.runtime.set_fault_no_threads(true);
        let first = wq.queue_on(0, || 1);
        let second = wq.queue_on(0, || 2);
        world.runtime.set_fault_no_threads(false);
        assert_eq!(first.join().unwrap() + second.join().unwrap(), 3);
    });
}

/// The first worker comes, its standby does not; then the worker blocks until an item behind it has
/// run.
#[test]
fn a_standby_that_failed_comes_later() {
    check(Pods::One, |world| {
        let wq = world.percpu();
        // The pool and its first worker.
        let _ = world.runtime.pool_for(PERCPU, 0);
        world.runtime.set_fault_no_threads(true);
        let (running, let_go) = (Arc::new(Event::new()), Arc::new(Event::new()));
        let first = {
            let (running, let_go) = (Arc::clone(&running), Arc::clone(&let_go));
            wq.queue_on(0, move || {
                running.set();
                blocking(|| let_go.wait(None));
            })
        };
        running.wait(None);
        world.runtime.set_fault_no_threads(false);
        drop(wq.queue_on(0, move || let_go.set()));
        first.join().unwrap();
    });
}

/// The process has as many workers as it may until another pool lets an idle one go. The item waits
/// for the next one of its own pool.
#[test]
fn a_worker_that_was_refused_comes_when_another_pool_yields_one() {
    let params = Params { detect: Some(Detect::Inline), max_workers: 3, ..Params::default() };
    check_with(&params, Pods::One, |world| {
        let wq = world.percpu();
        // A worker and its standby.
        wq.queue_on(1, || ()).join().unwrap();
        let let_go = Arc::new(Event::new());
        let theirs = Arc::clone(&let_go);
        let first = wq.queue_on(0, move || _ = blocking(|| theirs.wait(None)));
        wq.queue_on(0, move || let_go.set()).join().unwrap();
        first.join().unwrap();
    });
}

/// Threads can be had and cannot, at random.
#[test]
fn creation_fails_now_and_then() {
    check(Pods::Two, |world| {
        let wq = world.managed();
        let runtime = world.runtime;
        let nature = thread::spawn(move || {
            for fail in [true, false, true, false] {
                runtime.set_fault_no_threads(fail);
            }
        });
        let handles: Vec<_> =
            (0..4).map(|n| wq.queue_on(n % 2, move || blocking(|| thread::yield_now()))).collect();
        nature.join().unwrap();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

/// Who was let in just before all was shut down needs a worker when the service leaves, or has
/// left, and no thread can be had at first.
#[test]
fn an_item_that_comes_late_gets_a_worker() {
    check(Pods::One, |world| {
        let (wq, runtime) = (world.percpu(), world.runtime);
        runtime.set_fault_no_threads(true);
        let stopping = thread::spawn(|| runtime.service.stop());
        let nature = thread::spawn(|| runtime.set_fault_no_threads(false));
        assert_eq!(wq.queue_on(0, || 1).join().unwrap(), 1);
        stopping.join().unwrap();
        nature.join().unwrap();
    });
}
