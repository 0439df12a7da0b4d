//! A deadline is never missed: the thread finds it, or is told of it, or loom reports that it
//! sleeps for ever.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{check, check_three};
use crate::engine::tools::plan::{NEVER, Plan};
use crate::os::clock;
use crate::os::sync::{AtomicBool, AtomicU64, Ordering};

struct Shared {
    plan: Plan,
    first: AtomicU64,
    second: AtomicU64,
    locked: Mutex<u64>,
    hurried: AtomicBool,
}

const SOON: u64 = 5;
const SOONER: u64 = 4;

fn shared() -> Arc<Shared> {
    clock::restart();
    Arc::new(Shared {
        plan: Plan::new(),
        first: AtomicU64::new(NEVER),
        second: AtomicU64::new(NEVER),
        locked: Mutex::new(NEVER),
        hurried: AtomicBool::new(false),
    })
}

/// The thread, until it has found what it waits for.
fn until(s: &Shared, mut found: impl FnMut() -> Option<u64>) {
    let mut at = None;
    while at.is_none() {
        s.plan.sleep(|| {
            at = found();
            at.unwrap_or(NEVER)
        });
    }
}

/// What an atomic deadline says, if anything.
fn look(deadline: &AtomicU64) -> Option<u64> {
    let at = deadline.load(Ordering::Relaxed);
    (at != NEVER).then_some(at)
}

#[test]
fn a_deadline_in_an_atomic_is_not_missed() {
    check(|| {
        let s = shared();
        let poster = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.plan.lower(&s.first, SOON))
        };
        until(&s, || look(&s.first));
        poster.join().unwrap();
    });
}

#[test]
fn a_deadline_behind_a_lock_is_not_missed() {
    check(|| {
        let s = shared();
        let poster = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                *s.locked.lock().unwrap() = SOON;
                s.plan.need_by(SOON);
            })
        };
        until(&s, || Some(*s.locked.lock().unwrap()).filter(|at| *at != NEVER));
        poster.join().unwrap();
    });
}

/// Two deadlines by two threads.
#[test]
fn neither_of_two_deadlines_is_missed() {
    check_three(|| {
        let s = shared();
        let posters = [SOON, SOONER].map(|at| {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let deadline = if at == SOON { &s.first } else { &s.second };
                s.plan.lower(deadline, at);
            })
        });
        until(&s, || look(&s.first).and(look(&s.second)));
        for poster in posters {
            poster.join().unwrap();
        }
    });
}

/// One that is lowered again, after the thread has planned for it.
#[test]
fn a_deadline_that_comes_closer_is_not_missed() {
    const FAR: u64 = NEVER - 1;
    check(|| {
        let s = shared();
        s.plan.lower(&s.first, FAR);
        let poster = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.plan.lower(&s.first, SOON))
        };
        // Far away is never, so that being told late is not being told.
        until(&s, || look(&s.first).filter(|at| *at == SOON));
        poster.join().unwrap();
    });
}

/// A request without a time, as `wake_now` and `stop` make them.
#[test]
fn a_request_is_not_missed() {
    check(|| {
        let s = shared();
        let asker = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                if !s.hurried.swap(true, Ordering::Relaxed) {
                    s.plan.need_by_unlocked(SOON);
                }
            })
        };
        until(&s, || s.hurried.swap(false, Ordering::Relaxed).then_some(SOON));
        asker.join().unwrap();
    });
}

/// The token of the wake-up brings what was written before, whether the thread slept or not.
#[test]
fn a_stop_is_seen() {
    check(|| {
        let s = shared();
        let stopper = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.hurried.store(true, Ordering::Relaxed);
                s.plan.wake();
            })
        };
        while !s.hurried.load(Ordering::Relaxed) {
            s.plan.sleep(|| NEVER);
        }
        stopper.join().unwrap();
    });
}
