//! The names of threads, as the kernel shows them to `ps` and `top`.

use std::time::{Duration, Instant};

use cmwq::Workqueue;

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, joined, managed, percpu, procfs, sys, unbound};

pub(crate) const SCENES: &[Scene] = &[
    ("names::percpu", percpu_names),
    ("names::unbound", unbound_names),
    ("names::reuse", reuse),
    ("names::desc", desc),
];

#[test]
fn workers_are_named_as_the_kernels_are() {
    Stage::new("names::percpu").play();
    Stage::new("names::unbound").play();
}

#[test]
fn an_item_says_what_it_does() {
    Stage::new("names::desc").play();
}

#[test]
fn a_new_queue_in_an_old_ones_place_is_named_by_itself() {
    Stage::new("names::reuse").play();
}

/// Waits for a thread with a name that has this beginning and that end, cut to the 15 bytes that
/// the kernel keeps; returns the name.
#[track_caller]
fn shown(beginning: &str, end: &str) -> String {
    let is_it = |name: &String| {
        let rest = name.strip_prefix(beginning);
        let is_cut = || name.len() == 15 && format!("{beginning}{end}").starts_with(name.as_str());
        rest.is_some_and(|rest| rest.ends_with(end)) || is_cut()
    };
    let start = Instant::now();
    loop {
        let names = procfs::workers("");
        if let Some(name) = names.iter().find(|name| is_it(name)) {
            return name.clone();
        }
        assert!(start.elapsed() < PATIENCE, "{beginning}…{end} is not among {names:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[track_caller]
fn assert_shown(name: &str) {
    shown(name, "");
}

/// While an item of `wq` blocks, a worker has the first name, and afterwards the second.
#[track_caller]
fn assert_names(wq: &Workqueue, cpu: u32, during: &str, after: &str) {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let item = wq.queue_on(cpu, {
        let gate = gate.clone();
        move || gate.pass()
    });
    assert_shown(during);
    gate.open();
    joined(item);
    assert_shown(after);
}

fn percpu_names() {
    for cpu in sys::allowed_cpus() {
        let name = |number: &str| format!("kworker/{cpu}:{number}");
        assert_names(&percpu("io"), cpu, &name("0+io"), &name("0-io"));
        // The standby, which has done nothing yet.
        assert_shown(&name("1"));
        let long = percpu("a_long_description");
        assert_names(&long, cpu, &name("0+a_long_description"), &name("0-a_long_description"));
        let high = Workqueue::builder("x").percpu().highpri().build().unwrap();
        assert_names(&high, cpu, &name("0H+x"), &name("0H-x"));
        assert_shown(&name("1H"));
    }
}

fn unbound_names() {
    for wq in [managed("m"), unbound("u")] {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let item = wq.queue({
            let gate = gate.clone();
            move || gate.pass()
        });
        let name = shown("kworker/u", &format!(":0+{}", wq.name()));
        let pool = name.split_once(':').unwrap().0;
        assert!(pool["kworker/u".len()..].parse::<u32>().is_ok(), "{name} has the pool's number");
        gate.open();
        joined(item);
        assert_shown(&name.replace('+', "-"));
        assert_shown(&format!("{pool}:1"));
    }
}

/// Nothing shows the name of a queue that is gone while another one's item runs.
fn reuse() {
    let cpu = sys::allowed_cpus()[0];
    // By any worker: where others have the CPU, the standby may come first.
    let assert_named = |wq: &Workqueue| {
        let gate = Gate::new();
        let _opened = Opened(&gate);
        let item = wq.queue_on(cpu, {
            let gate = gate.clone();
            move || gate.pass()
        });
        let name = shown(&format!("kworker/{cpu}:"), &format!("+{}", wq.name()));
        gate.open();
        joined(item);
        assert_shown(&name.replace('+', "-"));
    };
    for n in 0..10 {
        assert_named(&percpu(&format!("q{n}")));
    }
    // Also if the name was never corrected in between.
    for n in 0..10 {
        joined(percpu("between").queue_on(cpu, || ()));
        assert_named(&percpu(&format!("r{n}")));
    }
}

/// What an item says of itself is shown until the next item starts.
fn desc() {
    let cpu = sys::allowed_cpus()[0];
    let name = |rest: &str| format!("kworker/{cpu}:0{rest}");
    let wq = percpu("q");
    let step = Gate::new();
    let _opened = Opened(&step);
    let item = wq.queue_on(cpu, {
        let step = step.clone();
        move || {
            cmwq::set_worker_desc("a");
            step.pass();
        }
    });
    assert_shown(&name("+a"));
    step.open();
    joined(item);
    assert_shown(&name("-a"));

    // A second text in one run, longer than can be shown and than is kept, cut between characters.
    let (first, second, end) = (Gate::new(), Gate::new(), Gate::new());
    let _opened = [&first, &second, &end].map(Opened);
    let item = wq.queue_on(cpu, {
        let (first, second, end) = (first.clone(), second.clone(), end.clone());
        move || {
            first.pass();
            cmwq::set_worker_desc("b");
            second.pass();
            cmwq::set_worker_desc(&"é".repeat(40));
            end.pass();
        }
    });
    assert_shown(&name("+q"));
    first.open();
    assert_shown(&name("+b"));
    second.open();
    shown(&name("+"), "é");
    end.open();
    joined(item);
    // The next item is not what the one before was.
    assert_names(&wq, cpu, &name("+q"), &name("-q"));
    // Nobody's description.
    cmwq::set_worker_desc("main");
    assert!(!procfs::workers("").iter().any(|name| name.contains("main")));
}
