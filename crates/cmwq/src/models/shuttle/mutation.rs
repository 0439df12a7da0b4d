//! The models notice what breaks the driver: a wake-up that does not come, a call that is not made.

use std::env;
use std::process::{Command, Stdio};

const ALL: &str = "models::shuttle::";

/// Set in the process this test starts.
const BREAK: &str = "CMWQ_WEAKEN";

/// Whether all models of that name pass if `what` is broken.
fn pass(what: &str, models: &str) -> bool {
    pass_in(10, what, models)
}

/// As [`pass`], in so many executions under each scheduler.
fn pass_in(iters: u32, what: &str, models: &str) -> bool {
    let this = env::current_exe().expect("a test binary knows where it is");
    let status = Command::new(this)
        .args([models, "--skip", "mutation"])
        .env(BREAK, what)
        .env("CMWQ_SHUTTLE_ITERS", iters.to_string())
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("a test binary can be run again");
    status.success()
}

/// Every seventh wake-up of a sleeper is lost.
#[test]
fn a_lost_wake_up_is_noticed() {
    assert!(!pass("futex.wake", ALL));
    // The test would be fooled if they failed anyway.
    assert!(pass("nothing", ALL));
}

/// A pod that is taken is not called when its CPU is idle, or stays taken.
#[test]
fn a_pod_that_is_taken_for_ever_is_noticed() {
    let model = "models::shuttle::lending::a_pod_that_is_taken_helps_when_its_cpu_is_idle";
    assert!(!pass("caller_computes.call", model));
    assert!(!pass("caller_computes.end", model));
    assert!(pass("nothing", model));
}

/// A worker begins although its creator has not registered it yet, since somebody has woken it by
/// mistake.
#[test]
fn a_worker_that_begins_too_early_is_noticed() {
    assert!(!pass("worker.is_created", "models::shuttle::creating"));
    assert!(pass("nothing", "models::shuttle::creating"));
}

/// What follows from an outcome of the core and is not done, and models that notice.
const STEPS: &[(&str, &str)] = &[
    // The first worker of a pool, or one that it was refused, is not created.
    ("act.first", "tearing_down::a_pool_that_is_opened_again_has_a_standby"),
    // A slot is not handed over.
    ("act.grant", "limiting::a_limit_holds_across_pods"),
    // A flush is not told that a pool has nothing left of it.
    ("act.flushed", "flushing"),
    // A queue is not told that a replaced pwq has drained.
    ("act.retired", "placing"),
    // No attempt to create a worker follows one that has failed.
    ("creation.retry", "creating::items_wait_for_a_thread_that_cannot_be_had"),
    ("service.retry_again", "creating"),
    // Nobody looks whether a rescuer has to be called.
    ("pool.mayday", "rescuing"),
    ("creation.left", "rescuing::a_rescuer_comes_while"),
    // A pod with a backlog calls no other one.
    ("pods.call", "lending::a_pod_in_the_making_helps"),
    // The sentinel's alarm makes nobody look.
    ("worker.check", "lending"),
];

#[test]
fn each_step_that_is_left_out_is_noticed() {
    let is_noticed = |(step, model): &&(&str, &str)| !pass_in(100, step, &format!("{ALL}{model}"));
    let unnoticed: Vec<_> = STEPS.iter().filter(|row| !is_noticed(row)).collect();
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}

/// An item whose timer has expired is queued where its queue was, which has been destroyed since it
/// was let in. That takes a few unlucky preemptions.
#[test]
fn an_item_that_comes_too_late_is_noticed() {
    let models = "models::shuttle::delaying::a_timer_expires_while_its";
    assert!(!pass_in(1_000, "wq.still_lets_in", models));
    assert!(pass("nothing", models));
}
