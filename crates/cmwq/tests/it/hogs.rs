//! Items that use the CPU for long without sleeping make room for others, as the kernel's do.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cmwq::Workqueue;

use crate::support::load::burn;
use crate::support::scene::{Scene, Stage};
use crate::support::wait::Opened;
use crate::support::{Gate, Peak, eventually, joined, managed, percpu, sys, unbound, undisturbed};

pub(crate) const SCENES: &[Scene] = &[
    ("hogs::off", off),
    ("hogs::ten_ms", || starts_after(Duration::from_millis(10))),
    ("hogs::thirty_ms", || starts_after(Duration::from_millis(30))),
    ("hogs::sleepers", sleepers),
    ("hogs::named", named),
    ("hogs::unnamed", unnamed),
    ("hogs::unread", unread),
    ("hogs::managed_limit", managed_limit),
    ("hogs::managed_room", managed_room),
    ("hogs::managed_waits", managed_waits),
];

/// How long the first item computes.
const BURN: Duration = Duration::from_millis(80);

/// One item burns for [`BURN`], another one is queued behind it. How much CPU time the first had
/// used when the second started; `None`: it had ended.
fn used_before_the_second_starts(wq: &Workqueue) -> Option<Duration> {
    let cpu = sys::allowed_cpus()[0];
    // What its thread had used before; and its id, with which it has begun. Not by a gate: the item
    // must not wait for its lock.
    let before = Arc::new(AtomicU64::new(0));
    let (tid, has_ended) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
    let first = wq.queue_on(cpu, {
        let (before, tid, has_ended) = (before.clone(), tid.clone(), has_ended.clone());
        move || {
            before.store(sys::thread_cpu_time().as_nanos() as u64, Ordering::SeqCst);
            tid.store(sys::gettid(), Ordering::SeqCst);
            burn(BURN);
            has_ended.store(true, Ordering::SeqCst);
        }
    });
    eventually("the first has begun", || tid.load(Ordering::SeqCst) != 0);
    let second = wq.queue_on(cpu, move || {
        // Asked from outside: it may have been stopped since it could have said so itself.
        let now = sys::cpu_time_of(tid.load(Ordering::SeqCst));
        let used = now - Duration::from_nanos(before.load(Ordering::SeqCst));
        (!has_ended.load(Ordering::SeqCst)).then_some(used)
    });
    let used = joined(second);
    joined(first);
    used
}

#[test]
fn a_threshold_of_zero_means_never() {
    Stage::new("hogs::off").params("cpu_intensive_thresh_us=0").play();
}

fn off() {
    let wq = percpu("off");
    // An item that sleeps at a page fault makes room.
    undisturbed(10, || match used_before_the_second_starts(&wq) {
        None => Ok(()),
        used => Err(format!("it starts after {used:?}")),
    });
    assert_eq!(wq.stats().cpu_intensive, 0);
}

#[test]
fn the_next_item_starts_when_the_threshold_is_reached() {
    for source in ["sentinel", "tick", "perf"] {
        Stage::new("hogs::ten_ms").detect(source).params("cpu_intensive_thresh_us=10000").play();
    }
    Stage::new("hogs::thirty_ms").params("cpu_intensive_thresh_us=30000").play();
}

/// Not earlier, unless the first sleeps at a page fault; and on a machine that others keep busy,
/// often, much later.
fn starts_after(thresh: Duration) {
    let wq = percpu("hog");
    let in_time = thresh..thresh + Duration::from_millis(30);
    undisturbed(100, || match used_before_the_second_starts(&wq) {
        Some(used) if in_time.contains(&used) => Ok(()),
        other => Err(format!("not at {thresh:?}, but at {other:?}")),
    });
    let stats = wq.stats();
    assert!(stats.cpu_intensive > 0 && stats.cm_wakeup > 0, "{stats}");
}

#[test]
fn who_sleeps_now_and_then_is_no_hog() {
    for source in ["sentinel", "tick", "perf"] {
        Stage::new("hogs::sleepers").detect(source).params("cpu_intensive_thresh_us=20000").play();
    }
}

