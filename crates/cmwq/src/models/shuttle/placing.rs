//! Attributes and CPUs change while items are queued.

use std::sync::atomic::{AtomicBool, Ordering};

use shuttle::thread;

use super::{Count, Pods, World, check};
use crate::api::builder::Builder;
use crate::api::work::Work;
use crate::api::workqueue::Workqueue;
use crate::engine::threads::current::blocking;
use crate::engine::tools::attrs::Attrs;
use crate::os::sense::sched::{self, busy};
use crate::os::sync::{Arc, Mutex, lock};
use crate::os::topo::CpuSet;

/// Changes the attributes back and forth.
fn change(wq: &Workqueue, times: i32) {
    for n in 0..times {
        wq.apply_attrs(&Attrs::new().nice(1 - n % 2)).unwrap();
    }
}

/// The items of an ordered queue run in order, one at a time, and all of them.
#[test]
fn an_ordered_queue_stays_ordered() {
    check(Pods::One, |world| {
        let wq = world.queue(Builder::ordered);
        let ran = Arc::new(Mutex::new(Vec::new()));
        let inside = Arc::new(Mutex::new(()));
        let changer = {
            let wq = wq.clone();
            thread::spawn(move || change(&wq, 3))
        };
        for n in 0..4 {
            let (ran, inside) = (Arc::clone(&ran), Arc::clone(&inside));
            drop(wq.queue(move || {
                let _alone = inside.try_lock().expect("two at a time");
                if n == 1 {
                    blocking(thread::yield_now);
                }
                lock(&ran).push(n);
            }));
        }
        changer.join().unwrap();
        wq.flush();
        assert_eq!(*lock(&ran), [0, 1, 2, 3]);
    });
}

/// Nothing that is queued on an unbound queue gets lost, and its limit holds.
#[test]
fn an_unbound_queue_loses_nothing() {
    check(Pods::One, |world| {
        let wq = world.queue(|builder| builder.unbound().max_active(1));
        let (count, inside) = (Arc::new(Count::default()), Arc::new(Mutex::new(())));
        let changer = {
            let wq = wq.clone();
            thread::spawn(move || change(&wq, 2))
        };
        for _ in 0..3 {
            let (count, inside) = (Arc::clone(&count), Arc::clone(&inside));
            drop(wq.queue(move || {
                let _alone = inside.try_lock().expect("two at a time");
                thread::yield_now();
                count.up();
            }));
        }
        changer.join().unwrap();
        wq.flush();
        assert_eq!(count.get(), 3);
    });
}

/// An item that must not run twice at once, and how often it has run.
fn lone_work() -> (Work, Arc<Count>) {
    let (count, inside) = (Arc::new(Count::default()), Mutex::new(()));
    let runs = Arc::clone(&count);
    let work = Work::new(move || {
        let _alone = inside.try_lock().expect("twice at once");
        thread::yield_now();
        runs.up();
    });
    (work, count)
}

/// An item that is queued again while it runs does not run twice at once, wherever its queue leads
/// meanwhile.
#[test]
fn an_item_never_runs_twice_at_once() {
    check(Pods::One, |world| {
        let wq = world.queue(Builder::unbound);
        let (work, count) = lone_work();
        let changer = {
            let wq = wq.clone();
            thread::spawn(move || change(&wq, 2))
        };
        let queued = (0..3).filter(|_| wq.queue_work(&work)).count();
        changer.join().unwrap();
        wq.flush();
        assert_eq!(count.get() as usize, queued);
    });
}

/// The queue is dropped while what was replaced still drains.
#[test]
fn a_queue_goes_with_all_its_pwqs() {
    check(Pods::One, |world| {
        let wq = world.queue(Builder::ordered);
        let count = Arc::new(Count::default());
        for n in 0..3 {
            let count = Arc::clone(&count);
            drop(wq.queue(move || count.up()));
            wq.apply_attrs(&Attrs::new().nice(n % 2)).unwrap();
        }
        drop(wq);
        assert_eq!(count.get(), 3);
    });
}

