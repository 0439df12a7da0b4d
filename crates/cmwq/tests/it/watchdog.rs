//! The stall watchdog says who stands still, who is in the way and where, and nothing else.

use std::fs::File;
use std::io::{Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::{Arc, Mutex, Once, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::watchdog::{Frame, Place, RunningItem, Stack, Stall};
use cmwq::{Work, Workqueue};

use crate::idle::assert_quiet;
use crate::support::load::burn;
use crate::support::sanitizer::is_thread_sanitizer;
use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, eventually, joined, managed, percpu, procfs, sys, unbound};

pub(crate) const SCENES: &[Scene] = &[
    ("watchdog::deadlock", deadlock),
    ("watchdog::later", later),
    ("watchdog::work_deadlock", work_deadlock),
    ("watchdog::hog", hog),
    ("watchdog::starved", starved),
    ("watchdog::starves", || starves(&Gate::new())),
    ("watchdog::progress", progress),
    ("watchdog::one_after_the_other", one_after_the_other),
    ("watchdog::behind_a_worker", behind_a_worker),
    ("watchdog::touched", touched),
    ("watchdog::frozen", frozen),
    ("watchdog::switched_on", switched_on),
    ("watchdog::blocked_signal", || no_stack(true, "blocked")),
    ("watchdog::taken_signal", || no_stack(false, "not free")),
    ("watchdog::no_signal", || no_stack(false, "watchdog_signal=0")),
    ("watchdog::quiet_after", quiet_after),
    ("watchdog::dump", dump),
    ("watchdog::dump_param", || dumps(libc::SIGUSR2)),
];

/// All reports, as they come.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<Stall>>>);

impl Reports {
    /// From now on.
    fn collect() -> Self {
        let reports = Self::default();
        let theirs = reports.clone();
        cmwq::set_watchdog_handler(move |stall| theirs.0.lock().unwrap().push(stall.clone()));
        reports
    }

    fn all(&self) -> Vec<Stall> {
        self.0.lock().unwrap().clone()
    }

    /// Those about such places.
    fn at(&self, is_it: impl Fn(&Place) -> bool) -> Vec<Stall> {
        self.all().into_iter().filter(|stall| is_it(&stall.place)).collect()
    }

    /// The first about such a place.
    fn wait_for(&self, what: &str, is_it: impl Fn(&Place) -> bool) -> Stall {
        self.wait_for_stall(what, |stall| is_it(&stall.place))
    }

    fn wait_for_stall(&self, what: &str, is_it: impl Fn(&Stall) -> bool) -> Stall {
        let first = || self.all().into_iter().find(&is_it);
        eventually(what, || first().is_some());
        first().unwrap()
    }
}

fn is_queue(name: &str) -> impl Fn(&Place) -> bool {
    move |place| matches!(place, Place::Queue { name: known, .. } if known == name)
}

/// Whether the stacks of this machine can be read. Not under ThreadSanitizer: from a thread that
/// sleeps it keeps back the signal that asks for one, and a thread that computes gets it a moment
/// later, with the registers of before, when its stack is another.
fn has_stacks() -> bool {
    static SAID: Once = Once::new();
    if is_thread_sanitizer() {
        SAID.call_once(|| skip("no look at stacks: ThreadSanitizer keeps back the signal"));
        return false;
    }
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// The item is in this function of this file, at this line.
#[track_caller]
fn assert_is_in(item: &RunningItem, function: &str, line: u32) {
    if !has_stacks() {
        return;
    }
    let is_it = |frame: &&cmwq::watchdog::Frame| {
        frame.function.as_ref().is_some_and(|name| name.ends_with(function))
    };
    let frame = item.stack.frames().iter().find(is_it);
    let frame = frame.unwrap_or_else(|| panic!("no {function}: {item}"));
    assert!(
        frame.file.as_deref().is_some_and(|file| file.ends_with("tests/it/watchdog.rs")),
        "{item}"
    );
    assert_eq!(frame.line, Some(line), "{item}");
    assert!(item.function.file.is_some() && item.function.line.is_some(), "{item}");
}

// ---- deadlocks

const IN_FIRST: u32 = line!() + 4;
#[inline(never)]
fn first_flushes(other: &Workqueue, both: &std::sync::Barrier) {
    both.wait();
    other.flush();
    burn(Duration::ZERO);
}

const IN_SECOND: u32 = line!() + 4;
#[inline(never)]
fn second_flushes(other: &Workqueue, both: &std::sync::Barrier) {
    both.wait();
    other.flush();
    // Not what `first_flushes` does: the compiler would make one function of the two.
    std::hint::black_box(other);
}

#[test]
fn two_queues_that_flush_each_other_are_reported_with_both_lines() {
    Stage::new("watchdog::deadlock").params("watchdog_thresh=0.3").play();
}

/// Two queues, which nobody can take down any more.
fn flush_each_other() {
    let ordered = |name| Arc::new(Workqueue::builder(name).ordered().build().unwrap());
    let (first, second) = (ordered("first"), ordered("second"));
    let both = Arc::new(std::sync::Barrier::new(2));
    let queue =
        |wq: &Workqueue, other: &Arc<Workqueue>, flushes: fn(&Workqueue, &std::sync::Barrier)| {
            let (other, both) = (Arc::clone(other), Arc::clone(&both));
            drop(wq.queue(move || flushes(&other, &both)));
        };
    queue(&first, &second, first_flushes);
    queue(&second, &first, second_flushes);
    mem::forget((first, second));
}

fn deadlock() {
    let reports = Reports::collect();
    flush_each_other();
    let stall = reports.wait_for("the deadlock is found", |place| *place == Place::Circle);
    assert!(stall.duration >= Duration::from_millis(300), "{stall}");
    assert_eq!(stall.running.len(), 2, "{stall}");
    for (name, other, function, line) in [
        ("first", "second", "first_flushes", IN_FIRST),
        ("second", "first", "second_flushes", IN_SECOND),
    ] {
        let item = stall.running.iter().find(|item| item.workqueue == name).unwrap();
        assert_eq!(item.waits_for.as_deref(), Some(&*format!("workqueue '{other}'")), "{stall}");
        assert!(item.worker.starts_with("kworker/u") && item.tid.is_some(), "{stall}");
        assert_is_in(item, function, line);
    }
}

#[test]
fn an_item_that_waits_for_a_flush_that_does_not_wait_for_it_is_not_reported() {
    Stage::new("watchdog::later").params("watchdog_thresh=0.3").play();
}

/// An item flushes a queue, in either way, and one that was queued there later waits for the item.
fn later() {
    let reports = Reports::collect();
    let (own, flushed) = (managed("own"), managed("flushed"));
    // An item must not drop the last handle: it would wait for who waits for it.
    mem::forget(flushed.clone());
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let earlier = flushed.queue(move || theirs.pass());
    let ways: [fn(&Workqueue); 2] = [|wq| wq.flush(), |wq| wq.flush_async().wait()];
    let later = ways.map(|flush| {
        let ((tid, flusher), wq) = (mpsc::channel(), flushed.clone());
        let item = own.queue(move || {
            tid.send(sys::gettid()).unwrap();
            flush(&wq);
        });
        let tid = flusher.recv().unwrap();
        eventually("it flushes", || procfs::rests(tid));
        flushed.queue(move || item.join().unwrap())
    });
    // These begin to wait later, and what has waited for longer is told of first.
    flush_each_other();
    let is_circle = |place: &Place| *place == Place::Circle;
    reports.wait_for("the deadlock is found", is_circle);
    for stall in reports.at(is_circle) {
        let mut running = stall.running.iter().map(|item| &*item.workqueue);
        assert!(running.all(|name| ["first", "second"].contains(&name)), "{stall}");
    }
    gate.open();
    joined(earlier);
    later.into_iter().for_each(joined);
}

#[test]
fn items_that_wait_for_each_other_are_reported() {
    Stage::new("watchdog::work_deadlock").params("watchdog_thresh=0.3").play();
}

fn work_deadlock() {
    let reports = Reports::collect();
    let wq = managed("pair");
    let both = Arc::new(std::sync::Barrier::new(2));
    let works: Arc<Mutex<Vec<Work>>> = Arc::default();
    for n in 0..2 {
        let (theirs, both) = (Arc::clone(&works), Arc::clone(&both));
        let work = Work::new(move || {
            both.wait();
            let other = theirs.lock().unwrap()[1 - n].clone();
            other.flush();
        });
        works.lock().unwrap().push(work);
    }
    let both_works = works.lock().unwrap().clone();
    assert!(both_works.iter().all(|work| wq.queue_work(work)));
    let stall = reports.wait_for("the deadlock is found", |place| *place == Place::Circle);
    assert_eq!(stall.running.len(), 2, "{stall}");
    assert!(stall.running.iter().all(|item| item.workqueue == "pair"), "{stall}");
    mem::forget(wq);
}

// ---- stalls

/// On each CPU.
const HOGS: usize = 8;

const IN_SPIN: u32 = line!() + 4;
#[inline(never)]
fn spins_here(gate: &Gate) {
    while !gate.is_open() {
        burn(Duration::from_millis(1));
    }
}

#[test]
fn items_that_hog_all_cpus_are_reported() {
    let params = "watchdog_thresh=0.3 cpu_intensive_thresh_us=0";
    Stage::new("watchdog::hog").params(params).play();
}

/// Every CPU has an item that does not end, and others behind it: while one tells its stack it may
/// sleep for a moment, and the next one starts.
fn hog() {
    let reports = Reports::collect();
    let wq = percpu("hogged");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let cpus = sys::allowed_cpus();
    let mut handles = Vec::new();
    for &cpu in &cpus {
        let entered = Gate::new();
        for _ in 0..HOGS {
            let (theirs, entered) = (gate.clone(), entered.clone());
            handles.push(wq.queue_on(cpu, move || {
                entered.open();
                spins_here(&theirs);
            }));
        }
        entered.pass();
    }
    for &cpu in &cpus {
        // On a machine that stops for as long there may be one, before, about the first item, or
        // one whose thread has had no CPU to tell its stack. Each threshold brings another.
        let is_here = |stall: &Stall| {
            let is_told = |item: &RunningItem| matches!(item.stack, Stack::Frames(_));
            matches!(&stall.place, Place::Pool { cpus, .. } if cpus.iter().eq([cpu]))
                && !stall.running.is_empty()
                && (!has_stacks() || stall.running.iter().all(is_told))
        };
        let stall = reports.wait_for_stall("each pool is reported", is_here);
        assert!(matches!(stall.place, Place::Pool { nice: 0, .. }), "{stall}");
        let waiting: Vec<_> =
            stall.waiting.iter().map(|items| (&*items.workqueue, items.count)).collect();
        let [("hogged", nr_waiting)] = waiting[..] else { panic!("items wait: {stall}") };
        let nr_running = stall.running.len();
        assert!(nr_running + nr_waiting as usize <= HOGS, "{stall}");
        assert!(stall.running.iter().all(|item| item.workqueue == "hogged"), "{stall}");
        if has_stacks() {
            // It burns, and now and then it looks at the gate.
            let lines = [Some(IN_SPIN), Some(IN_SPIN - 1)];
            let spins = |frame: &Frame| {
                frame.function.as_ref().is_some_and(|name| name.ends_with("spins_here"))
                    && lines.contains(&frame.line)
            };
            let spins = |item: &RunningItem| item.stack.frames().iter().any(spins);
            assert!(stall.running.iter().any(spins), "{stall}");
        }
    }
    gate.open();
    handles.into_iter().for_each(joined);
}

/// One item blocks, and another one may not start before it has finished.
fn starves(gate: &Gate) {
    let wq = Workqueue::builder("full").unbound().max_active(1).build().unwrap();
    let theirs = gate.clone();
    let blocked = wq.queue(move || theirs.pass());
    let waiting = wq.queue(|| ());
    joined(blocked);
    joined(waiting);
}

#[test]
fn items_behind_max_active_are_reported_once_per_threshold() {
    Stage::new("watchdog::starved").params("watchdog_thresh=0.3").play();
}

fn starved() {
    let reports = Reports::collect();
    let thresh = Duration::from_millis(300);
    assert_eq!(cmwq::watchdog::thresh(), Duration::ZERO, "the library is not in use yet");
    let wq = Workqueue::builder("full").unbound().max_active(1).build().unwrap();
    assert_eq!(cmwq::watchdog::thresh(), thresh);
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // Reading goes on after the signal.
    let blocked = wq.queue(move || reader.read_exact(&mut [0]));
    let waiting = wq.queue(|| ());
    eventually("three reports", || reports.all().len() >= 3);
    let start = Instant::now();
    let nr = reports.all().len();
    let stalls = reports.at(is_queue("full"));
    assert!(stalls.len() >= nr, "there is nothing else: {:?}", reports.all());
    for (nr, pair) in (2..).zip(stalls.windows(2)) {
        assert!(pair[1].duration >= pair[0].duration + thresh, "{} {}", pair[0], pair[1]);
        assert!(pair[1].duration >= nr * thresh, "{}", pair[1]);
    }
    let stall = &stalls[0];
    let [item] = &stall.running[..] else { panic!("one item is in the way: {stall}") };
    assert!(item.workqueue == "full" && item.waits_for.is_none(), "{stall}");
    assert!(!has_stacks() || item.stack.frames().len() > 2, "{stall}");
    assert_eq!(stall.waiting.iter().map(|items| items.count).sum::<u32>(), 1, "{stall}");
    writer.write_all(&[1]).unwrap();
    joined(blocked).unwrap();
    joined(waiting);
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn a_queue_that_makes_progress_is_not_reported() {
    Stage::new("watchdog::progress").params("watchdog_thresh=2").play();
}

/// Items wait all the time, for longer than the threshold, and one after the other runs.
fn progress() {
    let reports = Reports::collect();
    let wq = Workqueue::builder("busy").unbound().max_active(1).build().unwrap();
    let cpu = sys::allowed_cpus()[0];
    let bound = percpu("bound");
    let item = || burn(Duration::from_millis(5));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        let handles: Vec<_> =
            (0..20).flat_map(|_| [wq.queue(item), bound.queue_on(cpu, item)]).collect();
        handles.into_iter().for_each(joined);
    }
    let all = reports.all();
    assert!(all.is_empty(), "{all:?}");
}

#[test]
fn queues_that_come_one_after_the_other_are_not_taken_for_one() {
    Stage::new("watchdog::one_after_the_other").params("watchdog_thresh=2").play();
}

/// Whenever it is looked, one item of some queue has begun and another one waits behind it: never
/// for long, and never in the same queue.
fn one_after_the_other() {
    let reports = Reports::collect();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        let wq = Workqueue::builder("short").unbound().max_active(1).build().unwrap();
        let items = [wq.queue(|| thread::sleep(Duration::from_millis(50))), wq.queue(|| ())];
        items.into_iter().for_each(joined);
        drop(wq);
        // The next one has its place.
        eventually("it has gone", || !cmwq::report().unwrap().to_string().contains("short"));
    }
    let all = reports.all();
    assert!(all.is_empty(), "{all:?}");
}

#[test]
fn an_item_that_comes_when_nobody_looks_any_more_is_reported() {
    for source in ["inline", "sentinel"] {
        let stage = Stage::new("watchdog::behind_a_worker");
        stage.detect(source).params("watchdog_thresh=0.4 cpu_intensive_thresh_us=0").play();
    }
}

/// The pool has as many running workers as it may, and nothing waits there any more when the
/// watchdog looks. Then an item is queued, for which nobody takes the pool's lock.
fn behind_a_worker() {
    let reports = Reports::collect();
    let (gate, begun) = (Gate::new(), Gate::new());
    let _opened = Opened(&gate);
    let (theirs, cpu) = ((gate.clone(), begun.clone()), sys::allowed_cpus()[0]);
    let bound = percpu("bound");
    let first = bound.queue_on(cpu, move || {
        theirs.1.open();
        theirs.0.spin();
    });
    begun.pass();
    let waits = Work::new(|| ());
    assert!(bound.queue_work_on(cpu, &waits));
    reports.wait_for("one waits", |place| matches!(place, Place::Pool { .. }));
    assert!(waits.cancel());
    let nr_looks = || procfs::switches("cmwq/watchdog");
    let before = nr_looks();
    let start = Instant::now();
    eventually("it looks, or does not any more", || {
        nr_looks() > before + 2 || start.elapsed() > Duration::from_secs(1)
    });
    let nr = reports.all().len();
    let last = bound.queue_on(cpu, || ());
    eventually("it is reported", || reports.all().len() > nr);
    gate.open();
    [first, last].into_iter().for_each(joined);
}

#[test]
fn touching_the_watchdog_excuses_a_long_wait() {
    Stage::new("watchdog::touched").params("watchdog_thresh=1.5").play();
}

fn touched() {
    let reports = Reports::collect();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let wait = thread::spawn(move || starves(&theirs));
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        cmwq::watchdog::touch(None);
        thread::sleep(Duration::from_millis(10));
    }
    assert!(reports.all().is_empty(), "{:?}", reports.all());
    reports.wait_for("it is not touched any more", is_queue("full"));
    gate.open();
    wait.join().unwrap();
}

