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

/// Waits for a thread that has such a name, and returns it.
#[track_caller]
fn found(what: &str, is_it: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let names = procfs::workers("");
        if let Some(name) = names.iter().find(|name| is_it(name)) {
            return name.clone();
        }
        assert!(start.elapsed() < PATIENCE, "{what} is not among {names:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A name as the kernel keeps it.
fn cut(name: &str) -> &str {
    &name[..name.len().min(15)]
}

#[track_caller]
fn assert_shown(name: &str) {
    found(name, |shown| shown == cut(name));
}

/// Waits for a worker of the pool whose name goes on with `rest`, and returns what comes before
/// that. Any worker: where others have the CPU, the standby may come first.
#[track_caller]
fn shown(pool: &str, rest: &str) -> String {
    let own = |name: &str| {
        let number = name.strip_prefix(pool)?.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(format!("{pool}{number}")).filter(|own| own.len() > pool.len())
    };
    let is_it = |name: &str| own(name).is_some_and(|own| name == cut(&format!("{own}{rest}")));
    own(&found(&format!("{pool}…{rest}"), is_it)).expect("it has a number")
}

fn pool_of(cpu: u32) -> String {
    format!("kworker/{cpu}:")
}

/// While an item of `wq` blocks, a worker is named after the queue, and afterwards, too. `high`:
/// how the pool says that its priority is high.
#[track_caller]
fn assert_named(wq: &Workqueue, cpu: u32, high: &str) {
    let gate = Gate::new();
    let _opened = Opened(&gate);
    let item = wq.queue_on(cpu, {
        let gate = gate.clone();
        move || gate.pass()
    });
    let own = shown(&pool_of(cpu), &format!("{high}+{}", wq.name()));
    gate.open();
    joined(item);
    assert_shown(&format!("{own}{high}-{}", wq.name()));
}

fn percpu_names() {
    for cpu in sys::allowed_cpus() {
        assert_named(&percpu("io"), cpu, "");
        // The standby, which has done nothing yet.
        shown(&pool_of(cpu), "");
        assert_named(&percpu("a_long_description"), cpu, "");
        let high = Workqueue::builder("x").percpu().highpri().build().unwrap();
        assert_named(&high, cpu, "H");
        shown(&pool_of(cpu), "H");
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
        let rest = format!("+{}", wq.name());
        let numbers = |name: &str| {
            let numbers = name.strip_prefix("kworker/u")?.strip_suffix(&*rest)?.split_once(':')?;
            Some((numbers.0.parse::<u32>().ok()?, numbers.1.parse::<u32>().ok()?))
        };
        let name = found("a worker of the pool", |name| numbers(name).is_some());
        gate.open();
        joined(item);
        assert_shown(&name.replace('+', "-"));
        let (pool, _) = name.split_once(':').expect("the pool's number and the worker's");
        shown(&format!("{pool}:"), "");
    }
}

/// Nothing shows the name of a queue that is gone while another one's item runs.
fn reuse() {
    let cpu = sys::allowed_cpus()[0];
    for n in 0..10 {
        assert_named(&percpu(&format!("q{n}")), cpu, "");
    }
    // Also if the name was never corrected in between.
    for n in 0..10 {
        joined(percpu("between").queue_on(cpu, || ()));
        assert_named(&percpu(&format!("r{n}")), cpu, "");
    }
}

/// What an item says of itself is shown until the next item starts.
fn desc() {
    let cpu = sys::allowed_cpus()[0];
    let pool = pool_of(cpu);
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
    let own = shown(&pool, "+a");
    step.open();
    joined(item);
    assert_shown(&format!("{own}-a"));

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
    let own = shown(&pool, "+q");
    first.open();
    assert_shown(&format!("{own}+b"));
    second.open();
    let begins = format!("{own}+é");
    found(&begins, |name| name.starts_with(&begins) && name.ends_with('é'));
    end.open();
    joined(item);
    // The next item is not what the one before was.
    assert_named(&wq, cpu, "");
    // Nobody's description.
    cmwq::set_worker_desc("main");
    assert!(!procfs::workers("").iter().any(|name| name.contains("main")));
}
