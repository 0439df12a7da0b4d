//! What works less well is said once, and everything still works.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use cmwq::{Attrs, Sched, Workqueue};

use crate::support::cpus::confine_all;
use crate::support::load::burn;
use crate::support::scene::{NOBODY, Scene, Stage, skip};
use crate::support::{
    Peak, eventually, every_kind, joined, managed, percpu, procfs, sys, undisturbed,
};

pub(crate) const SCENES: &[Scene] = &[
    ("degrade::no_perf", no_perf),
    ("degrade::no_perf_chosen", no_perf_chosen),
    ("degrade::no_proc", no_proc),
    ("degrade::no_idle_class", no_idle_class),
    ("degrade::no_affinity", no_affinity),
    ("degrade::one_cpu", one_cpu),
    ("degrade::fewer_cpus", fewer_cpus),
    ("degrade::no_nice", no_nice),
    ("degrade::no_prctl", no_prctl),
    ("degrade::no_policy", no_policy),
    ("degrade::bad_settings", bad_settings),
];

#[test]
fn without_switch_records() {
    Stage::new("degrade::no_perf").detect("perf").play();
    Stage::new("degrade::no_perf_chosen").play();
}

#[test]
fn without_proc() {
    for source in ["tick", "sentinel", "perf"] {
        Stage::new("degrade::no_proc").detect(source).play();
    }
}

#[test]
fn without_the_idle_class() {
    let no_hogs = "cpu_intensive_thresh_us=0";
    Stage::new("degrade::no_idle_class").detect("sentinel").params(no_hogs).play();
}

#[test]
fn without_affinity() {
    Stage::new("degrade::no_affinity").play();
}

#[test]
fn with_one_cpu() {
    for source in ["tick", "sentinel", "perf"] {
        Stage::new("degrade::one_cpu").detect(source).play();
    }
}

#[test]
fn with_fewer_cpus_than_at_the_start() {
    Stage::new("degrade::fewer_cpus").detect("sentinel").play();
    Stage::new("degrade::fewer_cpus").detect("perf").play();
}

#[test]
fn without_the_right_to_be_nice() {
    Stage::new("degrade::no_nice").user(NOBODY).play();
}

/// Names and timer slack of threads, which gVisor does not know either.
#[test]
fn without_prctl() {
    Stage::new("degrade::no_prctl").play();
}

/// Some filters, and other kernels, know `setpriority` and not what is newer.
#[test]
fn without_a_call_for_policies() {
    Stage::new("degrade::no_policy").play();
}

#[test]
fn with_bad_settings() {
    Stage::new("degrade::bad_settings").params("idle_timeout=soon").detect("telepathy").play();
}

/// Items of every kind give right results, and blocked ones make room.
fn assert_works() {
    let cpus = sys::allowed_cpus();
    for wq in every_kind("works") {
        let handles: Vec<_> = (0..200)
            .map(|i| {
                wq.queue_on(cpus[i % cpus.len()], move || {
                    if i % 20 == 0 {
                        thread::sleep(Duration::from_micros(300));
                    }
                    i
                })
            })
            .collect();
        for (i, handle) in handles.into_iter().enumerate() {
            assert_eq!(joined(handle), i);
        }
    }
    for cpu in cpus {
        let wq = percpu("blocks");
        for _ in 0..5 {
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            let blocked = wq.queue_on(cpu, move || reader.read_exact(&mut [0]).unwrap());
            joined(wq.queue_on(cpu, move || writer.write_all(&[1]).unwrap()));
            joined(blocked);
        }
    }
    let high = cmwq::system::highpri();
    assert_eq!(joined(high.queue(|| 1)), 1);
    let later = managed("later").queue_delayed(|| 2, Duration::from_millis(2));
    assert_eq!(joined(later), 2);
}

/// Exactly one thing was said, and it is about that.
#[track_caller]
fn assert_said(about: &str) {
    eventually("the notice", || !cmwq::notices().is_empty());
    let notices = cmwq::notices();
    assert!(notices.len() == 1 && notices[0].contains(about), "{notices:?}");
}

/// Without the right to a nice level of its own there would be a second notice.
fn may_be_nice() -> bool {
    if !sys::is_root() {
        skip("a user without privileges gets one notice more");
    }
    sys::is_root()
}

fn no_perf() {
    if !may_be_nice() {
        return;
    }
    sys::refuse(&[libc::SYS_perf_event_open]).unwrap();
    assert_works();
    assert_said("switch records");
}

fn no_perf_chosen() {
    if !may_be_nice() {
        return;
    }
    sys::refuse(&[libc::SYS_perf_event_open]).unwrap();
    assert_works();
    assert_eq!(cmwq_observe::diagnose().unwrap().detect, cmwq::Detect::Sentinel);
    assert_eq!(cmwq::notices(), [""; 0], "the next best is chosen, which is no degradation");
}

fn no_proc() {
    if let Err(error) = sys::hide_proc() {
        skip(format_args!("/proc cannot be hidden: {error}"));
        return;
    }
    assert!(std::fs::read_dir("/proc").is_ok_and(|mut dir| dir.next().is_none()));
    assert_works();
    assert_said("thread states cannot be read");
}