#[test]
fn frozen_items_are_not_missed() {
    Stage::new("watchdog::frozen").params("watchdog_thresh=0.2").play();
}

fn frozen() {
    let reports = Reports::collect();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let cold = Workqueue::builder("cold").freezable().build().unwrap();
    cmwq::freeze();
    let frozen: Vec<_> = (0..3).map(|n| cold.queue(move || n)).collect();
    let theirs = gate.clone();
    let wait = thread::spawn(move || starves(&theirs));
    eventually("the other queue is reported", || reports.at(is_queue("full")).len() >= 3);
    assert!(reports.at(is_queue("cold")).is_empty(), "{:?}", reports.all());
    cmwq::thaw();
    assert_eq!(frozen.into_iter().map(joined).collect::<Vec<_>>(), [0, 1, 2]);
    gate.open();
    wait.join().unwrap();
}

#[test]
fn the_watchdog_is_switched_on_while_something_waits() {
    Stage::new("watchdog::switched_on").params("watchdog_thresh=0").play();
}

fn switched_on() {
    let reports = Reports::collect();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let wait = thread::spawn(move || starves(&theirs));
    eventually("one item runs", || !procfs::workers("kworker/u").is_empty());
    assert!(procfs::workers("cmwq/watchdog").is_empty(), "off means no thread");
    cmwq::watchdog::set_thresh(Duration::from_millis(200)).unwrap();
    reports.wait_for("it is on", is_queue("full"));
    cmwq::set_param("watchdog_thresh", "0").unwrap();
    cmwq::set_param("panic_on_stall_time", "1.5").unwrap();
    let now = ["watchdog_thresh", "panic_on_stall", "panic_on_stall_time"].map(cmwq::param);
    assert_eq!(now, ["0", "0", "1.5"].map(|text| Some(text.to_owned())));
    assert_quiet();
    gate.open();
    wait.join().unwrap();
}

