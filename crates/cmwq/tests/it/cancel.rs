//! Cancelling, disabling and enabling, beyond the table of `matrix`.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use cmwq::{Attrs, DelayedWork, Work, Workqueue};

use crate::support::wait::{Opened, within};
use crate::support::{Gate, eventually, every_kind, gated_work, joined, managed, procfs, sys};

const MS: Duration = Duration::from_millis(1);

/// An item that counts its runs and does something more that needs itself.
fn selfish(more: impl Fn(&Work, u32) + Send + Sync + 'static) -> (Work, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let own = Arc::new(OnceLock::<Work>::new());
    let work = Work::new({
        let (runs, own) = (Arc::clone(&runs), Arc::clone(&own));
        move || {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            more(own.get().unwrap(), run);
        }
    });
    own.set(work.clone()).unwrap();
    (work, runs)
}

/// Conformance (f): cancel_sync of an item that always queues itself again comes to an end, and the
/// item is idle.
#[test]
fn cancel_sync_ends_an_item_that_queues_itself() {
    for wq in every_kind("self-requeue") {
        let queue = wq.clone();
        let (work, runs) = selfish(move |own, _| {
            queue.queue_work(own);
        });
        assert!(wq.queue_work(&work));
        eventually("it has gone round a few times", || runs.load(Ordering::SeqCst) > 10);
        let theirs = work.clone();
        within("cancel_sync", move || theirs.cancel_sync());
        let after = runs.load(Ordering::SeqCst);
        assert!(work.busy().is_idle());
        wq.flush();
        assert_eq!(runs.load(Ordering::SeqCst), after, "nothing came after it");
        assert!(wq.queue_work(&work), "it can be queued again");
        assert!(within("the second cancel", move || {
            work.cancel_sync();
            work.busy().is_idle()
        }));
    }
}

#[test]
fn cancel_sync_ends_a_delayed_item_that_rearms_itself() {
    let wq = managed("rearm");
    let (runs, own) = (Arc::new(AtomicU32::new(0)), Arc::new(OnceLock::<DelayedWork>::new()));
    let work = DelayedWork::new({
        let (runs, own, wq) = (Arc::clone(&runs), Arc::clone(&own), wq.clone());
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            wq.queue_delayed_work(own.get().unwrap(), MS);
        }
    });
    own.set(work.clone()).unwrap();
    assert!(wq.queue_delayed_work(&work, MS));
    eventually("it has come a few times", || runs.load(Ordering::SeqCst) > 3);
    let theirs = work.clone();
    within("cancel_sync", move || theirs.cancel_sync());
    let after = runs.load(Ordering::SeqCst);
    assert!(!work.is_pending());
    // Were its timer armed still, it would come before this one.
    joined(wq.queue_delayed(|| (), 20 * MS));
    assert_eq!(runs.load(Ordering::SeqCst), after);
}

#[test]
fn while_cancel_sync_waits_nobody_can_queue_the_item() {
    let wq = managed("refusing");
    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let from_inside = Arc::new(Mutex::new(None));
    let (work, runs) = {
        let (entered, gate, wq, from_inside) =
            (entered.clone(), gate.clone(), wq.clone(), Arc::clone(&from_inside));
        selfish(move |own, run| {
            entered.open();
            gate.pass();
            if run == 1 {
                *from_inside.lock().unwrap() = Some(wq.queue_work(own));
            }
        })
    };
    assert!(wq.queue_work(&work));
    entered.pass();
    let canceller = {
        let work = work.clone();
        thread::spawn(move || (work.cancel_sync(), work.busy().is_idle()))
    };
    eventually("it is disabled", || {
        // Queued before the canceller came, it is taken off again by it.
        !wq.queue_work(&work) && !work.is_pending()
    });
    assert!(!wq.queue_work(&work), "disabled as long as somebody waits");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    gate.open();
    let (_, is_idle) = canceller.join().unwrap();
    assert!(is_idle);
    assert_eq!(*from_inside.lock().unwrap(), Some(false), "the item itself could not either");
    assert!(wq.queue_work(&work), "enabled afterwards");
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

/// Conformance (g).
#[test]
fn disabling_nests() {
    let wq = managed("nested");
    let (work, runs) = selfish(|_, _| ());
    for _ in 0..3 {
        assert!(!work.disable());
    }
    assert!(!wq.queue_work(&work));
    assert!(!work.enable() && !work.enable(), "still disabled");
    assert!(!wq.queue_work(&work));
    assert!(work.enable(), "as often as it was disabled");
    assert!(wq.queue_work(&work));
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1, "what was refused is lost");
}