fn sleepers() {
    let cpu = sys::allowed_cpus()[0];
    let wq = percpu("sleepers");
    let handles: Vec<_> = (0..12)
        .map(|_| {
            wq.queue_on(cpu, || {
                // In all more than the threshold, and never half of it at once, unless the
                // machine's host takes CPU time in our name: how often it did that much is what
                // this returns.
                let mut awake = sys::thread_cpu_time();
                let mut is_long = || {
                    burn(Duration::from_millis(6));
                    thread::sleep(Duration::from_micros(100));
                    let now = sys::thread_cpu_time();
                    now - std::mem::replace(&mut awake, now) >= Duration::from_millis(15)
                };
                (0..6).filter(|_| is_long()).count()
            })
        })
        .collect();
    let long: usize = handles.into_iter().map(joined).sum();
    let stats = wq.stats();
    assert!(stats.cpu_intensive <= long as u64, "{long} were long; {stats}");
}

fn said_of(name: &str) -> Vec<String> {
    let quoted = format!("'{name}'");
    cmwq::notices().into_iter().filter(|text| text.contains(&quoted)).collect()
}

/// Items that each burn for five thresholds, on one CPU, the last of them unseen: nobody waits
/// then.
fn burn_often(wq: &Workqueue, times: usize) {
    let cpu = sys::allowed_cpus()[0];
    let item = || burn(Duration::from_millis(10));
    let handles: Vec<_> = (0..times).map(|_| wq.queue_on(cpu, item)).collect();
    handles.into_iter().for_each(joined);
}

#[test]
fn hogs_are_named_with_back_off() {
    let params = "cpu_intensive_thresh_us=2000";
    Stage::new("hogs::named").params(params).play();
    Stage::new("hogs::unnamed").params(&format!("{params} cpu_intensive_warning_thresh=0")).play();
}

fn named() {
    let wq = percpu("heavy");
    burn_often(&wq, 3);
    assert_eq!(said_of("heavy"), [""; 0], "three are too few");
    eventually("there were enough", || {
        burn_often(&wq, 10);
        wq.stats().cpu_intensive >= 7
    });
    let mut said = Vec::new();
    // By the watchdog's thread, which takes its time.
    eventually("they are told of", || {
        said = said_of("heavy");
        said.len() >= 3
    });
    for (count, text) in ["4 times", "5 times", "7 times"].into_iter().zip(&said) {
        assert!(text.contains(count) && text.contains("2000 us"), "{text}");
        assert!(text.contains("hogs::burn_often::{{closure}} hogged"), "{text}");
        assert!(text.contains("unbound"), "{text}");
    }
    assert!((said.len() as u64) < wq.stats().cpu_intensive, "not each time: {said:?}");
    // Unbound queues are for such items, and managed ones too.
    for wq in [unbound("unbound hogs"), managed("managed hogs")] {
        burn_often(&wq, 10);
        assert_eq!(said_of(wq.name()), [""; 0]);
    }
}

/// A pipe that is full, as that to a pager whose user is away.
fn full_pipe() -> (io::PipeReader, io::PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    sys::set_nonblocking(&writer, true);
    while writer.write(&[b' '; 4096]).is_ok() {}
    while writer.write(b" ").is_ok() {}
    sys::set_nonblocking(&writer, false);
    (reader, writer)
}

#[test]
fn timers_do_not_wait_until_somebody_reads_of_a_hog() {
    let params = "cpu_intensive_thresh_us=2000 cpu_intensive_warning_thresh=1";
    Stage::new("hogs::unread").params(params).loud().play();
}

fn unread() {
    let wq = percpu("unread");
    let other = unbound("on time");
    joined(other.queue(|| ()));
    let (mut reader, full) = full_pipe();
    let (taken, errors) = (sys::event(), io::stderr().as_raw_fd());
    // Nobody may say anything until it is put back.
    sys::put(&errors, taken.as_raw_fd());
    sys::put(&full, errors);
    drop(full);
    let burned = (0..1000).any(|_| {
        burn_often(&wq, 2);
        wq.stats().cpu_intensive > 0
    });
    let has_come = burned && {
        let later = other.queue_delayed(|| (), Duration::from_millis(20));
        later.join_timeout(Duration::from_secs(30)).is_ok()
    };
    sys::put(&taken, errors);
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert!(has_come, "a timer has waited for who reads");
    assert!(read.trim_start().starts_with("cmwq: workqueue 'unread':"), "{read}");
}