// ---- stacks that cannot be had

#[test]
fn a_thread_that_blocks_the_signal_is_said_to() {
    Stage::new("watchdog::blocked_signal").params("watchdog_thresh=0.2").play();
}

#[test]
fn a_handler_of_the_program_is_not_replaced() {
    let params = format!("watchdog_thresh=0.2 watchdog_signal={}", libc::SIGALRM);
    // That of the time limit of scenes is the default action: a handler is set by the scene.
    Stage::new("watchdog::taken_signal").params(&params).play();
    Stage::new("watchdog::no_signal").params("watchdog_thresh=0.2 watchdog_signal=0").play();
}

extern "C" fn ignore(_: i32) {}

fn no_stack(blocks: bool, reason: &str) {
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGALRM, ignore as *const () as usize) };
    let reports = Reports::collect();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let wq = Workqueue::builder("full").unbound().max_active(1).build().unwrap();
    let theirs = gate.clone();
    let blocked = wq.queue(move || {
        if blocks {
            // SAFETY: of this thread, with a set that is filled first.
            unsafe {
                let mut all = mem::zeroed();
                libc::sigfillset(&raw mut all);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
            }
        }
        theirs.pass();
    });
    let waiting = wq.queue(|| ());
    let stall = reports.wait_for("the stall is found", is_queue("full"));
    match &stall.running[0].stack {
        Stack::Missing(why) if has_stacks() => assert!(why.contains(reason), "{stall}"),
        Stack::Frames(_) => panic!("{reason}: {stall}"),
        _ => {}
    }
    gate.open();
    joined(blocked);
    joined(waiting);
}

