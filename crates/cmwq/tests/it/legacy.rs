//! The kernel's old ways: its constructors, and running a function where it may block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cmwq::legacy::{create_freezable_workqueue, create_singlethread_workqueue, create_workqueue};
use cmwq::{ErrorKind, Execution, Workqueue, execute_in_process_context, system};

use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, joined, sys};

#[test]
fn create_workqueue_runs_one_item_at_a_time_on_each_cpu() {
    let wq = create_workqueue("old").unwrap();
    assert_eq!((wq.name(), wq.max_active()), ("old", 1));
    for cpu in sys::allowed_cpus() {
        assert_eq!(joined(wq.queue_on(cpu, sys::current_cpu)), cpu, "per-CPU");
    }
    one_at_a_time(&wq, sys::allowed_cpus()[0]);
}

#[test]
fn create_freezable_workqueue_is_unbound_and_has_a_limit_of_one() {
    let wq = create_freezable_workqueue("old_freezable").unwrap();
    assert_eq!(wq.max_active(), 1);
    wq.set_max_active(2).expect("it is not ordered");
    wq.set_max_active(1).unwrap();
    wq.apply_attrs(&wq.attrs().nice(sys::nicer(3))).expect("it is unbound");
    one_at_a_time(&wq, 0);
}

#[test]
fn create_singlethread_workqueue_is_ordered() {
    let wq = create_singlethread_workqueue("old_single").unwrap();
    assert_eq!(wq.set_max_active(2).unwrap_err().kind(), ErrorKind::InvalidInput);
    one_at_a_time(&wq, 0);
}

/// Items that block, and would overlap.
fn one_at_a_time(wq: &Workqueue, cpu: u32) {
    let inside = Arc::new(Peak::new());
    let handles: Vec<_> = (0..20)
        .map(|_| {
            let inside = Arc::clone(&inside);
            wq.queue_on(cpu, move || {
                let _inside = inside.enter();
                std::thread::sleep(std::time::Duration::from_micros(500));
            })
        })
        .collect();
    handles.into_iter().for_each(joined);
    assert_eq!(inside.most(), 1);
}

/// They have rescuers, but their items may wait for queues that have none.
#[test]
fn items_of_legacy_queues_are_not_bound_to_rescued_ones() {
    let old = [create_workqueue, create_freezable_workqueue, create_singlethread_workqueue];
    for create in old {
        let wq = create("old_reclaim").unwrap();
        assert!(!joined(wq.queue(cmwq::current_is_mem_reclaim)));
    }
    let new = Workqueue::builder("new_reclaim").mem_reclaim().build().unwrap();
    assert!(joined(new.queue(cmwq::current_is_mem_reclaim)));
}

#[test]
fn a_legacy_bh_queue_is_refused() {
    let error = Workqueue::builder("old_bh").bh().legacy().build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("old_bh"), "{error}");
}

/// From a thread and from a worker: at once, in the same thread.
#[test]
fn process_context_is_here_where_blocking_is_allowed() {
    let inline = || {
        let me = sys::gettid();
        let ran = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&ran);
        let execution = execute_in_process_context(move || {
            assert_eq!(sys::gettid(), me);
            theirs.store(true, Ordering::SeqCst);
        });
        assert!(ran.load(Ordering::SeqCst), "before it returned");
        execution
    };
    assert_eq!(inline(), Execution::Inline);
    assert_eq!(joined(system::managed().queue(inline)), Execution::Inline);
}

/// From a BH item: later, by a worker, that the BH item does not wait for.
#[test]
fn process_context_is_elsewhere_for_bh_items() {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let ran = Arc::new(AtomicBool::new(false));
    let (theirs, closed) = (Arc::clone(&ran), gate.clone());
    let handle = system::bh().queue(move || {
        execute_in_process_context(move || {
            closed.pass();
            assert!(cmwq::current_work().is_some(), "a worker runs it");
            theirs.store(true, Ordering::SeqCst);
        })
    });
    assert_eq!(joined(handle), Execution::Scheduled);
    assert!(!ran.load(Ordering::SeqCst));
    gate.open();
    eventually("it ran", || ran.load(Ordering::SeqCst));
}
