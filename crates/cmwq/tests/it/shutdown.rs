//! Shutting the library down: what is queued is done, nothing new is let in, no thread stays.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Config, DelayedWork, ErrorKind, Periodic, Refused, Work, Workqueue, shutdown};

use crate::drops::Joins;
use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, PATIENCE, within};
use crate::support::{
    Gate, Peak, at_gate, eventually, every_kind, joined, managed, procfs, sys, unbound,
};

pub(crate) const SCENES: &[Scene] = &[
    ("shutdown::all", all),
    ("shutdown::unused", unused),
    ("shutdown::busy", busy),
    ("shutdown::timers", timers),
    ("shutdown::last_handle", last_handle),
    ("shutdown::captured", captured),
    ("shutdown::no_worker", no_worker),
    ("shutdown::destructors", destructors),
    ("shutdown::inside", inside),
    ("shutdown::futures", futures),
    ("shutdown::rearming", rearming),
    ("shutdown::queueing", queueing),
    ("shutdown::child", child),
    ("shutdown::first_use_in_a_child", first_use_in_a_child),
    ("shutdown::rescuers", rescuers),
    ("shutdown::twice", twice),
    ("shutdown::waits", waits),
    ("shutdown::first_waits", first_waits),
    ("shutdown::hooks", hooks),
];

#[test]
fn everything_queued_is_done_and_no_thread_stays() {
    Stage::new("shutdown::all").play();
    Stage::new("shutdown::all").detect("sentinel").play();
}

fn all() {
    let before = procfs::other_tasks().len();
    let rescued = Workqueue::builder("rescued").percpu().mem_reclaim().build().unwrap();
    let bh = Workqueue::builder("bh").bh().build().unwrap();
    let ordered = Workqueue::builder("ordered").ordered().build().unwrap();
    let queues: Vec<_> = every_kind("all").into_iter().chain([rescued, bh, ordered]).collect();
    let handles: Vec<_> = (0..200).map(|i| queues[i % queues.len()].queue(move || i)).collect();
    // A chain goes on to its end.
    let (again, runs) = (queues[0].clone(), Arc::new(AtomicU32::new(0)));
    let theirs = Arc::clone(&runs);
    drop(queues[0].queue(move || {
        thread::sleep(Duration::from_millis(5));
        drop(again.queue(move || theirs.fetch_add(1, Ordering::SeqCst)));
    }));
    shutdown(PATIENCE).unwrap();
    // The last of them may still be on its way out of the kernel.
    eventually("no thread stays", || procfs::other_tasks().len() == before);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    for (i, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), i);
    }
    // Nothing works any more, nothing hangs, nothing is lost silently.
    let work = Work::new(|| unreachable!("nobody runs it"));
    for wq in &queues {
        let late = wq.queue_delayed(|| (), Duration::from_secs(1));
        for error in [wq.queue(|| ()), late].map(|handle| handle.join().unwrap_err()) {
            assert_eq!(error.why(), Some(Refused::ShutDown));
        }
        assert!(wq.is_closed());
        wq.queue_work(&work);
        assert!(!work.is_pending() && !work.flush() && !work.cancel_sync());
        wq.flush();
        wq.drain();
    }
    let error = Workqueue::new("late").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("'late'"), "{error}");
    shutdown(Duration::ZERO).unwrap();
    drop(queues);
    assert_eq!(procfs::other_tasks().len(), before, "none has come back");
}

#[test]
fn what_threads_keep_is_dropped_before_it_returns() {
    Stage::new("shutdown::destructors").play();
}

/// The destructors of thread-locals run when a thread's own function has returned.
fn destructors() {
    struct Slow;
    static KEPT: AtomicU32 = AtomicU32::new(0);
    impl Drop for Slow {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(50));
            KEPT.fetch_sub(1, Ordering::SeqCst);
        }
    }
    thread_local! {
        static OWN: Slow = {
            KEPT.fetch_add(1, Ordering::SeqCst);
            Slow
        };
    }
    let wq = managed("destructors");
    let gate = Gate::new();
    let items: Vec<_> = (0..5)
        .map(|_| {
            let gate = gate.clone();
            wq.queue(move || OWN.with(|_| gate.pass()))
        })
        .collect();
    gate.open();
    items.into_iter().for_each(joined);
    assert!(KEPT.load(Ordering::SeqCst) > 0);
    shutdown(PATIENCE).unwrap();
    assert_eq!(KEPT.load(Ordering::SeqCst), 0);
}

#[test]
fn what_was_never_used_can_be_shut_down() {
    Stage::new("shutdown::unused").play();
}

fn unused() {
    let before = procfs::other_tasks().len();
    shutdown(Duration::ZERO).unwrap();
    assert_eq!(procfs::other_tasks().len(), before, "not made in order to be ended");
    joined(managed("first").queue(|| ()));
}

