//! Settings of the process, and what is called on its threads, for its notices and for its panics.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use cmwq::{AffinityScope, Config, Detect, ErrorKind, Refused, Work, Workqueue};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, eventually, joined, managed, occupy, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("config::settings", settings),
    ("config::hooks", hooks),
    ("config::notices", notices),
    ("config::refused", refused),
    ("config::panics", panics),
];

#[test]
fn what_is_installed_holds_against_the_environment() {
    Stage::new("config::settings").params("idle_timeout=77 idle_ratio=9").detect("inline").play();
}

fn settings() {
    let wrong = Config::builder().idle_timeout(Duration::from_secs(3)).stack_size(1).install();
    let error = wrong.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("stack_size"), "{error}");
    assert_eq!(cmwq::param("idle_timeout").unwrap(), "77", "nothing was set");
    let config = Config::builder()
        .default_affinity_scope(AffinityScope::System)
        .idle_timeout(Duration::from_millis(2500))
        .stack_size((1 << 20) - 5)
        .cpu_intensive_thresh(Duration::from_micros(12_345))
        .watchdog_thresh(Duration::ZERO)
        .power_efficient(true)
        .inspect(false)
        .detect(Detect::Tick);
    let text = format!("{config:?}");
    assert!(text.contains("idle_timeout"), "{text}");
    config.install().unwrap();
    let again = Config::builder().install().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Unavailable);
    let wq = Workqueue::builder("power").power_efficient().build().unwrap();
    for (name, value) in [
        ("default_affinity_scope", "system"),
        ("idle_timeout", "2.5"),
        ("idle_ratio", "9"),
        ("stack_size", "1024"),
        ("cpu_intensive_thresh_us", "12345"),
        ("watchdog_thresh", "0"),
        ("power_efficient", "1"),
        ("inspect", "0"),
    ] {
        assert_eq!(cmwq::param(name).unwrap(), value, "{name}");
    }
    assert_eq!(cmwq_observe::diagnose().unwrap().detect, Detect::Tick);
    wq.apply_attrs(&wq.attrs()).expect("it is unbound");
    let status = sys::fork(|| {
        assert_eq!(joined(wq.queue(|| 1)), 1);
        assert_eq!(cmwq::param("idle_timeout").unwrap(), "2.5");
    });
    assert_eq!(status, 0);
}

#[test]
fn threads_begin_and_end_with_a_hook() {
    Stage::new("config::hooks").play();
}

/// Names of threads that began, and of those that ended.
static THREADS: [Mutex<Vec<String>>; 2] = [const { Mutex::new(Vec::new()) }; 2];

std::thread_local! {
    static HAS_BEGUN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

fn hooks() {
    Config::builder()
        .on_thread_start(|thread| {
            HAS_BEGUN.with(|count| count.set(count.get() + 1));
            THREADS[0].lock().unwrap().push(thread.name().to_owned());
            resume_unwind(Box::new("swallowed"));
        })
        .on_thread_stop(|thread| {
            assert_eq!(HAS_BEGUN.with(std::cell::Cell::get), 1);
            THREADS[1].lock().unwrap().push(thread.name().to_owned());
        })
        .install()
        .unwrap();
    let bh = Workqueue::builder("bh").bh().build().unwrap();
    let rescued = Workqueue::builder("rescued").mem_reclaim().build().unwrap();
    for wq in [&bh, &rescued, &managed("managed")] {
        let handles: Vec<_> =
            (0..50).map(|_| wq.queue(|| HAS_BEGUN.with(std::cell::Cell::get))).collect();
        assert!(handles.into_iter().all(|handle| joined(handle) == 1), "before the first item");
    }
    let has = |part: &str| THREADS[0].lock().unwrap().iter().any(|name| name.contains(part));
    assert!(has("kworker/") && has("cmwq/bh:"));
    eventually("the rescuer has begun", || has("kworker/R-"));
    drop((bh, rescued));
    cmwq::shutdown(PATIENCE).unwrap();
    let mut threads = THREADS.each_ref().map(|names| names.lock().unwrap().clone());
    threads.iter_mut().for_each(|names| names.sort());
    assert_eq!(threads[0], threads[1], "every one of them ends so");
}

#[test]
fn notices_go_where_they_are_wanted() {
    let output = Stage::new("config::notices").loud().output();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("out of range"), "{text}");
}

