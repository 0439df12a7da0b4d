//! The models notice what breaks the driver: a wake-up that does not come.

use std::env;
use std::process::{Command, Stdio};

/// Set in the process this test starts.
const BREAK: &str = "CMWQ_WEAKEN";

/// Whether all models pass if `what` is broken.
fn pass(what: &str) -> bool {
    let this = env::current_exe().expect("a test binary knows where it is");
    let status = Command::new(this)
        .args(["models::shuttle::", "--skip", "mutation"])
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
    assert!(!pass("futex.wake"));
    // The test would be fooled if they failed anyway.
    assert!(pass("nothing"));
}