#[test]
fn the_time_may_be_up() {
    Stage::new("shutdown::busy").play();
}

fn busy() {
    let (slow, done) = (managed("slow"), managed("done"));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let last = slow.queue(move || theirs.pass());
    joined(done.queue(|| ()));
    // Who waits for an item is told before its worker has put it down.
    done.flush();
    let start = Instant::now();
    let error = shutdown(Duration::from_millis(50)).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert_eq!(error.busy(), ["slow"]);
    assert!(error.to_string().contains("'slow'"), "{error}");
    assert!(done.queue(|| ()).join().unwrap_err().is_refused(), "closed all the same");
    assert!(!last.is_finished(), "nothing was interrupted");
    gate.open();
    shutdown(PATIENCE).unwrap();
    last.join().unwrap();
}

#[test]
fn timers_are_disarmed() {
    Stage::new("shutdown::timers").play();
}

fn timers() {
    let wq = managed("timers");
    let work = DelayedWork::new(|| unreachable!("its time does not come"));
    let deferrable = DelayedWork::deferrable(|| unreachable!("nor its"));
    let far = Duration::from_secs(3600);
    assert!(wq.queue_delayed_work(&work, far));
    assert!(wq.queue_delayed_work(&deferrable, far));
    let closure = wq.queue_delayed(|| (), far);
    shutdown(PATIENCE).unwrap();
    let error = closure.join().unwrap_err();
    assert_eq!(error.why(), Some(Refused::ShutDown), "whoever waits is told");
    assert!(!work.is_pending() && !deferrable.is_pending());
    wq.queue_delayed_work(&work, far);
    assert!(!work.is_pending() && !work.cancel_sync());
}

#[test]
fn the_time_is_not_spent_on_the_end_of_a_queue() {
    Stage::new("shutdown::last_handle").play();
}

/// A closure whose timer is disarmed has the last handle of a queue with an item that runs.
fn last_handle() {
    let (armed, held) = (managed("armed"), managed("held"));
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let running = held.queue(move || theirs.pass());
    let refused = armed.queue_delayed(move || drop(held), Duration::from_secs(3600));
    // A worker that drops what is refused may have to be made first.
    eventually("only the running item is left", || {
        let error = within("it", || shutdown(Duration::from_millis(50))).unwrap_err();
        error.busy() == ["held"] && refused.is_finished()
    });
    assert!(refused.join().unwrap_err().is_refused());
    gate.open();
    shutdown(PATIENCE).unwrap();
    running.join().unwrap();
}

#[test]
fn the_time_is_up_though_no_worker_can_be_had() {
    Stage::new("shutdown::no_worker").params("max_workers=2").play();
}

/// What a refused closure captured is dropped by a worker, of which there are none.
fn no_worker() {
    let wq = unbound("hung");
    let (gate, peak) = (Gate::new(), Arc::new(Peak::new()));
    let _opened = Opened(&gate);
    let hung = at_gate(&wq, 2, &gate, &peak);
    eventually("both workers hang", || peak.now() == 2);
    let refused = wq.queue_delayed(|| (), Duration::from_secs(3600));
    let error = within("it", || shutdown(Duration::from_millis(50))).unwrap_err();
    assert_eq!(error.busy(), ["hung"]);
    assert!(!refused.is_finished());
    gate.open();
    hung.into_iter().for_each(joined);
    shutdown(PATIENCE).unwrap();
    assert_eq!(refused.join().unwrap_err().why(), Some(Refused::ShutDown));
}

#[test]
fn what_refused_closures_captured_may_cancel_and_join_others() {
    Stage::new("shutdown::captured").play();
}

struct Cancels(DelayedWork);

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.cancel_sync();
    }
}

/// All of them are refused in one shutdown, those that are cancelled or joined after the others.
fn captured() {
    let wq = managed("captured");
    let (sooner, later) = (Duration::from_secs(60), Duration::from_secs(600));
    let aborted = wq.queue_delayed(|| (), later).abort_on_drop();
    let ticks = Periodic::every(later).start(&wq, |_| unreachable!("its time does not come"));
    let work = DelayedWork::new(|| unreachable!("nor its"));
    assert!(wq.queue_delayed_work(&work, later));
    let joins = Joins(Some(wq.queue_delayed(|| (), later)));
    let cancels = Cancels(work);
    let all = [
        wq.queue_delayed(move || drop(aborted), sooner),
        wq.queue_delayed(move || drop(ticks), sooner),
        wq.queue_delayed(move || drop(cancels), sooner),
        wq.queue_delayed(move || drop(joins), sooner),
    ];
    within("it", || shutdown(PATIENCE)).unwrap();
    for refused in all {
        assert_eq!(refused.join().unwrap_err().why(), Some(Refused::ShutDown));
    }
}

