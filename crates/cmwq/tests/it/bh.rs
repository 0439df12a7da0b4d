//! BH queues: items that run where softirqs would, on their CPU, in order, and must not block.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{ErrorKind, Work, Workqueue, system};

use crate::idle::assert_quiet;
use crate::nproc::{more_threads, no_more_threads, user};
use crate::support::cpus::for_each_cpu;
use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, eventually, joined, occupy, percpu, procfs, sys, undisturbed, within};

pub(crate) const SCENES: &[Scene] = &[
    ("bh::quiet", quiet),
    ("bh::waits", waits),
    ("bh::cancels", cancels),
    ("bh::itself", itself),
    ("bh::no_thread", no_thread),
];

pub(crate) fn bh(name: &str) -> Workqueue {
    Workqueue::builder(name).bh().build().unwrap()
}

fn bh_highpri(name: &str) -> Workqueue {
    Workqueue::builder(name).bh().highpri().percpu().build().unwrap()
}

/// What items wrote, in order.
type Log<T> = Arc<Mutex<Vec<T>>>;

/// Keeps the BH context of a CPU busy until the gate is opened, and longer than a visit may last.
fn hold(wq: &Workqueue, cpu: u32, gate: &Gate) {
    let (gate, entered) = (gate.clone(), Gate::new());
    let inside = entered.clone();
    drop(wq.queue_on(cpu, move || {
        inside.open();
        let start = Instant::now();
        gate.spin();
        while start.elapsed() < Duration::from_millis(3) {
            std::hint::spin_loop();
        }
    }));
    entered.pass();
}

#[test]
fn items_run_on_their_cpu_in_the_order_of_queueing() {
    let wq = bh("bh order");
    for_each_cpu(|cpu, _| {
        let log = Log::default();
        for n in 0..1_000 {
            let log = Arc::clone(&log);
            drop(wq.queue_on(cpu, move || log.lock().unwrap().push((n, sys::current_cpu()))));
        }
        wq.flush();
        assert!(log.lock().unwrap().iter().copied().eq((0..1_000).map(|n| (n, cpu))));
        let name = format!("cmwq/bh:{cpu}");
        assert!(procfs::workers(&name).contains(&name), "one context of that name");
    });
}

#[test]
fn an_item_runs_on_the_cpu_that_queued_it() {
    let wq = bh("bh here");
    for_each_cpu(|cpu, _| {
        let ran_on = thread::scope(|s| {
            let here = s.spawn(|| {
                sys::confine(0, &[cpu]).unwrap();
                joined(wq.queue(sys::current_cpu))
            });
            here.join().unwrap()
        });
        assert_eq!(ran_on, cpu);
    });
}

#[test]
fn items_of_high_priority_come_first() {
    let (normal, high) = (bh("bh normal"), bh_highpri("bh high"));
    let cpu = sys::allowed_cpus()[0];
    // A visit ends by the clock, too: while the machine stops, one of high priority may.
    undisturbed(20, || {
        let (gate, log) = (Gate::new(), Log::default());
        let _opened = Opened(&gate);
        hold(&normal, cpu, &gate);
        for n in 0..8 {
            let wq = if n < 4 { &normal } else { &high };
            let log = Arc::clone(&log);
            drop(wq.queue_on(cpu, move || log.lock().unwrap().push(n)));
        }
        gate.open();
        normal.flush();
        high.flush();
        let log = log.lock().unwrap();
        if *log == [4, 5, 6, 7, 0, 1, 2, 3] { Ok(()) } else { Err(format!("{log:?}")) }
    });
}

/// A queue of high priority that always has work gives way after each visit.
#[test]
fn normal_items_are_not_starved() {
    let (normal, high) = (bh("bh starved"), bh_highpri("bh greedy"));
    let cpu = sys::allowed_cpus()[0];
    let stop = Arc::new(AtomicBool::new(false));
    let runs = Arc::new(AtomicUsize::new(0));
    // An item cannot own itself, or it would live for ever.
    let own: Arc<Mutex<Option<Work>>> = Arc::default();
    let greedy = Work::new({
        let (stop, runs, own, high) =
            (Arc::clone(&stop), Arc::clone(&runs), Arc::clone(&own), high.clone());
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
            if !stop.load(Ordering::SeqCst)
                && let Some(own) = &*own.lock().unwrap()
            {
                high.queue_work_on(cpu, own);
            }
        }
    });
    *own.lock().unwrap() = Some(greedy.clone());
    assert!(high.queue_work_on(cpu, &greedy));
    eventually("it is greedy", || runs.load(Ordering::SeqCst) > 100);
    joined(normal.queue_on(cpu, || ()));
    stop.store(true, Ordering::SeqCst);
    let last = own.lock().unwrap().take();
    drop(last);
    greedy.flush();
}

