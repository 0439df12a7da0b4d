use std::fs;
use std::thread;

use super::skip;
use crate::os::sense::sched::{
    current_cpu, enter_idle_class, gettid, pin_current, set_nice_current, set_timer_slack_ns,
};
use crate::os::topo::{CpuSet, allowed_cpus};

/// Runs a test in a thread of its own, because what it changes may have no way back.
fn in_own_thread(test: impl FnOnce() + Send + 'static) {
    thread::spawn(test).join().expect("the test's own thread");
}

fn niceness() -> i32 {
    // SAFETY: takes numbers only.
    unsafe { libc::getpriority(libc::PRIO_PROCESS as _, gettid() as libc::id_t) }
}

#[test]
fn threads_have_numbers_of_their_own() {
    let here = gettid();
    assert!(here > 0);
    in_own_thread(move || {
        assert_ne!(gettid(), here);
        assert!(fs::exists(format!("/proc/self/task/{}", gettid())).expect("procfs"));
    });
}

/// The scheduling policy of the calling thread.
fn policy() -> i64 {
    // SAFETY: takes a number only.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
}

#[test]
fn the_idle_class_is_entered_by_the_caller_alone() {
    let here = policy();
    in_own_thread(|| {
        if let Err(error) = enter_idle_class() {
            return skip(format_args!("SCHED_IDLE: {error}"));
        }
        assert_eq!(policy(), libc::SCHED_IDLE.into());
    });
    assert_eq!(policy(), here);
}

#[test]
fn a_pinned_thread_is_where_it_should_be() {
    let allowed = allowed_cpus();
    for cpu in &allowed {
        in_own_thread(move || {
            pin_current(&CpuSet::single(cpu)).expect("the CPU is allowed");
            assert_eq!(allowed_cpus(), CpuSet::single(cpu));
            assert_eq!(current_cpu(), Some(cpu));
        });
    }
    assert_eq!(allowed_cpus(), allowed, "this thread is as before");
    in_own_thread(|| assert!(pin_current(&CpuSet::new()).is_err(), "nowhere is no place to run"));
}

#[test]
fn niceness_is_per_thread() {
    let here = niceness();
    in_own_thread(move || {
        let nicer = (here + 3).min(19);
        set_nice_current(nicer).expect("being nicer is always allowed");
        assert_eq!(niceness(), nicer);
    });
    assert_eq!(niceness(), here);
}

#[test]
fn timer_slack_arrives() {
    in_own_thread(|| {
        set_timer_slack_ns(1);
        // SAFETY: takes a number only.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }, 1);
    });
}
