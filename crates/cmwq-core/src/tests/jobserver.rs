//! How many jobs of a build may run.

use std::vec;

use super::support::steps;
use crate::jobserver::{Build, TOKENS_PER_CPU, TokenAct, Tokens};

const CPUS: usize = 2;

fn seen(runnable: usize, threads: usize, unread: usize) -> Build {
    Build { runnable, threads, unread }
}

fn tokens(count: usize) -> Tokens {
    let mut all = Tokens::default();
    all.count = count;
    all
}

#[test]
fn an_idle_cpu_brings_a_token_until_one_is_left_over() {
    let mut all = tokens(1);
    assert_eq!(all.after(seen(1, 3, 0), CPUS), TokenAct::Put);
    assert_eq!(all.after(seen(1, 3, 1), CPUS), TokenAct::Nothing, "nobody wants it yet");
    assert_eq!(all.after(seen(2, 3, 0), CPUS), TokenAct::Nothing, "all CPUs are busy");
    all.count = TOKENS_PER_CPU * CPUS;
    assert_eq!(all.after(seen(0, 99, 0), CPUS), TokenAct::Nothing, "there is an end");
}

#[test]
fn too_many_at_work_end_a_token_when_it_lasts() {
    let mut all = tokens(3);
    let acts = [(); 3].map(|()| all.after(seen(4, 9, 0), CPUS));
    assert_eq!(acts, [TokenAct::Nothing, TokenAct::Nothing, TokenAct::Take]);
    assert_eq!(all.after(seen(2, 9, 0), CPUS), TokenAct::Nothing, "it starts over");
    assert_eq!(all.after(seen(4, 9, 0), CPUS), TokenAct::Nothing);
}

#[test]
fn what_nobody_wants_is_taken_back() {
    let mut all = tokens(3);
    assert_eq!(all.after(seen(2, 9, 1), CPUS), TokenAct::Take);
    assert_eq!(all.after(seen(0, 9, 2), CPUS), TokenAct::Take);
}

#[test]
fn what_nobody_put_out_is_taken_in_at_once() {
    let mut all = tokens(3);
    assert_eq!(all.after(seen(1, 9, 1003), CPUS), TokenAct::TakeSurplus(1000));
    assert_eq!((all.count, all.lost), (3, 0), "those three are as before");
    assert_eq!(all.after(seen(1, 9, 3), CPUS), TokenAct::Take);
}

#[test]
fn tokens_of_the_dead_are_missed() {
    let mut all = tokens(7);
    let _ = all.after(seen(2, 3, 1), CPUS);
    assert_eq!((all.count, all.lost), (4, 3), "three may be held, and one is unread");
}

/// A build as seen from outside: whatever its jobs do, its CPUs are kept busy.
#[test]
fn builds_are_kept_busy() {
    for (computes, waits) in [(5, 0), (1, 9), (3, 3), (1, 1)] {
        for cpus in [1, 2, 8] {
            let (busy, _) = played(computes, waits, cpus);
            assert!(busy >= 0.9 * cpus as f64, "{computes}, {waits} on {cpus} CPUs: {busy}");
        }
    }
}

#[test]
fn builds_that_compute_are_not_crowded() {
    for cpus in [1, 2, 8] {
        let (_, jobs) = played(5, 0, cpus);
        assert!(jobs <= cpus as f64 + 1.0, "{jobs} on {cpus} CPUs");
    }
}

/// How many CPUs were busy, and how many jobs there were, on average of the second half of all
/// looks. A job computes for so many looks and waits for so many, four times; all start that may.
fn played(computes: usize, waits: usize, cpus: usize) -> (f64, f64) {
    const LOOKS: usize = steps(2_000, 300);
    // The first job needs no token.
    let (mut all, mut jobs) = (Tokens::default(), vec![0]);
    let (mut busy, mut seen_jobs) = (0, 0);
    let turn = computes + waits;
    let can_run = |age: &usize| age % turn < computes;
    for look in 0..LOOKS {
        let runnable = jobs.iter().filter(|age| can_run(age)).count();
        if look >= LOOKS / 2 {
            busy += runnable.min(cpus);
            seen_jobs += jobs.len();
        }
        // Who computes gets on as far as there are CPUs.
        let mut free = cpus;
        for age in &mut jobs {
            let is_computing = can_run(age);
            if !is_computing || free > 0 {
                free -= usize::from(is_computing);
                *age += 1;
            }
        }
        jobs.retain(|age| *age < 4 * turn);
        // Another one takes its token before anybody looks.
        jobs.resize(jobs.len().max(all.count + 1), 0);
        let unread = all.count - jobs.len().saturating_sub(1);
        match all.after(seen(runnable, jobs.len(), unread), cpus) {
            TokenAct::Put => all.count += 1,
            TokenAct::Take if unread > 0 => all.count -= 1,
            TokenAct::Take | TokenAct::TakeSurplus(_) | TokenAct::Nothing => {}
        }
    }
    let looks = (LOOKS / 2) as f64;
    (busy as f64 / looks, seen_jobs as f64 / looks)
}
