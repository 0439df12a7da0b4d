//! Pools that lose their last queue, and have one again before their workers have left.
//!
//! Each round makes a queue whose attributes no other has, so that its pool is opened for it, and
//! drops it, so that the pool is closed and sends its idle workers away. What must hold all the
//! while: before a worker starts an item another one is idle or being created, so an item that
//! waits for another one does not wait for ever.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use cmwq::Workqueue;

use crate::support::scene::{Scene, Stage};

pub(crate) const SCENES: &[Scene] = &[("closing::rounds", rounds)];

/// Where it went wrong, it did in 1 to 277 rounds of one thread. An emulated machine with one CPU
/// takes an hour for all of them.
fn rounds_of_one() -> u64 {
    if std::env::var_os("CMWQ_GUEST").is_some() { 300 } else { 2_000 }
}

const THREADS: u64 = 4;
/// LIMIT: so many looks, a millisecond apart; a round takes less than that; only failing
/// tests look as often. It is no time: a process that was stopped for long, or whose machine was,
/// finds that much time gone when it goes on, and has had no chance to make a round.
const PATIENCE: u32 = 30_000;

#[test]
fn an_item_that_waits_in_a_pool_that_was_just_closed() {
    for source in ["inline", "tick", "sentinel", "perf"] {
        Stage::new("closing::rounds").detect(source).play();
    }
}

fn rounds() {
    let (rounds, done) = (rounds_of_one(), Arc::new(AtomicU64::new(0)));
    for thread in 0..THREADS {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            // Two threads each have the same pools, and the others' are other ones.
            let nice = 5 + (thread % 2) as i32;
            for _ in 0..rounds {
                round(nice);
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let all = THREADS * rounds;
    let (mut last, mut nr_looks) = (0, 0);
    while last < all {
        thread::sleep(Duration::from_millis(1));
        let now = done.load(Ordering::SeqCst);
        nr_looks = if now > last { 0 } else { nr_looks + 1 };
        last = now;
        if nr_looks > PATIENCE {
            give_up(now, all);
        }
    }
}

/// `a` waits for `b`, and the queue goes when both are done.
fn round(nice: i32) {
    let wq = Workqueue::builder("closing").unbound().nice(nice).build().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let a = wq.queue(move || {
        let b: cmwq::JoinHandle<u32> = told.recv().unwrap();
        b.join().unwrap() + 1
    });
    tell.send(wq.queue(|| 1)).unwrap();
    assert_eq!(a.join().unwrap(), 2);
}

/// The threads of the rounds would never come back.
#[expect(clippy::print_stderr, reason = "what a test that hangs has to say")]
fn give_up(done: u64, all: u64) -> ! {
    eprintln!(
        "no round has ended for {PATIENCE} looks: {done} of {all} are done; an item never starts"
    );
    cmwq::show_all_workqueues();
    process::exit(1)
}