fn no_idle_class() {
    if !may_be_nice() {
        return;
    }
    sys::refuse(&[libc::SYS_sched_setscheduler, libc::SYS_sched_setattr]).unwrap();
    assert_works();
    assert_said("idle-class sentinel");
    // It is the only source, and should come 400 times.
    undisturbed(10, || match ticks_of_a_fruitless_watch() {
        151.. => Ok(()),
        ticks => Err(format!("it came {ticks} times in 400 ms")),
    });
}

/// How often the service thread has looked in 400 ms at a worker that computes, while work waits.
fn ticks_of_a_fruitless_watch() -> u64 {
    let (wq, cpu) = (percpu("computes"), sys::allowed_cpus()[0]);
    let switches = || {
        let service = procfs::other_tasks().into_iter().find(|task| task.name == "cmwq/service");
        service.expect("the service thread").switches
    };
    let computes = wq.queue_on(cpu, move || {
        // Until here the interval has grown as far as it does.
        burn(Duration::from_millis(100));
        let before = switches();
        burn(Duration::from_millis(400));
        switches() - before
    });
    let waits = wq.queue_on(cpu, || ());
    let ticks = joined(computes);
    joined(waits);
    ticks
}

fn no_affinity() {
    if !may_be_nice() {
        return;
    }
    sys::refuse(&[libc::SYS_sched_setaffinity]).unwrap();
    assert_works();
    eventually("the notice", || !cmwq::notices().is_empty());
    let notices = cmwq::notices();
    let about_workers = notices.iter().filter(|text| text.contains("cannot be pinned")).count();
    assert_eq!(about_workers, 1, "{notices:?}");
    // A sentinel that cannot be pinned is another matter than workers that cannot.
    assert!(notices.len() <= 2, "{notices:?}");
}

fn one_cpu() {
    let cpu = sys::allowed_cpus()[0];
    confine_all(&[cpu]);
    if cmwq_observe::diagnose().unwrap().detect == cmwq::Detect::Perf && !sys::is_root() {
        skip("switch records may be refused");
        return;
    }
    assert_works();
    let wq = managed("one");
    undisturbed(10, || compute_on(cpu, &wq));
    let notices = cmwq::notices();
    if notices.iter().any(|notice| notice.contains("switch records")) {
        // Of perf: root in a container is refused them, too.
        skip("switch records are refused");
    } else if sys::is_root() {
        assert_eq!(notices, [""; 0]);
    }
}

fn compute_on(cpu: u32, wq: &cmwq::Workqueue) -> Result<(), String> {
    let computing = Arc::new(Peak::new());
    let handles: Vec<_> = (0..50)
        .map(|_| {
            let computing = Arc::clone(&computing);
            wq.queue(move || {
                let inside = computing.enter();
                burn(Duration::from_micros(300));
                drop(inside);
                sys::current_cpu()
            })
        })
        .collect();
    assert!(handles.into_iter().all(|handle| joined(handle) == cpu));
    if computing.most() == 1 { Ok(()) } else { Err(format!("{} at once", computing.most())) }
}

/// All threads that there are lose all CPUs but one, in the middle of a load.
fn fewer_cpus() {
    let cpus = sys::allowed_cpus();
    let Some((last, _)) = cpus.split_last().filter(|(_, others)| !others.is_empty()) else {
        skip("there is one CPU only");
        return;
    };
    assert_works();
    let queues = every_kind("shrinking");
    let mut handles = Vec::new();
    for round in 0..6 {
        for i in 0..300 {
            let item = move || {
                burn(Duration::from_micros(20));
                if i % 10 == 0 {
                    thread::sleep(Duration::from_micros(200));
                }
                i
            };
            handles.push((i, queues[i % 3].queue_on(cpus[i % cpus.len()], item)));
        }
        if round == 2 {
            confine_all(&[*last]);
        }
    }
    for (i, handle) in handles {
        assert_eq!(joined(handle), i);
    }
    queues.iter().for_each(cmwq::Workqueue::flush);
    assert_works();
}

fn no_nice() {
    assert_works();
    assert_said("nice -20 refused");
}

fn no_prctl() {
    if !may_be_nice() {
        return;
    }
    sys::refuse(&[libc::SYS_prctl]).unwrap();
    assert_works();
    assert_eq!(cmwq::notices(), [""; 0]);
}

fn no_policy() {
    if !may_be_nice() {
        return;
    }
    sys::refuse(&[libc::SYS_sched_getattr, libc::SYS_sched_setattr]).unwrap();
    assert_works();
    assert_eq!(cmwq::notices(), [""; 0], "nobody needs the call");
    let nice = sys::nicer(5);
    let wq = Workqueue::builder("nice").unbound().nice(nice).build().unwrap();
    assert_eq!(joined(wq.queue(sys::nice)), nice);
    wq.apply_attrs(&Attrs::new().sched(Sched::Fifo(1))).unwrap_err();
}

fn bad_settings() {
    assert_works();
    let notices = cmwq::notices();
    let about = |text: &str| notices.iter().filter(|notice| notice.contains(text)).count();
    assert_eq!((about("idle_timeout=soon"), about("'telepathy'")), (1, 1), "{notices:?}");
}
