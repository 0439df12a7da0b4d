//! Forking: the child gets fresh pools, and the parent's items stay the parent's.

mod asking;
mod first;
mod handlers;
mod returning;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::raw::{self, Any, Delay, RawDelayed, WorkItem};
use cmwq::{Attrs, DelayedWork, RcuWork, Refused, Work, Workqueue};

use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::{Opened, PATIENCE, block_on};
use crate::support::{Gate, eventually, every_kind, joined, managed, occupy, procfs, stall, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("fork::items", items),
    ("fork::handles", handles),
    ("fork::scope", scope),
    ("fork::oldest", oldest),
    ("fork::settings", settings),
    ("fork::timers", timers),
    ("fork::in_transit", in_transit),
    ("fork::armed", armed),
    ("fork::in_a_grace_period", in_a_grace_period),
    ("fork::inside", inside),
    ("fork::inside_run", inside_run),
    ("fork::storm", storm),
    ("fork::generations", generations),
    ("fork::using_first", first::of_a_queue),
    ("fork::last_handle", last_handle),
    ("fork::exits", exits),
    ("fork::beginners", beginners),
    ("fork::readers", readers),
    ("fork::first_readers", first_readers),
    ("fork::first_calls", first::calls),
    ("fork::first_use", first::of_the_library),
    ("fork::handlers", handlers::handlers),
    ("fork::returning", returning::returning),
    ("fork::hooking", returning::hooking),
    ("fork::stalling", returning::stalling),
    ("fork::without_threads", asking::without_threads),
    ("fork::given_back", asking::given_back),
    ("fork::results", asking::results),
    ("fork::iterating", asking::iterating),
    ("fork::looking", asking::looking),
    ("fork::flushing", flushing),
];

const FAR: Duration = Duration::from_secs(3600);

fn counting() -> (Work, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = Work::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    (work, runs)
}

fn kinds() -> Vec<Workqueue> {
    let ordered = Workqueue::builder("kept").ordered().build().unwrap();
    let rescued = Workqueue::builder("kept").percpu().mem_reclaim().build().unwrap();
    every_kind("kept").into_iter().chain([ordered, rescued]).collect()
}

#[test]
fn the_child_gets_fresh_pools_and_the_parent_keeps_its_items() {
    Stage::new("fork::items").play();
    Stage::new("fork::items").detect("sentinel").play();
}

