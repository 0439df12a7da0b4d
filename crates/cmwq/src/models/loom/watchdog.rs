//! The watchdog's protocols: work that waits is looked at, and a stack is read when it is whole.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{check, check_three};
use crate::engine::tools::watchdog::ModelledAlarm as Alarm;
use crate::models::StackRequest as Request;
use crate::os::clock;
use crate::os::sync::{AtomicUsize, Ordering};

const SOON: u64 = 5;

/// What waits in two pools, each behind its lock, and the alarm.
struct Shared {
    alarm: Alarm,
    pools: [Mutex<bool>; 2],
}

impl Shared {
    /// The watchdog is on, and has just begun to look.
    fn new() -> Arc<Self> {
        clock::restart();
        let alarm = Alarm::new(SOON);
        alarm.unset();
        Arc::new(Self { alarm, pools: [Mutex::new(false), Mutex::new(false)] })
    }

    /// Queues something that has to wait.
    fn queue(&self, pool: usize) {
        *self.pools[pool].lock().unwrap() = true;
        if self.alarm.is_unset() {
            self.alarm.set(SOON);
        }
    }

    /// Looks, as the watchdog does when the alarm has rung; how many pools have something that
    /// waits.
    fn look(&self) -> usize {
        self.alarm.unset();
        if self.alarm.thresh_to_look().is_none() {
            return 0;
        }
        let waits = |pool: &&Mutex<bool>| *pool.lock().unwrap();
        let nr = self.pools.iter().filter(waits).count();
        if nr > 0 {
            self.alarm.set(SOON);
        }
        nr
    }
}

/// Work comes to wait while the watchdog looks for the last time: either it is found, or the alarm
/// is set for it.
#[test]
fn work_that_waits_is_found_or_sets_the_alarm() {
    check(|| {
        let s = Shared::new();
        s.alarm.set(SOON);
        let queuer = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.queue(0))
        };
        let nr_found = s.look();
        queuer.join().unwrap();
        assert!(nr_found == 1 || !s.alarm.is_unset(), "it waits, and nobody will look");
        assert!(nr_found == 0 || !s.alarm.is_unset(), "what was found is looked at again");
    });
}

#[test]
fn two_pools_do_not_hide_each_others_work() {
    check_three(|| {
        let s = Shared::new();
        s.alarm.set(SOON);
        let queuers = [0, 1].map(|pool| {
            let s = Arc::clone(&s);
            thread::spawn(move || s.queue(pool))
        });
        s.look();
        for queuer in queuers {
            queuer.join().unwrap();
        }
        assert!(!s.alarm.is_unset(), "work waits, and nobody will look");
    });
}

/// The watchdog is turned off and on again while it begins to look: the threshold and the alarm say
/// the same.
#[test]
fn a_watchdog_that_is_turned_on_looks() {
    check(|| {
        let s = Shared::new();
        s.alarm.set(SOON);
        let switcher = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.alarm.set_thresh(0);
                s.alarm.set_thresh(SOON);
            })
        };
        s.look();
        switcher.join().unwrap();
        assert!(s.alarm.is_unset(), "it is off, though its threshold is not 0");
    });
}

/// Two turn it off and on.
#[test]
fn a_watchdog_is_on_or_off() {
    check(|| {
        let alarm = Arc::new(Alarm::new(0));
        let other = {
            let alarm = Arc::clone(&alarm);
            thread::spawn(move || alarm.set_thresh(0))
        };
        alarm.set_thresh(SOON);
        other.join().unwrap();
        assert_eq!(alarm.is_unset(), alarm.thresh() != 0);
    });
}

/// The thread sleeps without a time until the alarm is set, and is woken then.
#[test]
fn an_alarm_wakes_the_watchdog() {
    check(|| {
        let s = Shared::new();
        let queuer = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.queue(0))
        };
        while s.alarm.is_unset() {
            s.alarm.sleep();
        }
        queuer.join().unwrap();
    });
}

// ---- stacks

fn stack_of(tid: u32) -> std::ops::Range<u64> {
    u64::from(tid) * 100..u64::from(tid) * 100 + 80
}

const WORDS: [u64; 2] = [11, 12];

/// The thread `me`, in its signal handler. Whether it was its business.
fn answer(request: &Request, me: u32) -> bool {
    let Some(stack) = request.claim(me) else { return false };
    assert_eq!(stack, stack_of(me), "it reads another's stack");
    request.answer([7, 0, 9, u64::from(me)], WORDS.into_iter());
    true
}

fn assert_answered(request: &Request, by: u32) {
    let answer = request.read();
    assert_eq!(answer.registers(), [7, 0, 9, u64::from(by)]);
    assert_eq!([0, 8, 16].map(|at| answer.word(at)), [Some(11), Some(12), None]);
}

#[test]
fn an_answer_is_whole_when_it_is_there() {
    check(|| {
        let request = Arc::new(Request::new(2));
        assert!(request.ask(1, stack_of(1)));
        let asked = {
            let request = Arc::clone(&request);
            thread::spawn(move || answer(&request, 1))
        };
        if request.has_answered() {
            assert_answered(&request, 1);
        }
        assert!(asked.join().unwrap());
        assert!(request.has_answered());
        assert_answered(&request, 1);
    });
}

/// The question reaches the thread by a signal, which orders nothing; so does the answer of one who
/// was asked before, and comes late.
#[test]
fn a_question_is_whole_when_it_is_seen() {
    check(|| {
        let request = Arc::new(Request::new(2));
        let asked = {
            let request = Arc::clone(&request);
            thread::spawn(move || answer(&request, 1))
        };
        assert!(request.ask(1, stack_of(1)));
        asked.join().unwrap();
    });
}

/// Out of patience: either the thread has answered or it does not any more.
#[test]
fn who_comes_late_does_not_write() {
    check(|| {
        let request = Arc::new(Request::new(2));
        let nr_written = Arc::new(AtomicUsize::new(0));
        assert!(request.ask(1, stack_of(1)));
        let late = {
            let (request, nr_written) = (Arc::clone(&request), Arc::clone(&nr_written));
            thread::spawn(move || {
                nr_written.fetch_add(usize::from(answer(&request, 1)), Ordering::Relaxed);
            })
        };
        let is_withdrawn = request.withdraw();
        // Another one is asked, unless the first is in the midst of its answer.
        if is_withdrawn {
            assert!(request.ask(2, stack_of(2)));
            assert!(answer(&request, 2));
            assert!(request.has_answered());
            assert_answered(&request, 2);
        }
        late.join().unwrap();
        assert_eq!(nr_written.load(Ordering::Relaxed), usize::from(!is_withdrawn));
    });
}
