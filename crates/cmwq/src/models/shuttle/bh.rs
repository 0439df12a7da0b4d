//! The BH context parks only when there is nothing left, whoever queues meanwhile and by whatever
//! way.

use shuttle::thread;

use super::{Count, Pods, World, check};
use crate::api::builder::Builder;
use crate::api::work::Work;
use crate::api::workqueue::Workqueue;
use crate::os::sync::{Arc, Mutex, lock};

impl World {
    fn bh(&self) -> Workqueue {
        self.queue(Builder::bh)
    }

    /// Two queues need another pool of CPU 0 at the same time.
    fn make_another_pool(&self) {
        let queuers = [(); 2].map(|()| {
            let wq = self.queue(|builder| builder.bh().highpri());
            thread::spawn(move || wq.queue_on(0, || ()).join().unwrap())
        });
        for queuer in queuers {
            queuer.join().unwrap();
        }
    }
}

/// Two threads queue while the context comes, looks and parks: with its lock, and without.
#[test]
fn a_context_misses_nothing() {
    check(Pods::One, |world| {
        let wq = world.bh();
        let count = Arc::new(Count::default());
        let queuers: Vec<_> = (0..2)
            .map(|_| {
                let (wq, count) = (wq.clone(), Arc::clone(&count));
                thread::spawn(move || {
                    for _ in 0..3 {
                        let count = Arc::clone(&count);
                        drop(wq.queue_on(0, move || count.up()));
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for queuer in queuers {
            queuer.join().unwrap();
        }
        wq.flush();
        assert_eq!(count.get(), 6);
    });
}

/// Both pools of a CPU, and more items than a visit runs; items of a queue stay in order.
#[test]
fn both_pools_are_served_beyond_a_visit() {
    check(Pods::One, |world| {
        let queues = [world.bh(), world.queue(|builder| builder.bh().highpri())];
        let logs = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
        for n in 0..12 {
            for (wq, log) in queues.iter().zip(&logs) {
                let log = Arc::clone(log);
                drop(wq.queue_on(1, move || lock(&log).push(n)));
            }
        }
        for (wq, log) in queues.iter().zip(&logs) {
            wq.flush();
            assert!(lock(log).iter().copied().eq(0..12));
        }
    });
}

/// The context is there for one of its pools, and two queues need the other one: one makes it, and
/// the other finds it before the context knows it.
#[test]
fn a_pool_that_is_made_later_is_served() {
    check(Pods::One, |world| {
        world.bh().queue_on(0, || ()).join().unwrap();
        world.make_another_pool();
    });
}

/// The same, and the context is about to leave.
#[test]
fn a_pool_that_is_made_when_the_context_leaves_is_served() {
    check(Pods::One, |world| {
        world.bh().queue_on(0, || ()).join().unwrap();
        let runtime = world.runtime;
        let stopping = thread::spawn(|| runtime.bh.stop());
        world.make_another_pool();
        stopping.join().unwrap();
    });
}

/// The same, and the item that raised the context in vain is taken back before the next one comes.
#[test]
fn a_pool_that_is_made_for_what_is_taken_back_is_served() {
    check(Pods::One, |world| {
        world.bh().queue_on(0, || ()).join().unwrap();
        let finds = world.queue(|builder| builder.bh().highpri());
        let makes = world.queue(|builder| builder.bh().highpri());
        let other = thread::spawn(move || {
            let work = Work::new(|| ());
            assert!(finds.queue_work_on(0, &work));
            work.cancel();
        });
        makes.queue_on(0, || ()).join().unwrap();
        other.join().unwrap();
    });
}

/// An item is queued, taken back and waited for by several, while the context runs it.
#[test]
fn one_item_of_many_minds() {
    check(Pods::One, |world| {
        let wq = world.bh();
        let count = Arc::new(Count::default());
        let work = Work::new({
            let count = Arc::clone(&count);
            move || {
                count.up();
            }
        });
        let other = {
            let (wq, work) = (wq.clone(), work.clone());
            thread::spawn(move || {
                let queued = u32::from(wq.queue_work_on(1, &work));
                work.flush();
                queued
            })
        };
        let queued = u32::from(wq.queue_work_on(0, &work));
        let cancelled = u32::from(work.cancel());
        let queued = queued + other.join().unwrap();
        work.flush();
        wq.flush();
        assert_eq!(count.get() + cancelled, queued);
    });
}

/// Somebody waits for the item with which a visit ends: what lets him go is the context's to run.
#[test]
fn the_last_item_of_a_visit_is_waited_for() {
    check(Pods::One, |world| {
        let wq = world.bh();
        let work = Work::new(|| (0..4).for_each(|_| thread::yield_now()));
        for _ in 1..10 {
            drop(wq.queue_on(0, || ()));
        }
        assert!(wq.queue_work_on(0, &work));
        let more = wq.queue_on(0, || 3);
        work.flush();
        assert!(!work.is_pending());
        assert_eq!(more.join().unwrap(), 3);
    });
}

/// No thread can be had for the context at first.
#[test]
fn items_wait_for_a_context_that_cannot_be_had() {
    check(Pods::One, |world| {
        let wq = world.bh();
        world.runtime.set_fault_no_threads(true);
        let first = wq.queue_on(0, || 1);
        world.runtime.set_fault_no_threads(false);
        let second = wq.queue_on(0, || 2);
        assert_eq!(first.join().unwrap() + second.join().unwrap(), 3);
    });
}

/// An item that queues itself again is cancelled with waiting by two, one of whom enables it last:
/// then it is idle, and the context has nothing of it left.
#[test]
fn cancel_sync_against_the_context() {
    check(Pods::One, |world| {
        let wq = world.bh();
        let (count, own) = (Arc::new(Count::default()), Arc::new(Mutex::new(None::<Work>)));
        let work = Work::new({
            let (wq, count, own) = (wq.clone(), Arc::clone(&count), Arc::clone(&own));
            move || {
                let own = lock(&own).clone();
                if let Some(own) = own.filter(|_| count.up() <= 3) {
                    wq.queue_work_on(0, &own);
                }
            }
        });
        *lock(&own) = Some(work.clone());
        assert!(wq.queue_work_on(0, &work));
        let other = {
            let work = work.clone();
            thread::spawn(move || _ = work.cancel_sync())
        };
        work.cancel_sync();
        other.join().unwrap();
        let runs = count.get();
        assert!(work.busy().is_idle());
        wq.flush();
        assert_eq!(count.get(), runs);
        // The item holds itself and its queue.
        drop(lock(&own).take());
    });
}

/// Who was let in just before all was shut down queues when the contexts leave, or have left.
#[test]
fn an_item_that_comes_late_runs() {
    check(Pods::One, |world| {
        let wq = world.bh();
        assert_eq!(wq.queue(|| 1).join().unwrap(), 1);
        let runtime = world.runtime;
        let stopping = thread::spawn(|| runtime.bh.stop());
        assert_eq!(wq.queue(|| 2).join().unwrap(), 2);
        stopping.join().unwrap();
        assert_eq!(wq.queue_on(1, || 3).join().unwrap(), 3);
    });
}

/// The same, and he makes the pool.
#[test]
fn an_item_that_makes_its_pool_late_runs() {
    check(Pods::One, |world| {
        let wq = world.bh();
        lock(&world.runtime.registry).is_closing = true;
        world.runtime.bh.stop();
        assert_eq!(wq.queue(|| 1).join().unwrap(), 1);
    });
}

/// The same, and no thread can be had for the context at first.
#[test]
fn an_item_that_comes_late_gets_its_context() {
    check(Pods::One, |world| {
        let (wq, runtime) = (world.bh(), world.runtime);
        runtime.set_fault_no_threads(true);
        let stopping = thread::spawn(|| {
            runtime.bh.stop();
            runtime.service.stop();
        });
        let nature = thread::spawn(|| runtime.set_fault_no_threads(false));
        assert_eq!(wq.queue(|| 1).join().unwrap(), 1);
        stopping.join().unwrap();
        nature.join().unwrap();
    });
}
