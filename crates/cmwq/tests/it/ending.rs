//! Every public call before, in the middle of and after a shutdown, on queues of every kind, by
//! threads, items and forked children: each returns, or panics as documented, and says what becomes
//! of what it was given. The list of calls is compared with the library's sources, so that a new
//! one cannot be forgotten.

mod calls;
mod listing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{DelayedWork, JoinHandle, MissedTicks, Periodic, Work, Workqueue, shutdown};

use self::calls::{CALLS, ELSEWHERE, Scenery, VALUES, When};
use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, eventually, joined, managed, procfs, sys, within};

pub(crate) const SCENES: &[Scene] = &[
    ("ending::used", || play(&[When::Open, When::Closing, When::Closed])),
    ("ending::first_in_it", || play(&[When::Closing, When::Closed])),
    ("ending::first_after_it", || play(&[When::Closed])),
    ("ending::by_items", by_items),
    ("ending::by_children", by_children),
    ("ending::by_children_of_what_was_shut", by_children_of_what_was_shut),
    ("ending::by_children_that_were_shut", by_children_that_were_shut),
    ("ending::rearming", rearming),
    ("ending::themselves", themselves),
];

#[test]
fn every_public_call_is_listed() {
    let public = listing::public_calls();
    // The parser finds what it should.
    for known in ["Work::cancel", "Workqueue::close", "Periodic::drop", "system::bh", "shutdown"] {
        assert!(public.contains(known), "{known} is not found in the sources");
    }
    let is_listed = |name: &str| {
        CALLS.iter().any(|(known, _)| *known == name)
            || ELSEWHERE.iter().any(|(known, _)| *known == name)
            || name.split_once("::").is_some_and(|(owner, _)| VALUES.contains(&owner))
    };
    let forgotten: Vec<_> = public.iter().filter(|name| !is_listed(name)).collect();
    assert!(forgotten.is_empty(), "to be added to ending/calls.rs: {forgotten:?}");
    let gone: Vec<_> =
        CALLS.iter().map(|(name, _)| name).filter(|name| !public.contains(**name)).collect();
    assert!(gone.is_empty(), "no longer public: {gone:?}");
}

#[test]
fn every_call_returns_in_a_shutdown_and_after_it() {
    if cfg!(feature = "liburcu") {
        return skip("liburcu's own thread stays behind a shutdown");
    }
    Stage::new("ending::used").play();
    Stage::new("ending::used").detect("tick").play();
}

#[test]
fn every_first_call_returns_in_a_shutdown_and_after_it() {
    Stage::new("ending::first_in_it").play();
    Stage::new("ending::first_after_it").play();
}

fn kinds() -> Vec<Workqueue> {
    let legacy = Workqueue::builder("legacy").legacy().sysfs().build().unwrap();
    nameless_kinds().into_iter().chain([legacy]).collect()
}

/// Those that are found by their names in no directory: several of a name may be there.
fn nameless_kinds() -> Vec<Workqueue> {
    let kinds = [
        Workqueue::builder("managed").managed(),
        Workqueue::builder("percpu").percpu(),
        Workqueue::builder("unbound").unbound(),
        Workqueue::builder("ordered").ordered(),
        Workqueue::builder("bh").bh(),
        Workqueue::builder("bh highpri").bh().highpri(),
        Workqueue::builder("own pool").unbound().nice(sys::nicer(5)),
        Workqueue::builder("rescued").percpu().mem_reclaim(),
        Workqueue::builder("freezable").unbound().freezable(),
        Workqueue::builder("bounded").managed().max_queued(100),
    ];
    kinds.into_iter().map(|builder| builder.build().unwrap()).collect()
}

/// What is made at a first use is there in the later ones of these phases.
fn play(phases: &[When]) {
    let before = procfs::other_tasks().len();
    let has_system = phases.contains(&When::Open);
    let mut sceneries: Vec<_> =
        kinds().into_iter().map(|wq| Scenery::new(wq, has_system)).collect();
    if phases.contains(&When::Open) {
        sceneries = call_everything(sceneries, When::Open);
    }
    // Its drop waits for its item, so the gate opens before.
    let slow = managed("slow");
    let (entered, gate) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let last = slow.queue({
        let (entered, gate) = (entered.clone(), gate.clone());
        move || {
            entered.open();
            gate.pass();
        }
    });
    entered.pass();
    let ending = thread::spawn(|| shutdown(PATIENCE));
    for scenery in &sceneries {
        eventually("the shutdown has begun", || scenery.wq.queue(|| ()).join().is_err());
    }
    if phases.contains(&When::Closing) {
        sceneries = call_everything(sceneries, When::Closing);
    }
    assert!(!ending.is_finished(), "it waits for an item");
    gate.open();
    ending.join().unwrap().unwrap();
    last.join().unwrap();
    sceneries = call_everything(sceneries, When::Closed);
    within("the drop of what was made before", move || drop(sceneries));
    eventually("no thread stays, and none has come", || procfs::other_tasks().len() == before);
}

