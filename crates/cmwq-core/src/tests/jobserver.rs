//! How many jobs of a build may run.

use std::vec;

use super::support::steps;
use crate::Nanos;
use crate::jobserver::{Build, TOKENS_PER_CPU, TokenAct, Tokens};

const CPUS: usize = 2;
const LOOK_NS: Nanos = 2_000_000;

fn seen(runnable: usize, threads: usize, unread: usize) -> Build {
    Build { runnable, threads, unread, ..Build::default() }
}

fn tokens(count: usize) -> Tokens {
    let mut all = Tokens::default();
    all.count = count;
    all
}

/// The act after one look.
fn after(all: &mut Tokens, seen: Build) -> TokenAct {
    all.after(seen, CPUS, LOOK_NS)
}

/// How many looks that all find this bring no act, and the first act.
fn looks_before(all: &mut Tokens, seen: Build) -> (usize, TokenAct) {
    let mut acts = (0..1_000).map(|nr| (nr, after(all, seen)));
    acts.find(|(_, act)| *act != TokenAct::Nothing).expect("nothing was done, ever")
}

#[test]
fn each_cpu_has_a_token_at_once() {
    let mut all = Tokens::for_cpus(8);
    assert_eq!(all.count, 7, "the first job needs none");
    assert_eq!(all.after(seen(1, 3, 7), 8, LOOK_NS), TokenAct::Nothing, "nobody wants them yet");
    all.count = 2;
    assert_eq!(all.after(seen(8, 9, 0), 8, LOOK_NS), TokenAct::Nothing, "all CPUs are busy");
    assert_eq!(all.after(seen(3, 9, 0), 8, LOOK_NS), TokenAct::Put(5));
    assert_eq!(all.after(seen(7, 9, 0), 8, LOOK_NS), TokenAct::Put(1), "one CPU is idle");
}

#[test]
fn cpus_that_stay_idle_bring_another_token() {
    let mut all = tokens(1);
    // Idle for 2 ms, less an eighth of the 4 that two CPUs had: 1.5 ms, and 10 are to come
    // together.
    assert_eq!(looks_before(&mut all, seen(1, 3, 0)), (6, TokenAct::Put(1)));
    assert_eq!(looks_before(&mut all, seen(0, 3, 0)), (2, TokenAct::Put(1)), "both of them");
    let mut many = tokens(63);
    let acts = [(); 3].map(|()| many.after(seen(0, 99, 0), 64, LOOK_NS));
    assert_eq!(acts, [TokenAct::Nothing, TokenAct::Nothing, TokenAct::Put(8)]);
    for _ in 0..99 {
        assert_eq!(after(&mut all, seen(0, 3, 1)), TokenAct::Nothing, "there is one left over");
    }
    all.count = TOKENS_PER_CPU * CPUS;
    for _ in 0..99 {
        assert_eq!(after(&mut all, seen(0, 99, 0)), TokenAct::Nothing, "there is an end");
    }
}

#[test]
fn a_cpu_that_is_idle_now_and_then_brings_none() {
    let mut all = tokens(1);
    for _ in 0..99 {
        assert_eq!(after(&mut all, seen(1, 3, 0)), TokenAct::Nothing);
        for _ in 0..3 {
            assert_eq!(after(&mut all, seen(2, 3, 0)), TokenAct::Nothing);
        }
    }
}

#[test]
fn too_many_at_work_end_a_token_when_it_lasts() {
    let mut all = tokens(3);
    // Two wait for 2 ms each, less a quarter of 4 ms.
    assert_eq!(looks_before(&mut all, seen(4, 9, 0)), (3, TokenAct::Take));
    assert_eq!(after(&mut all, seen(4, 9, 0)), TokenAct::Take, "until one is in");
    all.taken();
    assert_eq!(all.count, 2);
    assert_eq!(looks_before(&mut all, seen(4, 9, 0)), (3, TokenAct::Take), "it starts over");
    assert_eq!(after(&mut all, seen(2, 9, 0)), TokenAct::Nothing, "it has ended");
}

#[test]
fn what_nobody_wants_is_taken_back() {
    let mut all = tokens(3);
    assert_eq!(after(&mut all, seen(2, 9, 1)), TokenAct::Take);
    assert_eq!(after(&mut all, seen(0, 9, 2)), TokenAct::Take);
    assert_eq!(after(&mut all, seen(0, 9, 1)), TokenAct::Nothing, "it is for the next job");
    all.count = 1;
    assert_eq!(after(&mut all, seen(2, 9, 1)), TokenAct::Nothing, "it is a CPU's");
}

#[test]
fn what_nobody_put_out_is_taken_in_at_once() {
    let mut all = tokens(3);
    assert_eq!(after(&mut all, seen(1, 9, 1003)), TokenAct::TakeSurplus(1000));
    assert_eq!((all.count, all.lost), (3, 0), "those three are as before");
    assert_eq!(after(&mut all, seen(1, 9, 3)), TokenAct::Take);
}

#[test]
fn tokens_of_the_dead_are_missed() {
    let mut all = tokens(7);
    let _ = after(&mut all, seen(2, 3, 1));
    assert_eq!((all.count, all.lost), (4, 3), "three may be held, and one is unread");
}

/// So long ago that what was lost then is forgotten.
const LONG_NS: Nanos = 3_600_000_000_000;

/// Does as it is told, look for look: how many tokens there came to be.
fn put(all: &mut Tokens, looks: usize, seen: Build) -> usize {
    let mut nr_put = 0;
    for _ in 0..looks {
        if let TokenAct::Put(nr) = after(all, seen) {
            all.count += nr;
            nr_put += nr;
        }
    }
    nr_put
}