#[test]
fn disabling_stops_at_its_greatest_depth() {
    let wq = managed("deep");
    let (work, _) = selfish(|_, _| ());
    for _ in 0..65_536 {
        work.disable();
    }
    assert!(cmwq::notices().iter().any(|notice| notice.contains("disabled more than 65535")));
    for _ in 1..65_535 {
        assert!(!work.enable());
    }
    assert!(work.enable(), "the depth is 65535 at most");
    assert!(wq.queue_work(&work));
    work.flush();
}

#[test]
fn enabling_once_too_often_is_said_and_takes_a_pending_item_off() {
    let wq = Workqueue::builder("unbalanced").percpu().max_active(1).build().unwrap();
    let cpu = sys::allowed_cpus()[0];
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    drop(wq.queue_on(cpu, move || theirs.pass()));
    let (work, runs) = selfish(|_, _| ());
    assert!(wq.queue_work_on(cpu, &work));
    assert!(work.enable(), "it was not disabled");
    assert!(cmwq::notices().iter().any(|notice| notice.contains("enabled more often")));
    assert!(!work.is_pending());
    gate.open();
    wq.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(wq.queue_work_on(cpu, &work), "it is sound");
    wq.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// It does not wait for the timer, however far away that is.
#[test]
fn enabling_once_too_often_takes_the_timer() {
    let wq = managed("enabled and armed");
    let runs = Arc::new(AtomicU32::new(0));
    for is_deferrable in [false, true] {
        let theirs = Arc::clone(&runs);
        let func = move || _ = theirs.fetch_add(1, Ordering::SeqCst);
        let work =
            if is_deferrable { DelayedWork::deferrable(func) } else { DelayedWork::new(func) };
        assert!(wq.queue_delayed_work(&work, Duration::MAX));
        let armed = work.clone();
        assert!(within("enable", move || armed.enable()), "it was not disabled");
        assert!(!work.is_pending() && work.busy().is_idle());
        assert!(wq.queue_delayed_work(&work, Duration::ZERO), "it can be queued again");
        wq.flush();
        drop(work);
        assert_eq!((runs.swap(0, Ordering::SeqCst), Arc::strong_count(&runs)), (1, 1));
    }
}

#[test]
fn enable_and_queue_queues_at_depth_zero_only() {
    let wq = managed("enable and queue");
    let (work, runs) = selfish(|_, _| ());
    work.disable();
    work.disable();
    assert!(!wq.enable_and_queue_work(&work));
    assert!(work.busy().is_idle());
    assert!(wq.enable_and_queue_work(&work));
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn cancel_sync_leaves_it_disabled_if_it_was() {
    let wq = managed("keeps");
    let (work, _) = selfish(|_, _| ());
    work.disable();
    assert!(!work.cancel_sync());
    assert!(!wq.queue_work(&work));
    assert!(work.enable());
    assert!(wq.queue_work(&work));
    work.flush();
}

#[test]
fn a_disabled_delayed_item_is_neither_queued_nor_timed() {
    let wq = managed("disabled delay");
    let work = DelayedWork::new(|| ());
    work.disable();
    assert!(!wq.queue_delayed_work(&work, MS));
    assert!(!wq.queue_delayed_work(&work, Duration::ZERO));
    assert!(!wq.mod_delayed_work(&work, MS));
    assert!(!work.is_pending());
    assert!(work.enable());
    assert!(wq.queue_delayed_work(&work, 3600 * 1000 * MS));
    assert!(work.is_pending() && work.cancel());
}

#[test]
fn an_item_may_disable_and_enable_itself() {
    let wq = managed("self-disable");
    let seen = Arc::new(Mutex::new(None));
    let (queue, theirs) = (wq.clone(), Arc::clone(&seen));
    let (work, runs) = selfish(move |own, run| {
        if run == 1 {
            let disabled = own.disable();
            let refused = queue.queue_work(own);
            let enabled = own.enable();
            *theirs.lock().unwrap() = Some((disabled, refused, enabled, queue.queue_work(own)));
        }
    });
    assert!(wq.queue_work(&work));
    eventually("both runs", || runs.load(Ordering::SeqCst) == 2);
    assert_eq!(*seen.lock().unwrap(), Some((false, false, true, true)));
    wq.flush();
}

#[test]
fn an_item_that_queues_and_cancels_itself_runs_once() {
    let wq = managed("second thoughts");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (queue, theirs) = (wq.clone(), Arc::clone(&seen));
    let (work, runs) = selfish(move |own, _| {
        let queued = queue.queue_work(own);
        let busy = own.busy();
        let again = queue.queue_work(own);
        let cancelled = [own.cancel(), own.cancel()];
        theirs.lock().unwrap().push((queued, busy, again, cancelled, own.busy()));
    });
    assert!(wq.queue_work(&work));
    work.flush();
    wq.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let seen = seen.lock().unwrap();
    let [(queued, busy, again, cancelled, after)] = seen[..] else { panic!("{seen:?}") };
    assert!(queued && busy.pending && busy.running && !again);
    assert_eq!(cancelled, [true, false]);
    assert!(!after.pending && after.running);
}

/// An item cannot wait for itself: the call says so and returns.
#[test]
fn waiting_for_oneself_is_reported_with_both_names() {
    let wq = managed("ouroboros");
    let queue = wq.clone();
    let seen = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&seen);
    let (work, _) = selfish(move |own, _| {
        let flushed = own.flush();
        let cancelled = own.cancel_sync();
        queue.flush();
        queue.drain();
        *theirs.lock().unwrap() = Some((flushed, cancelled));
    });
    assert!(wq.queue_work(&work));
    eventually("it returns", || seen.lock().unwrap().is_some());
    assert_eq!(*seen.lock().unwrap(), Some((false, false)));
    let notices = cmwq::notices();
    let said =
        |what: &str| notices.iter().any(|said| said.contains("'ouroboros'") && said.contains(what));
    assert!(said("flushed from inside its own function"), "{notices:?}");
    assert!(said("cancelled or disabled, with waiting, from inside"), "{notices:?}");
    assert!(said("flushed from inside one of its own items"), "{notices:?}");
    assert!(said("drained from inside one of its own items"), "{notices:?}");
    assert!(said("cancel::selfish<"), "the item is named");
    wq.flush();
}

/// An ordered queue that has moved to another pool runs its next item there behind this one.
#[test]
fn an_item_of_a_queue_that_has_moved_does_not_wait_for_itself() {
    let wq = Workqueue::builder("moved self").ordered().build().unwrap();
    let (queue, (send, seen)) = (wq.clone(), mpsc::channel());
    let (work, _) = selfish(move |own, run| {
        if run == 1 {
            queue.apply_attrs(&Attrs::new().nice(sys::nicer(7))).unwrap();
            let queued = queue.queue_work(own);
            send.send((queued, own.flush(), own.cancel_sync(), own.cancel_sync())).unwrap();
        }
    });
    assert!(wq.queue_work(&work));
    let seen = within("it returns", move || seen.recv());
    // What was queued again is taken back at once, and the last call finds its own run alone.
    assert_eq!(seen, Ok((true, false, true, false)));
    let notices = cmwq::notices();
    let said = |what: &str| {
        notices.iter().filter(|said| said.contains("'moved self'") && said.contains(what)).count()
    };
    assert_eq!(said("flushed from inside its own function"), 1, "{notices:?}");
    wq.flush();
}

/// Since an ordered queue has moved, items that run are looked for in all pools. The caller's own
/// run is not what it waits for.
#[test]
fn an_item_that_has_run_elsewhere_does_not_wait_for_itself() {
    let moved = Workqueue::builder("has moved").ordered().build().unwrap();
    joined(moved.queue(|| ()));
    moved.apply_attrs(&Attrs::new().nice(sys::nicer(7))).unwrap();
    let wq = managed("self at home");
    let other = Workqueue::builder("self elsewhere").unbound().build().unwrap();
    let (send, seen) = mpsc::channel();
    let (work, _) = selfish(move |own, run| {
        if run == 1 {
            let queued = other.queue_work(own);
            other.flush();
            send.send((queued, own.flush(), own.cancel_sync())).unwrap();
        }
    });
    assert!(wq.queue_work(&work));
    let seen = within("it returns", move || seen.recv());
    assert_eq!(seen, Ok((true, false, false)));
    let notices = cmwq::notices();
    assert!(!notices.iter().any(|said| said.contains("'self at home'")), "{notices:?}");
    wq.flush();
}

/// A flush that waits for an item which is then cancelled returns when the barrier has had its
/// turn, not before the items in front of it.
#[test]
fn a_flush_outlives_the_cancelled_item_it_waits_for() {
    let wq = Workqueue::builder("flush cancelled").ordered().build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let blocker = wq.queue(move || theirs.pass());
    let (work, runs) = selfish(|_, _| ());
    assert!(wq.queue_work(&work));
    let (tid, flusher) = {
        let (work, (send, receive)) = (work.clone(), std::sync::mpsc::channel());
        let flusher = thread::spawn(move || {
            send.send(sys::gettid()).unwrap();
            work.flush()
        });
        (receive.recv().unwrap(), flusher)
    };
    eventually("the flusher waits", || procfs::rests(tid));
    assert!(work.cancel());
    // The item was inactive: its barrier does not wait for the slot that it will never take.
    assert!(flusher.join().unwrap(), "it waited");
    gate.open();
    joined(blocker);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn mod_delayed_work_changes_the_time_of_a_timer_both_ways() {
    let wq = managed("mod");
    let work = DelayedWork::new(|| ());
    assert!(!wq.mod_delayed_work(&work, 3600 * 1000 * MS), "it was idle");
    assert!(work.is_pending());
    let start = std::time::Instant::now();
    assert!(wq.mod_delayed_work(&work, 5 * MS), "it was pending");
    eventually("it has run", || !work.is_pending());
    assert!(start.elapsed() >= 5 * MS);
    assert!(start.elapsed() < Duration::from_secs(3000));
}

/// What waits behind `max_active` is taken from there, and does not run when the slot comes.
#[test]
fn mod_delayed_work_takes_an_inactive_item() {
    let wq = Workqueue::builder("mod inactive").ordered().build().unwrap();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let blocker = wq.queue(move || theirs.pass());
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = DelayedWork::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    assert!(wq.queue_delayed_work(&work, Duration::ZERO));
    assert!(wq.mod_delayed_work(&work, 3600 * 1000 * MS));
    gate.open();
    joined(blocker);
    wq.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(work.is_pending());
    work.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Cancelled, disabled, enabled, queued and re-timed by several threads at once, an item is sound
/// in the end, and every successful queueing led to a run or a cancellation.
#[test]
fn many_hands_on_one_item() {
    let wq = managed("many hands");
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&runs);
    let work = DelayedWork::new(move || {
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    let (queued, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    let count = |counter: &AtomicU32, yes: bool| counter.fetch_add(yes.into(), Ordering::SeqCst);
    thread::scope(|scope| {
        for hand in 0..4_u64 {
            let (wq, work, queued, taken) = (&wq, &work, &queued, &taken);
            scope.spawn(move || {
                for i in 0..2_000_u64 {
                    let delay = Duration::from_micros((i * 37 + hand * 11) % 60);
                    match (i + hand) % 4 {
                        0 => drop(count(queued, wq.queue_delayed_work(work, delay))),
                        1 => drop(count(taken, work.cancel())),
                        2 => {
                            // Pending before: one queueing instead of another.
                            if wq.mod_delayed_work(work, delay) {
                                continue;
                            }
                        }
                        _ => {
                            count(taken, work.disable());
                            work.enable();
                        }
                    }
                }
            });
        }
    });
    work.cancel_sync();
    assert!(work.busy().is_idle());
    assert!(taken.load(Ordering::SeqCst) <= 8_000 && queued.load(Ordering::SeqCst) <= 2_000);
    let before = runs.load(Ordering::SeqCst);
    assert!(wq.queue_delayed_work(&work, Duration::ZERO), "sound: neither disabled nor pending");
    assert!(within("the last flush", {
        let work = work.clone();
        move || {
            work.flush();
            !work.is_pending()
        }
    }));
    assert_eq!(runs.load(Ordering::SeqCst), before + 1);
}

/// The item is behind its own run then, on another pool.
#[test]
fn cancel_sync_waits_for_a_run_that_began_before_the_ordered_queue_was_changed() {
    let wq = Workqueue::builder("changed").ordered().build().unwrap();
    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let (work, _) = gated_work(&entered, &gate);
    assert!(wq.queue_work(&work));
    entered.pass();
    wq.apply_attrs(&Attrs::new().nice(sys::nicer(3))).unwrap();
    assert!(wq.queue_work(&work));
    let waits: [fn(&Work) -> bool; 2] = [Work::cancel_sync, Work::flush];
    let waiters = waits.map(|wait| {
        let (work, tid) = (work.clone(), Arc::new(AtomicI32::new(0)));
        let waiter = thread::spawn({
            let (work, tid) = (work.clone(), Arc::clone(&tid));
            move || {
                tid.store(sys::gettid(), Ordering::SeqCst);
                wait(&work)
            }
        });
        eventually("it waits", || {
            assert!(!waiter.is_finished(), "it runs: {:?}", work.busy());
            let tid = tid.load(Ordering::SeqCst);
            tid != 0 && !work.is_pending() && procfs::waits(tid)
        });
        assert!(work.busy().running);
        waiter
    });
    gate.open();
    assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [true, true]);
    assert!(work.busy().is_idle());
}