#[test]
fn an_item_that_arms_itself_comes_to_an_end() {
    Stage::new("shutdown::rearming").play();
}

fn rearming() {
    let wq = managed("rearming");
    let (entered, gate, runs) = (Gate::new(), Gate::new(), Arc::new(AtomicU32::new(0)));
    let _opened = Opened(&gate);
    let soon = Duration::from_millis(1);
    let work = DelayedWork::new_cyclic(|me| {
        let (me, wq, runs) = (me.clone(), wq.clone(), Arc::clone(&runs));
        let (entered, gate) = (entered.clone(), gate.clone());
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            entered.open();
            gate.pass();
            assert!(wq.queue_delayed_work(&me.upgrade().unwrap(), soon), "as the kernel says");
        }
    });
    wq.queue_delayed_work(&work, soon);
    entered.pass();
    shutdown(Duration::ZERO).unwrap_err();
    gate.open();
    shutdown(PATIENCE).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(!work.is_pending());
}

#[test]
fn a_work_function_cannot_wait_for_its_own_end() {
    Stage::new("shutdown::inside").play();
}

fn inside() {
    let wq = managed("inside");
    let error = joined(wq.queue(|| shutdown(PATIENCE))).unwrap_err();
    assert!(error.to_string().contains("work function of workqueue 'inside'"), "{error}");
    joined(wq.queue(|| ()));
}

#[test]
fn there_is_nothing_left_to_await() {
    Stage::new("shutdown::futures").play();
}

/// What waits in the caller's place was not needed before.
fn futures() {
    let before = procfs::other_tasks().len();
    let wq = managed("futures");
    joined(wq.queue(|| ()));
    shutdown(PATIENCE).unwrap();
    eventually("no thread stays", || procfs::other_tasks().len() == before);
    wq.flush_async().wait();
    wq.drain_async().wait();
    wq.clone().close().wait();
    drop(wq);
    assert_eq!(procfs::other_tasks().len(), before, "none has come back");
}

#[test]
fn others_queue_meanwhile() {
    Stage::new("shutdown::queueing").play();
    Stage::new("shutdown::queueing").detect("tick").play();
}

fn queueing() {
    let wq = managed("meanwhile");
    let (ran, told) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut refused = false;
                while !refused {
                    let theirs = Arc::clone(&ran);
                    let outcome = wq.queue(move || theirs.fetch_add(1, Ordering::SeqCst)).join();
                    refused = outcome.is_err();
                    told.fetch_add(u32::from(!refused), Ordering::SeqCst);
                }
            });
        }
        eventually("something has run", || ran.load(Ordering::SeqCst) > 100);
        shutdown(PATIENCE).unwrap();
    });
    assert_eq!(ran.load(Ordering::SeqCst), told.load(Ordering::SeqCst), "each was told the truth");
}

#[test]
fn a_child_begins_anew() {
    Stage::new("shutdown::child").play();
}

fn child() {
    let wq = managed("phoenix");
    joined(wq.queue(|| ()));
    shutdown(PATIENCE).unwrap();
    let status = sys::fork(|| {
        assert_eq!(joined(wq.queue(|| 5)), 5);
        shutdown(PATIENCE).unwrap();
        eventually("no thread stays", || procfs::other_tasks().is_empty());
    });
    assert_eq!(status, 0);
}

#[test]
fn a_queue_of_the_parent_is_first_used_behind_a_shutdown() {
    Stage::new("shutdown::first_use_in_a_child").play();
}

/// In a child that has shut its library down, a queue that it inherited is as any other.
fn first_use_in_a_child() {
    let rescued = Workqueue::builder("all").unbound().mem_reclaim().sysfs().build().unwrap();
    let queues: Vec<_> = every_kind("all").into_iter().chain([rescued]).collect();
    let status = sys::fork(|| {
        let own = managed("own");
        joined(own.queue(|| ()));
        shutdown(PATIENCE).unwrap();
        for wq in &queues {
            assert!(wq.queue(|| ()).join().unwrap_err().is_refused());
            assert!(wq.queue_delayed(|| (), Duration::ZERO).join().unwrap_err().is_refused());
            assert_eq!((wq.name(), format!("{wq:?}").is_empty()), ("all", false));
            wq.flush();
            wq.drain();
            let work = Work::new(|| unreachable!("nobody runs it"));
            assert!(wq.queue_work(&work) && !work.is_pending());
        }
        let clones = queues.clone();
        drop(queues.into_iter().map(Workqueue::close).collect::<Vec<_>>());
        drop(clones);
        eventually("no thread stays", || procfs::other_tasks().is_empty());
    });
    assert_eq!(status, 0);
}