fn notices() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let sink = |text: &str| {
        TOLD.lock().unwrap().push(text.to_owned());
        resume_unwind(Box::new("swallowed"));
    };
    Config::builder().on_notice(sink).install().unwrap();
    let wq = Workqueue::builder("limit").max_active(5000).build().unwrap();
    assert_eq!(joined(wq.queue(|| 1)), 1);
    let told = TOLD.lock().unwrap().clone();
    assert_eq!(told.iter().filter(|text| text.contains("out of range")).count(), 1, "{told:?}");
    assert!(cmwq::notices().iter().any(|text| text.contains("out of range")));
}

#[test]
fn a_sink_that_is_refused_something_leaves_others_their_reasons() {
    Stage::new("config::refused").play();
}

fn refused() {
    static CLOSED: OnceLock<Workqueue> = OnceLock::new();
    static TOLD: Mutex<Vec<Option<Refused>>> = Mutex::new(Vec::new());
    let sink = |_: &str| {
        let Some(closed) = CLOSED.get() else { return };
        let why = closed.queue(|| ()).join().unwrap_err().why();
        TOLD.lock().unwrap().push(why);
    };
    Config::builder().on_notice(sink).install().unwrap();
    let (closed, wq) = (managed("closed"), managed("drained"));
    closed.clone().close().wait();
    CLOSED.set(closed).unwrap();
    let gate = Gate::new();
    let opened = Opened(&gate);
    let running = occupy(&wq, &gate);
    let draining = wq.drain_async();
    assert_eq!(wq.queue(|| ()).join().unwrap_err().why(), Some(Refused::Draining));
    drop(opened);
    joined(running);
    draining.wait();
    let told = TOLD.lock().unwrap();
    assert!(!told.is_empty() && told.iter().all(|why| *why == Some(Refused::Closed)), "{told:?}");
}

#[test]
fn panics_are_told_with_queue_and_function() {
    Stage::new("config::panics").play();
}

/// Queue, function, message.
type Told = [Option<String>; 3];

fn panics() {
    static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());
    Config::builder()
        .on_panic(|panic| {
            let told = [panic.queue(), panic.function(), panic.message()];
            TOLD.lock().unwrap().push(told.map(|text| text.map(str::to_owned)));
        })
        .install()
        .unwrap();
    let last = |count: usize| {
        eventually("it is told", || TOLD.lock().unwrap().len() == count);
        let [queue, function, message] = TOLD.lock().unwrap()[count - 1].clone();
        assert!(function.as_deref().is_some_and(|name| name.contains("panics")), "{function:?}");
        (queue, message.unwrap())
    };
    let bh = Workqueue::builder("a bh queue").bh().build().unwrap();
    let wq = managed("a queue");
    let panicking = || resume_unwind(Box::new("expected"));
    let expected = |name: &str| (Some(name.to_owned()), "expected".to_owned());
    wq.queue_work(&Work::new(panicking));
    assert_eq!(last(1), expected("a queue"));
    // Their handles have gone when they panic.
    for (count, wq, name) in [(2, &wq, "a queue"), (3, &bh, "a bh queue")] {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        drop(wq.queue({
            let gate = gate.clone();
            move || {
                gate.spin();
                panicking()
            }
        }));
        gate.open();
        assert_eq!(last(count), expected(name));
    }
    // The handle goes inside of another item, of another queue.
    let handle = wq.queue(panicking);
    eventually("it has panicked", || handle.is_finished());
    let other = managed("another queue");
    joined(other.queue(move || drop(handle)));
    assert_eq!(last(4), (None, "expected".to_owned()));
    static OLD: AtomicU32 = AtomicU32::new(0);
    cmwq::set_panic_handler(|payload| {
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"expected"));
        OLD.fetch_add(1, Ordering::SeqCst);
    });
    drop(wq.queue(panicking));
    eventually("the new handler is told", || OLD.load(Ordering::SeqCst) == 1);
    assert_eq!(TOLD.lock().unwrap().len(), 4);
}