/// On a thread for each queue. A call that does not return is named.
fn call_everything(sceneries: Vec<Scenery>, when: When) -> Vec<Scenery> {
    let (say, said) = mpsc::channel();
    let number = sceneries.len();
    for mut scenery in sceneries {
        let say = say.clone();
        scenery.when = when;
        thread::spawn(move || {
            let name = scenery.wq.name().to_owned();
            for (call, make) in CALLS {
                say.send((name.clone(), *call, None)).unwrap();
                if catch_unwind(AssertUnwindSafe(|| make(&scenery))).is_err() {
                    panic!("{call} on '{name}', {when:?}: see above");
                }
            }
            say.send((name, "", Some(scenery))).unwrap();
        });
    }
    drop(say);
    let mut under_way = std::collections::BTreeMap::new();
    let mut back = Vec::new();
    let start = Instant::now();
    while back.len() < number {
        let left = PATIENCE.saturating_sub(start.elapsed());
        match said.recv_timeout(left) {
            Ok((name, call, scenery)) => {
                under_way.insert(name.clone(), call);
                if let Some(scenery) = scenery {
                    under_way.remove(&name);
                    back.push(scenery);
                }
            }
            Err(error) => panic!("{when:?}: {error}: not returned, or failed: {under_way:?}"),
        }
    }
    back
}

#[test]
fn every_call_returns_in_items() {
    Stage::new("ending::by_items").play();
}

/// An item of each kind of queue makes all calls on all kinds but its own, one after the other: on
/// its own it would wait for itself.
fn by_items() {
    let callers = ["managed", "percpu", "unbound", "ordered", "rescued", "freezable", "bounded"];
    for caller in callers {
        let caller = nameless_kinds().into_iter().find(|wq| wq.name() == caller).unwrap();
        let sceneries: Vec<_> =
            nameless_kinds().into_iter().map(|wq| Scenery::new(wq, true)).collect();
        within(&format!("an item of '{}' makes all calls", caller.name()), move || {
            joined(caller.queue(move || {
                for mut scenery in sceneries {
                    scenery.is_in_item = true;
                    call_in_order(&scenery);
                }
            }));
        });
    }
}

fn call_in_order(scenery: &Scenery) {
    for (call, make) in CALLS {
        if catch_unwind(AssertUnwindSafe(|| make(scenery))).is_err() {
            panic!("{call} on '{}': see above", scenery.wq.name());
        }
    }
}

#[test]
fn every_call_returns_in_a_forked_child() {
    if cfg!(feature = "liburcu") {
        return skip("liburcu's grace periods do not go on in a child by themselves");
    }
    Stage::new("ending::by_children").play();
    Stage::new("ending::by_children_of_what_was_shut").play();
    Stage::new("ending::by_children_that_were_shut").play();
}

/// On what its parent has made and used, and shuts down; and then the parent goes on.
fn by_children() {
    let sceneries: Vec<_> = kinds().into_iter().map(|wq| Scenery::new(wq, true)).collect();
    let sceneries = call_everything(sceneries, When::Open);
    let Some(child) = sys::split() else {
        let outcome = catch_unwind(AssertUnwindSafe(|| open_and_shut(sceneries)));
        sys::leave(outcome.is_ok());
    };
    assert_eq!(sys::end_of(child), 0, "the child: see above");
    open_and_shut(sceneries);
}

fn open_and_shut(sceneries: Vec<Scenery>) {
    let sceneries = call_everything(sceneries, When::Open);
    shutdown(PATIENCE).unwrap();
    call_everything(sceneries, When::Closed);
}

/// They begin anew.
fn by_children_of_what_was_shut() {
    let sceneries: Vec<_> = kinds().into_iter().map(|wq| Scenery::new(wq, true)).collect();
    let sceneries = call_everything(sceneries, When::Open);
    shutdown(PATIENCE).unwrap();
    let sceneries = call_everything(sceneries, When::Closed);
    let status = sys::fork(|| {
        call_everything(sceneries, When::Open);
    });
    assert_eq!(status, 0, "the child: see above");
}

/// What they have inherited is used there for the first time behind a shutdown.
fn by_children_that_were_shut() {
    let sceneries: Vec<_> = kinds().into_iter().map(|wq| Scenery::new(wq, true)).collect();
    let sceneries = call_everything(sceneries, When::Open);
    let status = sys::fork(|| {
        joined(managed("own").queue(|| ()));
        shutdown(PATIENCE).unwrap();
        call_everything(sceneries, When::Closed);
    });
    assert_eq!(status, 0, "the child: see above");
}

#[test]
fn a_shutdown_ends_whatever_arms_itself() {
    Stage::new("ending::rearming").play();
}