#[test]
fn queues_with_rescuers_are_made_meanwhile() {
    Stage::new("shutdown::rescuers").play();
}

/// A queue is known before its rescuer is there, which has to leave as all others do.
fn rescuers() {
    for _ in 0..50 {
        let status = sys::fork(|| {
            let made = Gate::new();
            let build = || Workqueue::builder("made").unbound().mem_reclaim().build();
            thread::scope(|scope| {
                let maker = scope.spawn(|| {
                    let next = || build().ok().inspect(|_| made.open());
                    std::iter::from_fn(next).collect::<Vec<_>>()
                });
                made.pass();
                within("a shutdown", || shutdown(PATIENCE)).unwrap();
                eventually("none is made any more", || maker.is_finished());
                drop(maker.join());
            });
        });
        assert_eq!(status, 0);
    }
}

#[test]
fn each_of_two_calls_waits_for_the_threads() {
    Stage::new("shutdown::twice").play();
}

fn twice() {
    static LEAVING: AtomicU32 = AtomicU32::new(0);
    let may_leave = Gate::new();
    let _opened = Opened(&may_leave);
    let theirs = may_leave.clone();
    Config::builder()
        .on_thread_stop(move |_| {
            LEAVING.fetch_add(1, Ordering::SeqCst);
            theirs.pass();
        })
        .install()
        .unwrap();
    joined(managed("twice").queue(|| ()));
    thread::scope(|scope| {
        scope.spawn(|| shutdown(PATIENCE).unwrap());
        eventually("the first call waits for the threads", || LEAVING.load(Ordering::SeqCst) > 0);
        let (told, tid) = mpsc::channel();
        let opened = may_leave.clone();
        let second = scope.spawn(move || {
            told.send(sys::gettid()).unwrap();
            shutdown(PATIENCE).unwrap();
            assert!(opened.is_open(), "threads are left");
        });
        let tid = tid.recv().unwrap();
        eventually("the second waits, too", || second.is_finished() || procfs::rests(tid));
        may_leave.open();
        second.join().unwrap();
    });
    shutdown(Duration::ZERO).unwrap();
}

#[test]
fn waits_that_begin_in_a_shutdown_last_until_their_items_have_ended() {
    Stage::new("shutdown::waits").play();
    Stage::new("shutdown::first_waits").play();
}

fn waits() {
    managed("earlier").flush_async().wait();
    first_waits();
}

fn first_waits() {
    let (wq, gate) = (managed("slow"), Gate::new());
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let last = wq.queue(move || theirs.pass());
    let error = shutdown(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.busy(), ["slow"]);
    let waits = [wq.flush_async(), wq.drain_async(), wq.clone().close(), wq.clone().close()];
    assert!(waits.iter().all(|wait| !wait.is_over()), "the item runs");
    assert_eq!(shutdown(Duration::from_millis(1)).unwrap_err().busy(), ["slow"]);
    assert!(waits.iter().all(|wait| !wait.is_over()), "the item runs");
    let ending = thread::spawn(|| shutdown(PATIENCE));
    drop(wq);
    gate.open();
    for wait in waits {
        wait.wait();
        assert!(last.is_finished());
    }
    ending.join().unwrap().unwrap();
    last.join().unwrap();
}

#[test]
fn a_thread_of_the_library_waits_for_no_end_of_its_own() {
    Stage::new("shutdown::hooks").play();
}

/// What calls it on such a thread, but is no work function.
fn hooks() {
    static TOLD: Mutex<Vec<(&str, bool)>> = Mutex::new(Vec::new());
    fn shut_down(who: &'static str) {
        let error = shutdown(PATIENCE).unwrap_err();
        let is_said = error.to_string() == "a thread of the library cannot wait for its own end";
        TOLD.lock().unwrap().push((who, is_said && error.busy().is_empty()));
    }
    Config::builder()
        .on_thread_start(|_| shut_down("start"))
        .on_thread_stop(|_| shut_down("stop"))
        .install()
        .unwrap();
    joined(managed("hooks").queue(|| ()));
    // Nothing was closed; and in a child it is not the library's thread any more.
    let status = joined(managed("again").queue(|| {
        sys::fork(|| {
            joined(managed("child").queue(|| ()));
            shutdown(PATIENCE).unwrap();
        })
    }));
    assert_eq!(status, 0, "the child: see above");
    within("its end", || shutdown(PATIENCE)).unwrap();
    let told = TOLD.lock().unwrap();
    assert!(told.iter().all(|(_, is_right)| *is_right), "{told:?}");
    let count = |which| told.iter().filter(|(who, _)| *who == which).count();
    assert!(count("start") > 0 && count("start") == count("stop"), "{told:?}");
}