fn leave_and_return(world: &World) {
    let runtime = world.runtime;
    let all: CpuSet = (0..2).collect();
    runtime.allow(&CpuSet::single(0));
    runtime.allow(&all);
}

/// A CPU leaves and returns: its items run, on queues of every kind.
#[test]
fn items_of_a_cpu_that_leaves_run() {
    for pods in [Pods::One, Pods::Two] {
        check(pods, |world| {
            let world = *world;
            let kinds: [fn(Builder) -> Builder; 3] =
                [Builder::percpu, Builder::managed, Builder::unbound];
            let queues = kinds.map(|kind| world.queue(kind));
            let count = Arc::new(Count::default());
            let nature = thread::spawn(move || leave_and_return(&world));
            for wq in &queues {
                for cpu in 0..2 {
                    let count = Arc::clone(&count);
                    drop(wq.queue_on(cpu, move || {
                        blocking(thread::yield_now);
                        count.up();
                    }));
                }
            }
            nature.join().unwrap();
            queues.iter().for_each(Workqueue::flush);
            assert_eq!(count.get(), 6);
        });
    }
}

/// Two look at once: who looked before a change does not make it undone.
#[test]
fn the_last_look_holds() {
    check(Pods::One, |world| {
        let runtime = world.runtime;
        let truth = Arc::new(Mutex::new((0..2).collect::<CpuSet>()));
        let other = {
            let truth = Arc::clone(&truth);
            thread::spawn(move || runtime.rescan_with(true, || Some(lock(&truth).clone())))
        };
        *lock(&truth) = CpuSet::single(0);
        runtime.rescan_with(true, || Some(lock(&truth).clone()));
        other.join().unwrap();
        assert_eq!(runtime.placement.now().allowed, CpuSet::single(0));
    });
}

/// What an idle item's word says is where it ran last; that pool may be another one by now. The
/// item is queued, cancelled and waited for by it all the same.
#[test]
fn an_items_last_pool_may_be_renewed() {
    static WAS_RENEWED: AtomicBool = AtomicBool::new(false);
    check(Pods::One, |world| {
        let (wq, other) = (world.queue(Builder::unbound), world.queue(Builder::unbound));
        let (work, count) = lone_work();
        let changer = {
            let (wq, other) = (wq.clone(), other.clone());
            thread::spawn(move || {
                for nice in 1..=3 {
                    wq.apply_attrs(&Attrs::new().nice(nice)).unwrap();
                    other.apply_attrs(&Attrs::new().nice(nice + 3)).unwrap();
                    other.queue(|| ()).join().unwrap();
                }
            })
        };
        let mut queued = 0;
        for wq in [&wq, &other, &wq] {
            queued += u32::from(wq.queue_work(&work));
            work.flush();
        }
        queued += u32::from(other.queue_work(&work));
        queued -= u32::from(work.cancel_sync());
        changer.join().unwrap();
        assert_eq!(count.get(), queued);
        for (wq, nice) in [(&wq, 3), (&other, 6)] {
            let pool = wq.handle().cpu_pwq(None).pool;
            assert_eq!((wq.attrs().nice, pool.spec().priority.nice), (nice, nice));
            wq.flush();
        }
        // Seven kinds were asked for, for which a model's table has room.
        if world.runtime.pools().count() < 7 {
            WAS_RENEWED.store(true, Ordering::Relaxed);
        }
    });
    assert!(WAS_RENEWED.load(Ordering::Relaxed), "no schedule has come to it");
}

/// There may be no more pools than a table has room for. Without a new one the old one does, and
/// there is room for the pools of those that no other can stand in for.
#[test]
fn a_pool_that_cannot_be_made_is_done_without() {
    check(Pods::One, |world| {
        let wq = world.queue(Builder::unbound);
        let count = Arc::new(Count::default());
        // More than a model's table of pools holds.
        for nice in -10..10 {
            wq.apply_attrs(&Attrs::new().nice(nice)).unwrap();
            let count = Arc::clone(&count);
            drop(wq.queue(move || count.up()));
        }
        wq.flush();
        assert_eq!(count.get(), 20);
        for kind in [Builder::percpu as fn(Builder) -> Builder, |builder| builder] {
            world.queue(kind).queue(|| ()).join().unwrap();
        }
    });
}