// ---- what follows

#[test]
fn too_many_stalls_end_the_process() {
    for (params, reports) in [("panic_on_stall=2", 2), ("panic_on_stall_time=0.15", 1)] {
        let params = format!("watchdog_thresh=0.2 {params}");
        let output = Stage::new("watchdog::starves").params(&params).loud().output();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
        let said = "cmwq: stall: workqueue 'full' is at max_active";
        assert_eq!(text.matches(said).count(), reports, "{text}");
        assert!(text.contains("workqueue full: flags=0x2"), "a dump follows: {text}");
        assert!(text.contains(&format!("ends the process after {reports} reports")), "{text}");
    }
}

#[test]
fn the_watchdog_wakes_nobody_when_nothing_waits() {
    Stage::new("watchdog::quiet_after").params("watchdog_thresh=0.1").play();
}

fn quiet_after() {
    let reports = Reports::collect();
    let gate = Gate::new();
    let theirs = gate.clone();
    let wait = thread::spawn(move || starves(&theirs));
    reports.wait_for("it is awake", is_queue("full"));
    gate.open();
    wait.join().unwrap();
    assert_quiet();
    // One that runs for long, and nobody waits.
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let theirs = gate.clone();
    let wq = unbound("alone");
    let alone = wq.queue(move || theirs.pass());
    assert_quiet();
    gate.open();
    joined(alone);
}

