//! The two drivers of the core, side by side: the same random scripts of queueings, blocks and
//! wake-ups are played in the simulator, and then on threads by the library, where after each step
//! everything must come to what it was there: which items wait, run or are blocked, which flushes
//! have returned, which queues have gone, how many timers each has armed, and how many workers each
//! pool has and counts as running. In half of the scripts queues are dropped and made again; in a
//! sixth unbound and ordered queues get other attributes while they are used: nice levels, pods,
//! masks, strict scopes.
//!
//! Nothing is left to time. Whatever an item does it was told to do, one thing after the other; a
//! worker blocks where it says so (`cmwq::blocking`), and nobody else looks at it
//! (`CMWQ_DETECT=inline`), but for reports that the script itself makes: that a worker was found
//! blocked, or back, in the last run of an item. They may be true or false, come twice, or when the
//! run is over and the worker in another one. So an item that computes may sleep for all that the
//! pool knows, and the core gets the same events in the same order from both drivers. The next
//! order is given when all threads sleep.
//!
//! Each script has a process of its own, so that it begins with nothing. `CMWQ_SEED=N` plays one.

#![allow(clippy::print_stderr, reason = "the seed is needed to play it again")]

mod script;
mod simulated;
mod stage;
mod threads;

use std::env;
use std::io::{self, Write as _};
use std::process::Command;

use stage::Stage;

const SCRIPTS: u64 = 120;
/// In a process that is to play one script: its seed.
const CHILD: &str = "CMWQ_DRIVERS_SEED";

#[test]
fn both_drivers_decide_the_same() {
    if let Ok(seed) = env::var(CHILD) {
        return threads::play(seed.parse().expect("a number"));
    }
    let one = env::var("CMWQ_SEED").ok().map(|seed| seed.parse().expect("CMWQ_SEED is a number"));
    for seed in one.map_or(0..SCRIPTS, |seed: u64| seed..seed + 1) {
        let stage = Stage::of(seed);
        let Some(_confined) = stage.confine() else {
            // Past the test harness, which keeps what a test that passes prints.
            let _ = writeln!(
                io::stderr(),
                "not tested: a script of the core needs {} CPUs",
                stage.nr_cpus()
            );
            continue;
        };
        let output = Command::new(env::current_exe().expect("a test has a program"))
            .args(["--exact", "both_drivers_decide_the_same", "--nocapture"])
            .envs([(CHILD, seed.to_string().as_str()), ("CMWQ_DETECT", "inline")])
            .env("CMWQ_PARAMS", stage.params())
            .output()
            .expect("a test can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "CMWQ_SEED={seed} fails, {stage:?}:\n{said}");
    }
}
