//! The models notice what breaks the driver: a wake-up that does not come, a call that is not made.

use std::env;
use std::process::{Command, Stdio};

const ALL: &str = "models::shuttle::";

/// Set in the process this test starts.
const BREAK: &str = "CMWQ_WEAKEN";

/// Whether all models of that name pass if `what` is broken.
fn pass(what: &str, models: &str) -> bool {
    let this = env::current_exe().expect("a test binary knows where it is");
    let status = Command::new(this)
        .args([models, "--skip", "mutation"])
        .env(BREAK, what)
        .env("CMWQ_SHUTTLE_ITERS", "10")
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