#[test]
fn a_signal_makes_a_dump() {
    Stage::new("watchdog::dump").loud().params("watchdog_thresh=0").play();
    Stage::new("watchdog::dump_param").loud().params("dump_signal=USR2").play();
}

fn dump() {
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR2, ignore as *const () as usize) };
    let error = cmwq::dump_on_signal(libc::SIGUSR2).unwrap_err();
    assert!(error.to_string().contains("handler"), "{error}");
    assert!(cmwq::dump_on_signal(libc::SIGKILL).is_err());
    cmwq::dump_on_signal(libc::SIGUSR1).unwrap();
    cmwq::dump_on_signal(libc::SIGUSR1).unwrap();
    dumps(libc::SIGUSR1);
}

fn dumps(signal: i32) {
    let path = standard_error_to_a_file();
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let wq = unbound("dumped");
    let (theirs, entered) = (gate.clone(), Gate::new());
    let item = wq.queue({
        let entered = entered.clone();
        move || {
            entered.open();
            theirs.pass();
        }
    });
    entered.pass();
    for nr in 1..3 {
        // SAFETY: the signal has a handler.
        unsafe {
            if is_thread_sanitizer() {
                // The first thread, which a process's signals go to, sleeps until the end, and from
                // who sleeps it is kept back.
                libc::raise(signal);
            } else {
                libc::kill(libc::getpid(), signal);
            }
        }
        eventually("the queue is in the dump", || {
            let text = std::fs::read_to_string(&path).unwrap();
            text.matches("workqueue dumped:").count() == nr && text.contains("in-flight")
        });
    }
    gate.open();
    joined(item);
}

/// Returns where it can be read.
fn standard_error_to_a_file() -> impl AsRef<Path> {
    // SAFETY: the name is a string; the descriptor is checked.
    let file = unsafe {
        let fd = libc::memfd_create(c"stderr".as_ptr(), 0);
        assert!(fd >= 0);
        File::from_raw_fd(fd)
    };
    // SAFETY: both are open; nobody else uses standard error at this moment.
    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), 2) }, 2);
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    mem::forget(file);
    path
}