fn unnamed() {
    let wq = percpu("heavy");
    eventually("there were enough", || {
        burn_often(&wq, 10);
        wq.stats().cpu_intensive >= 7
    });
    assert_eq!(said_of("heavy"), [""; 0]);
}

#[test]
fn a_managed_queue_takes_one_hog_per_cpu_out_of_the_count() {
    let params = "cpu_intensive_thresh_us=3000";
    Stage::new("hogs::managed_limit").params(params).play();
    Stage::new("hogs::managed_room").params(params).play();
    Stage::new("hogs::managed_waits").params(params).play();
}

fn managed_limit() {
    let wq = managed("long items");
    undisturbed(20, || at_most_two_per_cpu(&wq, Duration::from_millis(30)));
    // A host that takes the CPUs away for longer than items burn lets nobody look at them twice.
    let mut long = Duration::from_millis(30);
    undisturbed(6, || {
        if wq.stats().cpu_intensive == 0 {
            long *= 2;
            at_most_two_per_cpu(&wq, long)?;
        }
        match wq.stats() {
            stats if stats.cpu_intensive > 0 => Ok(()),
            stats => Err(format!("of those that burn for {long:?} none is found: {stats}")),
        }
    });
}

fn at_most_two_per_cpu(wq: &Workqueue, long: Duration) -> Result<(), String> {
    let computing = Arc::new(Peak::new());
    let cpus = sys::allowed_cpus().len();
    let handles: Vec<_> = (0..10 * cpus)
        .map(|_| {
            let computing = Arc::clone(&computing);
            wq.queue(move || {
                let _inside = computing.enter();
                burn(long);
            })
        })
        .collect();
    handles.into_iter().for_each(joined);
    let most = computing.most();
    if most <= 2 * cpus { Ok(()) } else { Err(format!("{most} on {cpus} CPUs; {}", wq.stats())) }
}

/// A short item does not wait for the end of long ones that occupy all CPUs, and these may leave
/// theirs.
fn managed_room() {
    let wq = managed("room");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let inside = Arc::new(Peak::new());
    let cpus = sys::allowed_cpus();
    let tids = Arc::new(Mutex::new(Vec::new()));
    let hogs: Vec<_> = (0..cpus.len())
        .map(|_| {
            let (gate, inside, tids) = (gate.clone(), Arc::clone(&inside), Arc::clone(&tids));
            wq.queue(move || {
                tids.lock().unwrap().push(sys::gettid());
                let _inside = inside.enter();
                gate.spin();
            })
        })
        .collect();
    eventually("all CPUs are occupied", || inside.now() == cpus.len());
    joined(wq.queue(|| ()));
    eventually("one of them may run anywhere", || {
        let of = |tid: &i32| sys::allowed_cpus_of(*tid).unwrap();
        tids.lock().unwrap().iter().any(|tid| of(tid) == cpus)
    });
    gate.open();
    hogs.into_iter().for_each(joined);
}

/// A short item does not wait for long ones either where as many others are long, and wait now.
fn managed_waits() {
    let wq = managed("waits");
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let inside = Arc::new(Peak::new());
    let nr_cpus = sys::allowed_cpus().len();
    let queue = |body: Arc<dyn Fn() + Send + Sync>| -> Vec<_> {
        let run = || {
            let (inside, body) = (Arc::clone(&inside), Arc::clone(&body));
            move || {
                let _inside = inside.enter();
                body();
            }
        };
        (0..nr_cpus).map(|_| wq.queue(run())).collect()
    };
    let (found, ended) = (Gate::new(), Gate::new());
    let _ended = (Opened(&found), Opened(&ended));
    let first = queue(Arc::new({
        let (found, gate) = (found.clone(), gate.clone());
        move || {
            found.spin();
            gate.pass();
        }
    }));
    eventually("all CPUs are occupied", || inside.now() == nr_cpus);
    let theirs = ended.clone();
    let second = queue(Arc::new(move || theirs.spin()));
    // Asked from here: items that ask often wait for each other at the queue's locks.
    eventually("all CPUs have a hog", || wq.stats().cpu_intensive >= nr_cpus as u64);
    found.open();
    eventually("others have begun beside them", || inside.now() == 2 * nr_cpus);
    let ends = ended.clone();
    joined(wq.queue(move || ends.open()));
    gate.open();
    first.into_iter().chain(second).for_each(joined);
}