fn items() {
    for wq in kinds() {
        // An ordered queue has a limit of 1 already.
        let _limited = wq.set_max_active(1);
        assert_eq!(wq.max_active(), 1);
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let (begun, release) = (entered.clone(), gate.clone());
        let cpu = sys::allowed_cpus()[0];
        let running = wq.queue_on(cpu, move || {
            begun.open();
            release.pass();
        });
        entered.pass();
        // Pending in the parent, behind what runs there.
        let (work, runs) = counting();
        assert!(wq.queue_work_on(cpu, &work));
        let status = sys::fork(|| {
            assert!(procfs::other_tasks().is_empty(), "a child begins with one thread");
            assert_eq!(joined(wq.queue(|| 7)), 7, "the same handle works");
            assert!(!work.is_pending() && work.busy().is_idle(), "it is the parent's");
            assert!(!work.flush() && !work.cancel_sync());
            wq.flush();
            wq.drain();
            assert_eq!(runs.load(Ordering::SeqCst), 0, "the parent's item did not run here");
            assert!(wq.queue_work_on(cpu, &work), "it can be queued here");
            work.flush();
            assert_eq!(runs.load(Ordering::SeqCst), 1);
            assert_eq!(joined(cmwq::system::percpu().queue(|| 8)), 8);
            drop(wq.clone());
            joined(managed("new").queue(|| ()));
        });
        assert_eq!(status, 0);
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        assert!(work.is_pending(), "nothing has changed here");
        gate.open();
        joined(running);
        work.flush();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn what_the_parent_has_queued_is_refused_to_who_waits_in_the_child() {
    Stage::new("fork::handles").play();
}

fn handles() {
    let wq = Workqueue::builder("one by one").ordered().build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let running = occupy(&wq, &gate);
    let ended = managed("ended").queue(|| 5);
    eventually("the closure ends", || ended.is_finished());
    let [joined_later, timed, awaited] = [(); 3].map(|()| wq.queue(|| ()));
    let armed = wq.queue_delayed(|| (), FAR);
    let flushing = wq.flush_async();
    assert!(!flushing.is_over());
    // The child takes them out of here, and the parent again.
    let all = RefCell::new(Some((ended, [running, joined_later, armed], timed, awaited)));
    let status = sys::fork(|| {
        let (ended, lost, timed, awaited) = all.take().unwrap();
        assert_eq!(joined(ended), 5);
        for handle in lost {
            assert!(handle.is_finished());
            let error = handle.join().unwrap_err();
            assert_eq!(error.why(), Some(Refused::Forked));
            assert!(error.is_refused() && error.to_string().contains("forked"), "{error}");
        }
        assert!(timed.join_timeout(FAR).unwrap().unwrap_err().is_refused());
        assert!(block_on(awaited).unwrap_err().is_refused());
        assert!(flushing.is_over());
        assert_eq!(joined(wq.queue(|| 3)), 3);
    });
    assert_eq!(status, 0);
    gate.open();
    let (ended, [running, joined_later, armed], timed, awaited) = all.take().unwrap();
    assert_eq!(joined(ended), 5);
    [running, joined_later, timed, awaited].into_iter().for_each(joined);
    assert!(armed.cancel().is_none());
    flushing.wait();
}

#[test]
fn a_child_awaits_flushes_of_its_own_queue() {
    Stage::new("fork::flushing").play();
}

fn flushing() {
    let wq = managed("both");
    joined(wq.queue(|| ()));
    let status = sys::fork(|| {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let own = managed("child's");
        let running = occupy(&own, &gate);
        let (flush, other) = (own.flush_async(), own.flush_async());
        assert!(!flush.is_over() && !other.is_over(), "an item runs");
        let other = other.wait_timeout(Duration::ZERO).expect_err("an item runs");
        gate.open();
        block_on(flush);
        other.wait();
        assert!(running.is_finished());
    });
    assert_eq!(status, 0);
}

#[test]
fn what_waits_in_the_parent_has_not_waited_in_the_child() {
    Stage::new("fork::oldest").play();
}

/// With more of them than are known one by one.
fn oldest() {
    let wq = Workqueue::builder("sampled").ordered().sample_times(1).build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let running = occupy(&wq, &gate);
    let waiting: Vec<_> = (0..40).map(|_| wq.queue(|| ())).collect();
    assert!(wq.stats().oldest.is_some());
    let status = sys::fork(|| {
        assert_eq!(wq.stats().oldest, None);
        joined(wq.queue(|| ()));
        assert_eq!(wq.stats().oldest, None);
    });
    assert_eq!(status, 0);
    gate.open();
    joined(running);
    waiting.into_iter().for_each(joined);
    assert_eq!(wq.stats().oldest, None);
}

#[test]
fn a_scope_ends_in_the_child() {
    Stage::new("fork::scope").play();
}

/// What the parent's closures borrow is nobody's in the child: they do not run there.
fn scope() {
    let wq = Workqueue::builder("one by one").ordered().build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let running = occupy(&wq, &gate);
    let (mut ours, mut theirs) = ([0; 2], 0);
    let mut child = None;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        wq.scope(|scope| {
            let [one, other] = &mut ours;
            let lost = scope.queue(move || *one = 1);
            child = sys::split();
            if child.is_none() {
                assert!(lost.is_finished());
                let refused = lost.join().unwrap_err();
                assert!(refused.downcast_ref::<&str>().unwrap().contains("forked"));
                scope.queue(|| theirs = 1).join().unwrap();
                drop(scope.queue(move || *other = 1));
            } else {
                gate.open();
            }
        });
    }));
    let Some(child) = child else {
        sys::leave(ended.is_err() && (ours, theirs) == ([0, 1], 1));
    };
    ended.unwrap();
    joined(running);
    assert_eq!((ours, theirs), ([1, 0], 0));
    assert_eq!(sys::end_of(child), 0);
}