/// Items on queues of each kind that arm themselves, each in its way, without end.
fn rearming() {
    let soon = Duration::from_millis(1);
    let runs = Arc::new(AtomicU32::new(0));
    let (queues, mut periodics, mut works) = (kinds(), Vec::new(), Vec::new());
    type Arm = fn(&Workqueue, &DelayedWork, Duration) -> bool;
    let ways: [Arm; 4] = [
        Workqueue::queue_delayed_work,
        |wq, work, delay| wq.queue_delayed_work_on(0, work, delay),
        Workqueue::mod_delayed_work,
        |wq, work, delay| wq.mod_delayed_work_on(0, work, delay),
    ];
    let mut expected = 0;
    for wq in &queues {
        for arm in ways {
            let work = DelayedWork::new_cyclic(|me| {
                let (me, wq, runs) = (me.clone(), wq.clone(), Arc::clone(&runs));
                move || {
                    runs.fetch_add(1, Ordering::SeqCst);
                    if let Some(me) = me.upgrade() {
                        arm(&wq, &me, soon);
                    }
                }
            });
            arm(wq, &work, soon);
            works.push(work);
            expected += 1;
        }
        for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
            // Always late.
            let runs = Arc::clone(&runs);
            let late = Periodic::every(Duration::from_nanos(1)).missed(missed);
            periodics.push(late.start(wq, move |_| {
                runs.fetch_add(1, Ordering::SeqCst);
            }));
            expected += 1;
        }
        // Closures that queue the next one for later.
        again(wq.clone(), Arc::clone(&runs));
        expected += 1;
    }
    eventually("they go on", || runs.load(Ordering::SeqCst) > 10 * expected);
    shutdown(PATIENCE).unwrap();
    let at_the_end = runs.load(Ordering::SeqCst);
    assert!(works.iter().all(|work| !work.is_pending() && work.busy().is_idle()));
    assert!(periodics.iter().all(|periodic| !periodic.is_active()));
    drop((works, periodics, queues));
    assert_eq!(runs.load(Ordering::SeqCst), at_the_end, "none has run since");
}

fn again(wq: Workqueue, runs: Arc<AtomicU32>) {
    runs.fetch_add(1, Ordering::SeqCst);
    let inside = wq.clone();
    drop(wq.queue_delayed(move || again(inside, runs), Duration::from_millis(1)));
}

#[test]
fn items_that_wait_for_themselves_hold_up_no_shutdown() {
    Stage::new("ending::themselves").play();
}

/// A wait for the queue of the item that calls it.
type Wait = fn(&Workqueue);

/// On queues of each kind, while they are open and in the middle of a shutdown.
fn themselves() {
    let queues = kinds();
    let ways: [Wait; 6] = [
        Workqueue::flush,
        Workqueue::drain,
        |wq| wq.flush_async().wait(),
        |wq| wq.drain_async().wait(),
        |_| drop(shutdown(Duration::MAX).unwrap_err()),
        |wq| drop(wq.clone()),
    ];
    let go = Gate::new();
    let _opened = Opened(&go);
    for wq in &queues {
        for wait in ways {
            let inside = wq.clone();
            joined(wq.queue(move || wait(&inside)));
        }
        let (work, delayed) = (waits_for_itself(), delayed_waits_for_itself());
        assert!(wq.queue_work(&work) && wq.queue_delayed_work(&delayed, Duration::ZERO));
        work.flush();
        delayed.flush();
        assert!(work.busy().is_idle() && delayed.busy().is_idle());
    }
    // One item of each queue, which does it all.
    let handles: Vec<JoinHandle<()>> = queues
        .iter()
        .map(|wq| {
            let (inside, go) = (wq.clone(), go.clone());
            wq.queue(move || {
                go.pass();
                for wait in ways {
                    wait(&inside);
                }
            })
        })
        .collect();
    let ending = thread::spawn(|| shutdown(PATIENCE));
    for wq in &queues {
        eventually("the shutdown has begun", || wq.queue(|| ()).join().is_err());
    }
    go.open();
    within("a shutdown with items that wait for themselves", || ending.join()).unwrap().unwrap();
    for handle in handles {
        joined(handle);
    }
}

fn waits_for_itself() -> Work {
    Work::new_cyclic(|me| {
        let me = me.clone();
        move || {
            let Some(me) = me.upgrade() else { return };
            assert!(!me.flush() && !me.cancel_sync() && !me.disable_sync());
            me.enable();
        }
    })
}

fn delayed_waits_for_itself() -> DelayedWork {
    DelayedWork::new_cyclic(|me| {
        let me = me.clone();
        move || {
            let Some(me) = me.upgrade() else { return };
            assert!(!me.flush() && !me.cancel_sync() && !me.disable_sync());
            me.enable();
        }
    })
}
