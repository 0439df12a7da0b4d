//! The names of threads, as the kernel shows them to `ps` and `top`.

use std::time::{Duration, Instant};

use cmwq::Workqueue;

use crate::support::scene::{Scene, Stage};
use crate::support::wait::{Opened, PATIENCE};
use crate::support::{Gate, joined, managed, percpu, procfs, sys, unbound};

pub(crate) const SCENES: &[Scene] =
    &[("names::percpu", percpu_names), ("names::unbound", unbound_names), ("names::reuse", reuse)];

#[test]
fn workers_are_named_as_the_kernels_are() {
    Stage::new("names::percpu").play();
    Stage::new("names::unbound").play();
}

#[test]
fn a_new_queue_in_an_old_ones_place_is_named_by_itself() {
    Stage::new("names::reuse").play();
}

/// Waits for a thread of that name, cut to the 15 bytes that the kernel keeps.
#[track_caller]
fn assert_shown(name: &str) {
    let (name, start) = (&name[..name.len().min(15)], Instant::now());
    loop {
        let names = procfs::workers("");
        if names.iter().any(|known| known == name) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{name} is not among {names:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// While an item of `wq` blocks, a worker has the first name, and afterwards the second.
#[track_caller]
fn assert_names(wq: &Workqueue, cpu: usize, during: &str, after: &str) {
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
    for (number, wq) in [managed("m"), unbound("u")].into_iter().enumerate() {
        let name = |rest: &str| format!("kworker/u{number}:{rest}{}", wq.name());
        assert_names(&wq, 0, &name("0+"), &name("0-"));
        assert_shown(&format!("kworker/u{number}:1"));
    }
}

/// Nothing shows the name of a queue that is gone while another one's item runs.
fn reuse() {
    let cpu = sys::allowed_cpus()[0];
    for n in 0..10 {
        let wq = percpu(&format!("q{n}"));
        let name = |sign: char| format!("kworker/{cpu}:0{sign}q{n}");
        assert_names(&wq, cpu, &name('+'), &name('-'));
    }
    // Also if the name was never corrected in between.
    for n in 0..10 {
        joined(percpu("between").queue_on(cpu, || ()));
        let wq = percpu(&format!("r{n}"));
        let name = |sign: char| format!("kworker/{cpu}:0{sign}r{n}");
        assert_names(&wq, cpu, &name('+'), &name('-'));
    }
}