#[test]
fn limits_and_attributes_are_inherited() {
    Stage::new("fork::settings").play();
}

fn settings() {
    let wq = Workqueue::builder("set").unbound().max_active(3).build().unwrap();
    wq.apply_attrs(&Attrs::new().nice(sys::nicer(4))).unwrap();
    wq.set_max_active(5).unwrap();
    wq.set_min_active(2).unwrap();
    let status = sys::fork(|| {
        assert_eq!((wq.max_active(), wq.min_active()), (5, 2));
        assert_eq!(wq.attrs(), Attrs::new().nice(sys::nicer(4)));
        assert_eq!(joined(wq.queue(sys::nice)), sys::nicer(4));
        assert_eq!(wq.name(), "set");
    });
    assert_eq!(status, 0);
}

#[test]
fn the_parents_timers_do_not_expire_in_the_child() {
    Stage::new("fork::timers").play();
}

fn timers() {
    let wq = managed("timers");
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = DelayedWork::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let [again, flushed, cancelled] = [(); 3].map(|()| DelayedWork::new(|| ()));
    for work in [&work, &again, &flushed, &cancelled] {
        assert!(wq.queue_delayed_work(work, FAR));
    }
    let status = sys::fork(|| {
        assert!(wq.queue_delayed_work(&work, FAR), "it can be armed here");
        assert!(!wq.queue_delayed_work(&work, FAR), "once");
        assert!(wq.mod_delayed_work(&work, Duration::from_millis(2)));
        while runs.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        assert!(!wq.mod_delayed_work(&again, FAR), "it was idle here");
        assert!(again.cancel());
        assert!(!flushed.flush() && !flushed.is_pending(), "its timer is not for us");
        assert!(!cancelled.cancel_sync());
        assert!(wq.queue_delayed_work(&cancelled, Duration::ZERO));
        cancelled.flush();
    });
    assert_eq!(status, 0);
    for work in [&work, &again, &flushed, &cancelled] {
        assert!(work.is_pending() && work.cancel(), "they are armed here");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn an_item_that_a_thread_of_the_parent_was_about_to_queue_can_be_queued() {
    Stage::new("fork::in_transit").play();
}

fn in_transit() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count(_: *mut WorkItem) {
        RUNS.fetch_add(1, Ordering::SeqCst);
    }

    let wq = managed("transit");
    let delayed: &'static RawDelayed = Box::leak(Box::new(RawDelayed::new(count, false)));
    let place = NonNull::from(delayed);
    // SAFETY: the item is the structure's first member, and lives for ever.
    let item: &'static WorkItem = unsafe { place.cast().as_ref() };
    let any = Any::Delayed(delayed);
    let queue = |delay| {
        let delay = Delay { after: delay, expires: 0 };
        // SAFETY: it lives for ever.
        unsafe { raw::queue_delayed(&wq, None, place, delay) }
    };
    // SAFETY: as above.
    let flush = || unsafe { raw::flush_delayed(place) };
    // Before its first run, and after one.
    for before in 0..2 {
        // As a thread does that has not come to a queue with it.
        assert!(!item.claim().is_pending());
        let takes: [&dyn Fn() -> bool; 4] = [
            // SAFETY: as above.
            &|| unsafe { !raw::cancel_sync(any) },
            &|| !flush() && raw::busy(item) == (false, false),
            &|| queue(Duration::from_millis(1)),
            // SAFETY: as above.
            &|| unsafe { !raw::disable(any) && raw::enable(any) },
        ];
        for take in takes {
            let status = sys::fork(|| {
                assert!(take());
                // If it was not queued just now.
                let _ = queue(Duration::ZERO);
                assert!(flush() || RUNS.load(Ordering::SeqCst) == before + 1);
                assert_eq!(RUNS.load(Ordering::SeqCst), before + 1);
            });
            assert_eq!(status, 0);
        }
        item.release(item.word());
        assert!(queue(Duration::ZERO));
        flush();
    }
}

#[test]
fn what_the_parent_has_armed_can_be_queued_at_once() {
    Stage::new("fork::armed").play();
}

fn armed() {
    let wq = managed("armed");
    let runs = Arc::new(AtomicU32::new(0));
    let [never_ran, ran] = [(); 2].map(|()| {
        let theirs = Arc::clone(&runs);
        DelayedWork::new(move || _ = theirs.fetch_add(1, Ordering::SeqCst))
    });
    assert!(wq.queue_delayed_work(&ran, Duration::ZERO));
    ran.flush();
    for work in [&never_ran, &ran] {
        assert!(wq.queue_delayed_work(work, FAR));
        let before = runs.load(Ordering::SeqCst);
        let status = sys::fork(|| {
            assert!(!work.is_pending() && work.busy().is_idle(), "it is the parent's");
            assert!(wq.queue_delayed_work(work, Duration::ZERO));
            work.flush();
            assert_eq!(runs.load(Ordering::SeqCst), before + 1);
            assert!(wq.queue_delayed_work(work, FAR) && work.is_pending());
            // And the child's, in turn.
            let status = sys::fork(|| {
                assert!(!work.is_pending() && wq.queue_delayed_work(work, Duration::ZERO));
                work.flush();
                assert_eq!(runs.load(Ordering::SeqCst), before + 2);
            });
            assert_eq!(status, 0);
            assert!(work.cancel());
        });
        assert_eq!(status, 0);
        assert!(work.is_pending() && work.cancel(), "it is armed here");
    }
}

#[test]
fn an_item_that_waits_for_readers_at_the_fork_can_be_queued() {
    Stage::new("fork::in_a_grace_period").play();
}

fn in_a_grace_period() {
    if cfg!(feature = "liburcu") {
        return skip("liburcu's grace periods do not go on in a child by themselves");
    }
    let wq = managed("grace");
    let runs = Arc::new(AtomicU32::new(0));
    let [never_ran, ran] = [(); 2].map(|()| {
        let theirs = Arc::clone(&runs);
        RcuWork::new(move || _ = theirs.fetch_add(1, Ordering::SeqCst))
    });
    assert!(wq.queue_rcu_work(&ran));
    ran.flush();
    let (inside, leave) = (Gate::new(), Gate::new());
    thread::scope(|scope| {
        let _opened = Opened(&leave);
        scope.spawn(|| {
            let _section = cmwq::rcu_read_lock();
            inside.open();
            leave.pass();
        });
        inside.pass();
        for work in [&never_ran, &ran] {
            assert!(wq.queue_rcu_work(work));
            let before = runs.load(Ordering::SeqCst);
            let status = sys::fork(|| {
                assert!(!work.is_pending() && !work.flush(), "it is the parent's");
                assert!(wq.queue_rcu_work(work));
                work.flush();
                assert_eq!(runs.load(Ordering::SeqCst), before + 1);
            });
            assert_eq!(status, 0);
            assert!(work.is_pending(), "nothing has changed here");
        }
    });
    for work in [&never_ran, &ran] {
        work.flush();
    }
    assert_eq!(runs.load(Ordering::SeqCst), 3);
}

#[test]
fn a_work_function_may_fork() {
    Stage::new("fork::inside").play();
}

fn inside() {
    for wq in kinds() {
        let again = wq.clone();
        let status = joined(wq.queue(move || {
            sys::fork(|| {
                assert_eq!(cmwq::current_work(), None, "the child is no worker");
                // It would wait for itself if it were still that item.
                again.flush();
                assert_eq!(joined(again.queue(|| 3)), 3);
                assert_eq!(cmwq::blocking(|| 4), 4);
            })
        }));
        assert_eq!(status, 0);
    }
}

#[test]
fn a_function_that_its_caller_runs_may_fork() {
    Stage::new("fork::inside_run").play();
}

fn inside_run() {
    let (wq, here) = (managed("parent's"), sys::gettid());
    let status = wq.run(|| {
        assert_eq!(sys::gettid(), here);
        sys::fork(|| {
            assert_eq!(cmwq::current_work(), None, "the child runs no item");
            assert_eq!(cmwq::raw::current_func(), 0);
            // One of them has the number that the parent's queue has there.
            let own = [(); 3].map(|()| managed("own"));
            for wait in [Workqueue::flush, Workqueue::drain] {
                for wq in &own {
                    let ended = slow(wq);
                    wait(wq);
                    assert!(ended.load(Ordering::SeqCst), "it would have waited for itself");
                }
            }
            for wq in own {
                let ended = slow(&wq);
                drop(wq);
                assert!(ended.load(Ordering::SeqCst), "the queue's end was left to others");
            }
            let notices = cmwq::notices();
            assert!(!notices.iter().any(|text| text.contains("inside")), "{notices:?}");
            cmwq::shutdown(PATIENCE).unwrap();
        })
    });
    assert_eq!(status.unwrap(), 0);

    let child = wq.run(|| {
        let child = wq.run(sys::split).unwrap();
        if child.is_none() {
            sys::leave(cmwq::current_work().is_none());
        }
        child
    });
    assert_eq!(sys::end_of(child.unwrap().unwrap()), 0, "what is around it is the parent's, too");
}

/// Queues an item that takes long enough for who does not wait for it to be caught. Whether it has
/// ended.
fn slow(wq: &Workqueue) -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&ended);
    drop(wq.queue(move || {
        thread::sleep(Duration::from_millis(50));
        theirs.store(true, Ordering::SeqCst);
    }));
    ended
}

