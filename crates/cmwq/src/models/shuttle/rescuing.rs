//! Rescuers, the service that calls them, and the managers and workers that come after all.

use cmwq_core::LockFor;
use std::time::Duration;

use shuttle::thread;

use super::{Count, Pods, World, check};
use crate::api::builder::Builder;
use crate::api::workqueue::Workqueue;
use crate::engine::runtime::Hang;
use crate::engine::service::leave_creation;
use crate::engine::threads::current::blocking;
use crate::engine::threads::current::current_is_mem_reclaim;
use crate::engine::tools::attrs::Attrs;
use crate::engine::tools::reclaim::current_is_rescuer;
use crate::os::park::Event;
use crate::os::sync::Arc;

fn reclaim(world: &World, kind: impl FnOnce(Builder) -> Builder) -> Workqueue {
    world.queue(|builder| kind(builder).mem_reclaim())
}

/// No thread can be had, ever. All items run, in order, one at a time, and the queue can be taken
/// down.
#[test]
fn a_rescuer_is_enough() {
    check(Pods::One, |world| {
        let wq = reclaim(world, Builder::percpu);
        world.runtime.set_fault_no_threads(true);
        let count = Arc::new(Count::default());
        let handles: Vec<_> = (1..4)
            .map(|n| {
                let count = Arc::clone(&count);
                wq.queue_on(0, move || {
                    assert!(current_is_rescuer() && current_is_mem_reclaim());
                    assert_eq!(count.up(), n);
                    blocking(thread::yield_now);
                    assert_eq!(count.get(), n);
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

/// Who makes the queue must not create threads.
#[test]
fn a_rescuer_that_the_creator_starts_is_enough() {
    check(Pods::One, |world| {
        leave_creation();
        let wq = reclaim(world, Builder::percpu);
        world.runtime.set_fault_no_threads(true);
        wq.queue_on(0, || assert!(current_is_rescuer())).join().unwrap();
    });
}

/// One rescuer for two pools, neither of which has a worker.
#[test]
fn a_rescuer_serves_two_pools() {
    check(Pods::One, |world| {
        let wq = reclaim(world, Builder::percpu);
        world.runtime.set_fault_no_threads(true);
        let count = Arc::new(Count::default());
        for cpu in [0, 1, 0, 1] {
            let count = Arc::clone(&count);
            drop(wq.queue_on(cpu, move || count.up()));
        }
        drop(wq);
        assert_eq!(count.get(), 4, "a queue that is dropped waits for its items");
    });
}

/// The pool's worker is stuck and cannot be replaced: what a queue without a rescuer has there
/// waits, what lets it go comes by the rescuer.
#[test]
fn the_rescuer_frees_a_stuck_worker() {
    check(Pods::One, |world| {
        let (wq, plain) = (reclaim(world, Builder::percpu), world.percpu());
        plain.queue_on(0, || ()).join().unwrap();
        world.runtime.set_fault_no_threads(true);
        let let_go = Arc::new(Event::new());
        // As many as there are workers, and one that waits.
        let stuck: Vec<_> = (0..3)
            .map(|_| {
                let let_go = Arc::clone(&let_go);
                plain.queue_on(0, move || _ = blocking(|| let_go.wait(None)))
            })
            .collect();
        wq.queue_on(0, move || let_go.set()).join().unwrap();
        for handle in stuck {
            handle.join().unwrap();
        }
    });
}

/// Threads can be had and cannot, at random, while rescuers, managers and workers serve the same
/// pool; one item is queued again wherever it runs, one is waited for.
#[test]
fn rescuers_and_managers_meet() {
    check(Pods::One, |world| {
        let (wq, other) = (reclaim(world, Builder::percpu), reclaim(world, Builder::percpu));
        let runtime = world.runtime;
        runtime.set_fault_no_threads(true);
        let nature = thread::spawn(move || {
            for fail in [false, true, false] {
                runtime.set_fault_no_threads(fail);
            }
        });
        let count = Arc::new(Count::default());
        let work = {
            let count = Arc::clone(&count);
            crate::api::work::Work::new(move || _ = count.up())
        };
        assert!(wq.queue_work_on(0, &work));
        let handles: Vec<_> = (0..3).map(|n| other.queue_on(0, move || blocking(|| n))).collect();
        let queued = u32::from(wq.queue_work_on(0, &work));
        work.flush();
        assert_eq!(count.get(), 1 + queued);
        nature.join().unwrap();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), n);
        }
    });
}

/// A queue goes while its rescuer may just have been called, and another one takes its key and its
/// places.
#[test]
fn a_late_call_finds_nobody() {
    check(Pods::One, |world| {
        world.runtime.set_fault_no_threads(true);
        for _ in 0..2 {
            let wq = reclaim(world, Builder::percpu);
            for cpu in [0, 1] {
                drop(wq.queue_on(cpu, || ()));
            }
        }
        // A flush and a cancelled item, whose barrier only the rescuer is left to run.
        let wq = reclaim(world, Builder::percpu);
        let work = crate::api::work::Work::new(|| ());
        assert!(wq.queue_work_on(0, &work));
        let flusher = {
            let work = work.clone();
            thread::spawn(move || _ = work.flush())
        };
        work.cancel();
        flusher.join().unwrap();
    });
}

/// The attributes of a queue change while its rescuer is called, comes and goes: it visits the pwqs
/// that were replaced, too, and the queue can be taken down.
#[test]
fn a_rescuer_against_a_change_of_attributes() {
    check(Pods::One, |world| {
        let wq = reclaim(world, Builder::unbound);
        world.runtime.set_fault_no_threads(true);
        let count = Arc::new(Count::default());
        let changer = {
            let wq = wq.clone();
            thread::spawn(move || {
                for nice in [1, 0] {
                    wq.apply_attrs(&Attrs::new().nice(nice)).unwrap();
                }
            })
        };
        for _ in 0..3 {
            let count = Arc::clone(&count);
            drop(wq.queue(move || count.up()));
        }
        changer.join().unwrap();
        wq.flush();
        assert_eq!(count.get(), 3);
    });
}

/// Threads cannot be had before an item of a queue with a rescuer has run. So nobody whom the
/// rescuer's coming depends on may create one. `queue` queues that item; nobody waits for it in a
/// way by which he might run it himself.
fn check_where_creation_hangs(
    queue: impl Fn(&World, &Workqueue, Arc<Hang>) + Copy + Send + Sync + 'static,
) {
    check(Pods::One, move |world| {
        let wq = reclaim(world, Builder::percpu);
        let hang = world.runtime.set_fault_threads_hang();
        queue(world, &wq, Arc::clone(&hang));
        hang.end.wait(None);
    });
}

/// The service is asked for a worker by a thread whose workers would inherit what they must not
/// have.
#[test]
fn a_rescuer_comes_while_the_worker_is_being_created_for_somebody() {
    check_where_creation_hangs(|_, wq, hang| {
        leave_creation();
        drop(wq.queue_on(0, move || hang.end.set()));
    });
}

/// A worker of one pool is being created, and the item is in another one, whose turn would be next.
#[test]
fn a_rescuer_comes_to_the_pool_that_is_behind_it() {
    check_where_creation_hangs(|_, wq, hang| {
        leave_creation();
        drop(wq.queue_on(0, || ()));
        drop(wq.queue_on(1, move || hang.end.set()));
    });
}

/// Who queues does not wait for a worker.
#[test]
fn a_rescuer_comes_for_the_second_item_of_a_thread() {
    check_where_creation_hangs(|_, wq, hang| {
        drop(wq.queue_on(0, || ()));
        drop(wq.queue_on(1, move || hang.end.set()));
    });
}

/// The item is queued when its time has come.
#[test]
fn a_rescuer_comes_for_an_item_whose_timer_has_expired() {
    check_where_creation_hangs(|_, wq, hang| {
        drop(wq.queue_delayed_on(0, || (), Duration::from_millis(1)));
        drop(wq.queue_delayed_on(1, move || hang.end.set(), Duration::from_millis(2)));
    });
}

/// Creation has failed, and is tried again: of a worker of another queue, and of a BH context.
#[test]
fn a_rescuer_comes_while_a_creation_is_tried_again() {
    for kind in [Builder::percpu, Builder::bh] {
        check(Pods::One, move |world| {
            let wq = reclaim(world, Builder::percpu);
            let other = world.queue(kind);
            world.runtime.set_fault_no_threads(true);
            drop(other.queue_on(0, || ()));
            let hang = world.runtime.set_fault_threads_hang();
            hang.begun.wait(None);
            world.runtime.set_fault_no_threads(false);
            let theirs = Arc::clone(&hang);
            drop(wq.queue_on(1, move || theirs.end.set()));
            hang.end.wait(None);
        });
    }
}

/// A BH context is being created.
#[test]
fn a_rescuer_comes_while_a_context_is_being_created() {
    check_where_creation_hangs(|world, wq, hang| {
        let bh = world.queue(Builder::bh);
        drop(bh.queue_on(0, || ()));
        let theirs = Arc::clone(&hang);
        drop(wq.queue_on(0, move || theirs.end.set()));
        // A queue that is dropped waits for its items.
        hang.end.wait(None);
    });
}

/// A worker is about to help another pod, and the one that is to stand by meanwhile is being
/// created: nobody counts on the first one, which cannot come.
#[test]
fn a_rescuer_comes_while_a_helper_has_its_substitute_created() {
    check(Pods::Two, |world| {
        let plain = world.managed();
        // One pod has a worker and its standby, so that it needs no other, the helper's has one.
        plain.queue_on(0, || ()).join().unwrap();
        let _ = world.managed_pool(1);
        let wq = reclaim(world, Builder::managed);
        let hang = world.runtime.set_fault_threads_hang();
        let handles = [0, 1].map(|_| {
            let hang = Arc::clone(&hang);
            plain.queue_on(0, move || {
                while !hang.end.is_set() {
                    thread::yield_now();
                }
            })
        });
        hang.begun.wait(None);
        let theirs = Arc::clone(&hang);
        drop(wq.queue_on(1, move || theirs.end.set()));
        hang.end.wait(None);
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

/// Two who have found a pool without workers have left its first one to the creator, which is late:
/// the pool begins with one.
#[test]
fn a_pool_begins_with_one_worker() {
    check(Pods::Two, |world| {
        let _wq = reclaim(world, Builder::percpu);
        let pool = world.managed_pool(1);
        pool.begin(pool.lock(LockFor::Counts));
        for _ in 0..20 {
            thread::yield_now();
        }
        assert!(pool.lock(LockFor::Counts).core.nr_staying() <= 1);
    });
}

/// The first two queues with rescuers are made at the same time.
#[test]
fn two_queues_ask_for_the_creator() {
    check(Pods::One, |world| {
        let world = *world;
        let makers = [0, 1].map(|cpu| {
            thread::spawn(move || {
                let wq = reclaim(&world, Builder::percpu);
                wq.queue_on(cpu, || ()).join().unwrap();
            })
        });
        for maker in makers {
            maker.join().unwrap();
        }
    });
}

/// The first queue with a rescuer is made when the service leaves, or has left: its items get
/// workers all the same.
#[test]
fn the_creator_is_asked_for_when_the_service_leaves() {
    check(Pods::One, |world| {
        let runtime = world.runtime;
        let stopping = thread::spawn(|| runtime.service.stop());
        let wq = reclaim(world, Builder::percpu);
        assert_eq!(wq.queue_on(0, || 1).join().unwrap(), 1);
        stopping.join().unwrap();
    });
}