/// The attributes change while others queue and flush, and whoever has the last handle takes the
/// queue down, replaced pwqs and all.
#[test]
fn attributes_change_against_flush_and_destroy() {
    for kind in [Builder::unbound as fn(Builder) -> Builder, Builder::ordered] {
        check(Pods::One, move |world| {
            let wq = world.queue(kind);
            let count = Arc::new(Count::default());
            let changer = {
                let wq = wq.clone();
                thread::spawn(move || change(&wq, 3))
            };
            let flusher = {
                let (wq, count) = (wq.clone(), Arc::clone(&count));
                thread::spawn(move || {
                    let mine = wq.queue(move || count.up());
                    wq.flush();
                    assert!(mine.is_finished(), "a flush returned too soon");
                })
            };
            let theirs = Arc::clone(&count);
            let last = wq.queue(move || theirs.up());
            drop(wq);
            changer.join().unwrap();
            flusher.join().unwrap();
            last.join().unwrap();
            assert_eq!(count.get(), 2);
        });
    }
}

/// A CPU leaves and returns while the limit goes up and down: it holds in every pod, and no slot is
/// lost.
#[test]
fn a_cpu_leaves_while_the_limit_changes() {
    check(Pods::Two, |world| {
        let here = *world;
        let wq = world.queue(|builder| builder.managed().max_active(1));
        let count = Arc::new(Count::default());
        let nature = thread::spawn(move || leave_and_return(&here));
        let setter = {
            let wq = wq.clone();
            thread::spawn(move || [2, 1].map(|max_active| wq.set_max_active(max_active).unwrap()))
        };
        for cpu in [0, 1, 0, 1] {
            let count = Arc::clone(&count);
            drop(wq.queue_on(cpu, move || count.up()));
        }
        nature.join().unwrap();
        setter.join().unwrap();
        wq.flush();
        assert_eq!(count.get(), 4);
    });
}

/// A worker that goes to a CPU which something urgent keeps busy waits there alone: the tick, a
/// change of CPUs, and items elsewhere go on. Has its CPU left meanwhile, it goes on elsewhere.
#[test]
fn nobody_waits_with_a_worker_that_waits_for_its_cpu() {
    check(Pods::Two, |world| {
        let kept_busy = busy::keep_busy(1);
        let wq = world.managed();
        let there = wq.queue_on(1, sched::current_cpu);
        let pool = world.managed_pool(1);
        assert_eq!(pool.guarded_cpus(), Some(CpuSet::single(1)));
        wq.queue_on(0, || ()).join().unwrap();
        world.runtime.allow(&CpuSet::single(0));
        assert_eq!(pool.guarded_cpus(), None);
        drop(kept_busy);
        assert_eq!(there.join().unwrap(), Some(0));
    });
}

/// Nor with one that goes back to its pod.
#[test]
fn nobody_waits_with_a_worker_that_returns_to_its_pod() {
    check(Pods::Two, |world| {
        let kept_busy = busy::keep_busy(1);
        let _wq = world.managed();
        let pool = world.managed_pool(1);
        let returns = thread::spawn(move || pool.go_to_pod());
        thread::yield_now();
        assert_eq!(pool.whereabouts(), CpuSet::single(1));
        drop(kept_busy);
        returns.join().unwrap();
    });
}

/// More pools are needed than there may be: items of the queues that come last are run by workers
/// of another pool.
#[test]
fn a_queue_that_can_have_no_pool_uses_another() {
    check(Pods::One, |world| {
        let queue = |nice| world.queue(|builder| builder.unbound().nice(nice));
        let queues: Vec<_> = (-10..10).map(queue).collect();
        for wq in &queues {
            wq.queue(|| ()).join().unwrap();
        }
        let count = world.runtime.pools().count();
        assert!(count < queues.len(), "{count}");
    });
}