#[test]
fn a_child_may_fork_again() {
    Stage::new("fork::generations").play();
}

fn generations() {
    let wq = managed("dynasty");
    let (work, runs) = counting();
    assert!(wq.queue_work(&work));
    work.flush();
    let status = sys::fork(|| {
        assert!(wq.queue_work(&work));
        work.flush();
        let status = sys::fork(|| {
            assert!(wq.queue_work(&work));
            work.flush();
            assert_eq!(runs.load(Ordering::SeqCst), 3);
        });
        assert_eq!(status, 0);
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        joined(wq.queue(|| ()));
    });
    assert_eq!(status, 0);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn timers_of_the_parent_do_not_keep_a_queue_in_the_child() {
    Stage::new("fork::last_handle").play();
}

fn last_handle() {
    let wq = managed("last");
    let [one, other] = [(); 2].map(|()| DelayedWork::new(|| ()));
    assert!(wq.queue_delayed_work(&one, FAR) && wq.queue_delayed_work(&other, FAR));
    let wq = RefCell::new(Some(wq));
    let status = sys::fork(|| {
        let wq = wq.take().unwrap();
        let ended = slow(&wq);
        drop(wq);
        assert!(ended.load(Ordering::SeqCst), "the last handle's end waits");
    });
    assert_eq!(status, 0);
    // In the child's child, the child's.
    let status = sys::fork(|| {
        let own = wq.take().unwrap();
        assert!(own.queue_delayed_work(&one, FAR));
        let wq = RefCell::new(Some(own));
        let status = sys::fork(|| {
            let wq = wq.take().unwrap();
            let ended = slow(&wq);
            drop(wq);
            assert!(ended.load(Ordering::SeqCst), "the last handle's end waits");
        });
        assert_eq!(status, 0);
        assert!(one.cancel());
    });
    assert_eq!(status, 0);
    assert!(one.cancel() && other.cancel());
}

#[test]
fn a_process_may_end_with_items_queued_and_running() {
    Stage::new("fork::exits").play();
}

fn exits() {
    for _ in 0..20 {
        let status = sys::fork(|| {
            let entered = Gate::new();
            for wq in kinds() {
                for _ in 0..20 {
                    let theirs = entered.clone();
                    drop(wq.queue(move || {
                        theirs.open();
                        thread::sleep(Duration::from_millis(1));
                    }));
                }
                drop(wq.queue_delayed(|| (), Duration::from_micros(300)));
                // Its end would wait for all of them.
                std::mem::forget(wq);
            }
            entered.pass();
            sys::exit(3);
        });
        assert_eq!(status, 3 << 8, "it ended as it meant to");
    }
}

/// Whatever locks other threads hold at the time.
#[test]
fn forks_in_the_midst_of_everything() {
    Stage::new("fork::storm").play();
}

fn storm() {
    let (wq, stop) = (managed("storm"), AtomicBool::new(false));
    let timed = DelayedWork::new(|| ());
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(wq.queue(|| ()));
                    wq.mod_delayed_work(&timed, Duration::from_micros(50));
                    let short = Workqueue::builder("short").unbound().build().unwrap();
                    joined(short.queue(|| ()));
                    let _ = cmwq::notices();
                    wq.flush();
                }
            });
        }
        for _ in 0..30 {
            let status = sys::fork(|| {
                assert_eq!(joined(wq.queue(|| 1)), 1);
                joined(wq.queue_delayed(|| (), Duration::from_millis(1)));
                wq.flush();
            });
            assert_eq!(status, 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
    wq.flush();
}

/// A thread of Rust's library takes a lock of that library when it begins. The child does not have
/// the thread, and must not need the lock.
#[test]
fn a_thread_of_the_parent_may_be_beginning() {
    Stage::new("fork::beginners").play();
}

fn beginners() {
    let wq = managed("beginning");
    joined(wq.queue(|| ()));
    let gate = Gate::new();
    thread::scope(|scope| {
        let _opened = Opened(&gate);
        // What that lock is for is a tree whose nodes have room for eleven, so not every thread
        // allocates under it.
        for _ in 0..12 {
            let mut nr_stalls = 0;
            while stall::beginner(nr_stalls, || child_uses_everything(&wq)) {
                nr_stalls += 1;
            }
            assert!(nr_stalls < 50, "each allocation of a thread that begins was one stall");
            scope.spawn(|| gate.pass());
        }
    });
}

fn child_uses_everything(inherited: &Workqueue) {
    let status = sys::fork(|| {
        stall::release();
        assert_eq!(joined(inherited.queue(|| 1)), 1);
        let own = Workqueue::builder("own").unbound().nice(sys::nice().clamp(0, 18) + 1);
        let own = own.build().unwrap();
        assert_eq!(joined(own.queue(|| 2)), 2);
        let rescued = Workqueue::builder("rescued").percpu().mem_reclaim().build().unwrap();
        assert_eq!(joined(rescued.queue_delayed(|| 3, Duration::from_micros(10))), 3);
        cmwq::shutdown(PATIENCE).unwrap();
    });
    assert_eq!(status, 0);
}

#[test]
fn readers_of_the_parent_are_not_waited_for_in_the_child() {
    Stage::new("fork::readers").play();
}

fn readers() {
    let wq = managed("grace");
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = RcuWork::new(move || _ = theirs.fetch_add(1, Ordering::SeqCst));
    let (inside, leave) = (Gate::new(), Gate::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            let _section = cmwq::rcu_read_lock();
            inside.open();
            leave.pass();
        });
        let _opened = Opened(&leave);
        inside.pass();
        let own = cmwq::rcu_read_lock();
        let status = sys::fork(|| {
            assert!(wq.queue_rcu_work(&work));
            assert!(work.is_pending(), "the forking thread is inside");
            drop(own);
            work.flush();
            assert_eq!(runs.load(Ordering::SeqCst), 1);
        });
        assert_eq!(status, 0);
    });
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

/// Its parent has used nothing but a section, which another thread is inside of.
#[test]
fn a_child_waits_for_no_reader_of_a_parent_that_only_reads() {
    Stage::new("fork::first_readers").play();
}

fn first_readers() {
    let (inside, gate) = (Gate::new(), Gate::new());
    let (told, may_leave) = (inside.clone(), gate.clone());
    let other = thread::spawn(move || {
        let _section = cmwq::rcu_read_lock();
        told.open();
        may_leave.pass();
    });
    inside.pass();
    let status = sys::fork(|| {
        let (wq, runs) = (managed("child"), Arc::new(AtomicU32::new(0)));
        let theirs = Arc::clone(&runs);
        let work = RcuWork::new(move || {
            theirs.fetch_add(1, Ordering::SeqCst);
        });
        assert!(wq.queue_rcu_work(&work));
        eventually("it runs", || runs.load(Ordering::SeqCst) == 1);
    });
    assert_eq!(status, 0, "a child of a reader");
    gate.open();
    other.join().unwrap();
}