#[test]
fn a_pending_item_is_taken_back() {
    let wq = bh("bh cancel");
    let cpu = sys::allowed_cpus()[0];
    let gate = Gate::new();
    let _opened = Opened(&gate);
    hold(&wq, cpu, &gate);
    let runs = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(wq.queue_work_on(cpu, &work));
    assert!(!wq.queue_work_on(cpu, &work), "it is pending");
    assert!(work.cancel());
    assert!(!work.cancel() && !work.is_pending());
    gate.open();
    wq.flush();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert!(wq.queue_work_on(cpu, &work));
    assert!(work.flush() || runs.load(Ordering::SeqCst) == 1);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn inside_there_is_no_current_work_and_the_item_is_idle() {
    let wq = bh("bh inside");
    let own: Arc<Mutex<Option<Work>>> = Arc::default();
    let seen = Log::default();
    let work = Work::new({
        let (own, seen) = (Arc::clone(&own), Arc::clone(&seen));
        move || {
            let is_pending = own.lock().unwrap().as_ref().map(Work::is_pending);
            seen.lock().unwrap().push((cmwq::current_work(), is_pending));
        }
    });
    *own.lock().unwrap() = Some(work.clone());
    assert!(wq.queue_work(&work));
    wq.flush();
    assert_eq!(*seen.lock().unwrap(), [(None, Some(false))]);
    own.lock().unwrap().take();
}

#[test]
fn delayed_items_and_system_queues_run() {
    let start = Instant::now();
    let delay = Duration::from_millis(5);
    assert!(joined(bh("bh delayed").queue_delayed(move || start.elapsed(), delay)) >= delay);
    for (queue, name) in [(system::bh(), "events_bh"), (system::bh_highpri(), "events_bh_highpri")]
    {
        assert_eq!(queue.name(), name);
        assert_eq!(joined(queue.queue(|| 3)), 3);
    }
}

#[test]
fn the_last_handle_may_be_dropped_by_an_item() {
    let wq = bh("bh last handle");
    let (gate, gone) = (Gate::new(), Gate::new());
    let item = {
        let (wq, gate, gone) = (wq.clone(), gate.clone(), gone.clone());
        move || {
            gate.spin();
            drop(wq);
            gone.open();
        }
    };
    drop(wq.queue(item));
    drop(wq);
    gate.open();
    within("the item drops its queue", move || gone.pass());
}

#[test]
fn a_panic_is_the_items_own() {
    let wq = bh("bh panic");
    assert_eq!(wq.queue(|| panic!("oh")).join().unwrap_err().message(), Some("oh"));
    assert_eq!(joined(wq.queue(|| 1)), 1);
}

#[test]
fn only_highpri_and_percpu_go_with_bh() {
    let builder = || Workqueue::builder("bh flags").bh();
    let bad = [
        builder().unbound(),
        builder().managed(),
        builder().ordered(),
        builder().cpu_intensive(),
        builder().power_efficient(),
        builder().max_active(5),
        builder().percpu().max_active(1),
        builder().max_active_total(4),
        builder().percpu().max_active_total(0),
    ];
    for builder in bad {
        let text = format!("{builder:?}");
        let error = builder.build().expect_err(&text);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        assert!(error.to_string().contains("'bh flags'"), "{error}");
    }
    for builder in [builder(), builder().percpu(), builder().highpri().max_active(0)] {
        assert_eq!(joined(builder.build().unwrap().queue(|| 1)), 1);
    }
}

#[test]
fn an_idle_context_wakes_nobody() {
    Stage::new("bh::quiet").play();
}

fn quiet() {
    let queues = [bh("quiet"), bh_highpri("quiet")];
    for cpu in sys::allowed_cpus() {
        for n in 0..200 {
            drop(queues[n % 2].queue_on(cpu, || ()));
        }
    }
    queues.iter().for_each(Workqueue::flush);
    assert_quiet();
}

#[test]
fn waiting_inside_is_said_once_and_done() {
    Stage::new("bh::waits").play();
}

fn waits() {
    let (wq, other) = (bh("impatient"), percpu("other"));
    let said = || cmwq::notices().iter().filter(|text| text.contains("'impatient'")).count();
    // A look is no wait, nor is to find what has ended.
    let ended = other.queue(|| ());
    eventually("it has ended", || ended.is_finished());
    joined(wq.queue(move || joined(ended)));
    let gate = Gate::new();
    let opened = Opened(&gate);
    let running = occupy(&other, &gate);
    let looked = joined(wq.queue(move || running.join_timeout(Duration::ZERO)));
    let running = looked.expect_err("it has not ended");
    assert_eq!(said(), 0);
    let waits = wq.queue(move || joined(running));
    eventually("it is said", || said() == 1);
    drop(opened);
    joined(waits);
    for way in 0..3 {
        let other = other.clone();
        let value = joined(wq.queue(move || match way {
            0 => joined(other.queue(|| 7)),
            1 => cmwq::blocking(|| 7),
            _ => {
                drop(other.queue(|| ()));
                other.flush();
                7
            }
        }));
        assert_eq!((value, said()), (7, 1));
    }
    // Outside of a BH item, also on other workers, it is nothing to speak of.
    assert_eq!(joined(other.queue(|| cmwq::blocking(|| 1))), 1);
    assert_eq!(said(), 1);
}

/// It may, and waits for a run of it on another CPU.
#[test]
fn that_one_cancels_another_is_nothing_to_speak_of() {
    Stage::new("bh::cancels").play();
}

fn cancels() {
    let [here, there, ..] = sys::allowed_cpus()[..] else {
        return crate::support::scene::skip("it takes two CPUs");
    };
    let wq = bh("canceller");
    let said = || cmwq::notices().iter().filter(|text| text.contains("'canceller'")).count();
    let ways: [fn(&Work) -> bool; 3] = [Work::cancel_sync, Work::disable_sync, Work::flush];
    for (way, expected) in ways.into_iter().zip([0, 0, 1]) {
        let (entered, gate) = (Gate::new(), Gate::new());
        let _opened = Opened(&gate);
        let (inside, theirs) = (entered.clone(), gate.clone());
        let work = Work::new(move || {
            inside.open();
            theirs.spin();
        });
        assert!(wq.queue_work_on(there, &work));
        entered.pass();
        let (send, seen) = mpsc::channel();
        let waits = wq.queue_on(here, move || {
            send.send(sys::gettid()).unwrap();
            way(&work)
        });
        let tid = seen.recv().unwrap();
        eventually("it waits", || procfs::waits(tid));
        gate.open();
        assert_eq!((joined(waits), said()), (expected == 1, expected));
    }
}

#[test]
fn a_wait_for_itself_is_said_and_not_begun() {
    Stage::new("bh::itself").play();
}

fn itself() {
    let wq = bh("narcissus");
    let ways: [fn(&Workqueue); 4] = [
        Workqueue::flush,
        Workqueue::drain,
        |wq| wq.flush_async().wait(),
        |wq| wq.drain_async().wait(),
    ];
    for wait in ways {
        let inside = wq.clone();
        joined(wq.queue(move || wait(&inside)));
    }
    let work = Work::new_cyclic(|me| {
        let me = me.clone();
        move || {
            let me = me.upgrade().unwrap();
            assert!(!me.flush() && !me.cancel_sync() && !me.disable_sync());
            me.enable();
        }
    });
    assert!(wq.queue_work(&work));
    wq.flush();
    for what in [
        "'narcissus' is flushed from inside one of its own items",
        "'narcissus' is drained from inside one of its own items",
        "'narcissus' is flushed from inside its own function",
        "'narcissus' is cancelled or disabled, with waiting, from inside its own function",
    ] {
        let notices = cmwq::notices();
        assert!(notices.iter().any(|text| text.contains(what)), "{what}: {notices:?}");
    }
    // It cannot wait for the end of all queues either, and nothing has ended.
    let error = joined(wq.queue(|| cmwq::shutdown(Duration::MAX))).unwrap_err();
    assert!(error.to_string().contains("work function of workqueue 'narcissus'"), "{error}");
    assert_eq!(joined(wq.queue(|| 1)), 1);
}

#[test]
fn without_a_thread_items_wait_for_one() {
    Stage::new("bh::no_thread").user(user(4)).play();
}

fn no_thread() {
    // The service is there, and no worker that could yield its thread; the context is not.
    let wq = bh("waits for a context");
    let before = no_more_threads();
    let handles: Vec<_> = (0..3).map(|n| wq.queue_on(0, move || n)).collect();
    assert!(cmwq::notices().iter().any(|text| text.contains("BH context of CPU")));
    assert!(handles.iter().all(|handle| !handle.is_finished()));
    more_threads(before);
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(joined(handle), n);
    }
    let said = cmwq::notices().iter().filter(|text| text.contains("BH context")).count();
    assert_eq!(said, 1, "once");
}