/// As by jobs that are no descendants any more: what they hold looks lost.
#[test]
fn tokens_held_out_of_sight_have_an_end() {
    const LOOKS: usize = steps(900, 300);
    let most = TOKENS_PER_CPU * CPUS;
    let mut all = Tokens::for_cpus(CPUS);
    let nr_put = all.count + put(&mut all, LOOKS, seen(0, 0, 0));
    assert_eq!(nr_put, most);
    assert_eq!(after(&mut all, seen(0, 0, 10)), TokenAct::TakeSurplus(10), "they come back");
    assert_eq!(all.lost, most - 10, "so they were not lost");
    assert_eq!(put(&mut all, LOOKS, seen(0, 0, 0)), 10);
    assert_eq!(all.after(seen(0, 0, 0), CPUS, LONG_NS), TokenAct::Put(1), "they died with jobs");
    assert_eq!(all.lost, most);
}

#[test]
fn who_cannot_see_the_build_leaves_one_token_for_each_cpu() {
    let hidden = |unread| Build { is_hidden: true, ..seen(0, 1, unread) };
    let mut all = Tokens::for_cpus(8);
    for unread in [7, 3, 0] {
        for _ in 0..999 {
            assert_eq!(all.after(hidden(unread), 8, LOOK_NS), TokenAct::Nothing);
        }
    }
    assert_eq!((all.count, all.lost), (7, 0), "anybody may hold them");
    all.count = 9;
    assert_eq!(all.after(hidden(0), 8, LOOK_NS), TokenAct::Take);
    all.count = 5;
    assert_eq!(all.after(hidden(0), 8, LOOK_NS), TokenAct::Put(2));
    assert_eq!(all.after(hidden(1), 8, LOOK_NS), TokenAct::Nothing, "nobody wants it");
}

#[test]
fn while_memory_is_short_tokens_come_in() {
    let short = |unread| Build { is_memory_short: true, ..seen(0, 9, unread) };
    let mut all = tokens(2);
    for unread in [1, 0] {
        assert_eq!(after(&mut all, short(unread)), TokenAct::Take, "also one that a job holds");
        all.taken();
    }
    for _ in 0..99 {
        assert_eq!(after(&mut all, short(0)), TokenAct::Nothing, "the first job needs none");
    }
    assert_eq!(after(&mut all, seen(1, 9, 0)), TokenAct::Put(1), "there is enough again");
}

/// A job: for so many looks it only begins, then it computes and waits for so many, four times.
#[derive(Clone, Copy, Debug)]
struct Job {
    begins: usize,
    computes: usize,
    waits: usize,
}

impl Job {
    fn can_run(self, age: usize) -> bool {
        let turn = self.computes + self.waits;
        age >= self.begins && (age - self.begins) % turn < self.computes
    }

    fn looks(self) -> usize {
        self.begins + 4 * (self.computes + self.waits)
    }
}

/// A build as seen from outside: whatever its jobs do, its CPUs are kept busy.
#[test]
fn builds_are_kept_busy() {
    for (begins, computes, waits) in [(0, 5, 0), (0, 1, 9), (0, 3, 3), (0, 1, 1), (4, 1, 0)] {
        let job = Job { begins, computes, waits };
        for cpus in [1, 2, 8] {
            let (busy, _) = played(job, cpus);
            assert!(busy >= 0.85 * cpus as f64, "{job:?} on {cpus} CPUs: {busy}");
        }
    }
}

/// Also where each CPU is idle for a moment between two jobs.
#[test]
fn builds_that_compute_are_not_crowded() {
    for begins in [0, 1] {
        let job = Job { begins, computes: 5, waits: 0 };
        for cpus in [1, 2, 8] {
            let (_, jobs) = played(job, cpus);
            assert!(jobs <= 1.2 * cpus as f64, "{job:?}: {jobs} on {cpus} CPUs");
        }
    }
}

/// How many CPUs were busy, and how many jobs there were, on average of the second half of all
/// looks. All jobs start that may.
fn played(job: Job, cpus: usize) -> (f64, f64) {
    const LOOKS: usize = steps(4_000, 600);
    let (mut all, mut jobs) = (Tokens::for_cpus(cpus), vec![0]);
    let (mut busy, mut seen_jobs) = (0, 0);
    let (mut is_taking, mut is_first) = (false, false);
    for look in 0..LOOKS {
        let runnable = jobs.iter().filter(|age| job.can_run(**age)).count();
        if look >= LOOKS / 2 {
            busy += runnable.min(cpus);
            seen_jobs += jobs.len();
        }
        // Who computes gets on as far as there are CPUs, which take turns.
        let mut free = cpus;
        let shift = look % jobs.len().max(1);
        jobs.rotate_left(shift);
        for age in &mut jobs {
            let is_computing = job.can_run(*age);
            if !is_computing || free > 0 {
                free -= usize::from(is_computing);
                *age += 1;
            }
        }
        let before = jobs.len();
        jobs.retain(|age| *age < job.looks());
        // Of two that want the token of one that has ended, each is first every other time.
        if is_taking && jobs.len() < before {
            is_first = !is_first;
            if is_first {
                all.taken();
            }
        }
        // Another job takes its token before anybody looks.
        jobs.resize(jobs.len().max(all.count + 1), 0);
        let unread = (all.count + 1) - jobs.len();
        let act = all.after(seen(runnable, jobs.len(), unread), cpus, LOOK_NS);
        if let TokenAct::Put(nr) = act {
            all.count += nr;
        }
        is_taking = act == TokenAct::Take;
    }
    let looks = (LOOKS / 2) as f64;
    (busy as f64 / looks, seen_jobs as f64 / looks)
}
