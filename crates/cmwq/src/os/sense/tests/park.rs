use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::{PATIENCE, eventually};
use crate::os::park::Parker;
use crate::os::sense::futex::{WaitResult, wait, wake};
use crate::os::sense::sched;

#[test]
fn waiting_for_a_word_that_differs_does_not_begin() {
    assert_eq!(wait(&AtomicU32::new(1), 0, None), WaitResult::Changed);
}

#[test]
fn waiting_ends_with_the_time_and_not_before() {
    let (start, timeout) = (Instant::now(), Duration::from_millis(2));
    assert_eq!(wait(&AtomicU32::new(0), 0, Some(timeout)), WaitResult::TimedOut);
    assert!(start.elapsed() >= timeout);
}

#[test]
fn nobody_is_woken_where_nobody_waits() {
    assert_eq!(wake(&AtomicU32::new(0), u32::MAX), 0);
}

#[test]
fn as_many_are_woken_as_was_asked() {
    let word = AtomicU32::new(0);
    let nr_woken = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // The word never changes, so only a wake-up ends this.
                while wait(&word, 0, Some(PATIENCE)) != WaitResult::Woken {}
                nr_woken.fetch_add(1, Ordering::Release);
            });
        }
        let woken = |n| nr_woken.load(Ordering::Acquire) == n;
        eventually("one waits", || wake(&word, 1) == 1);
        eventually("one woke", || woken(1));
        let mut sum = 0;
        eventually("two wait", || {
            sum += wake(&word, u32::MAX);
            sum == 2
        });
        eventually("all woke", || woken(3));
    });
}

#[test]
fn a_signal_ends_a_sleep_with_a_time_limit() {
    extern "C" fn ignore(_: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR1, ignore as *const () as usize) };
    let (parker, began) = (Parker::new(), Instant::now());
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let parker = &parker;
        let sleeper = scope.spawn(move || {
            tell.send(sched::gettid()).unwrap();
            parker.park(Some(PATIENCE))
        });
        let tid = told.recv().unwrap();
        while !sleeper.is_finished() {
            // SAFETY: takes numbers. It fails where the thread has just ended.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(sleeper.join().unwrap(), 0);
    });
    assert!(began.elapsed() < PATIENCE, "it slept for the whole time once more");
}
