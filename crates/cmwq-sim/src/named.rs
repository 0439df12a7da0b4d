//! The documented scenarios of concurrency management, by name.
//!
//! One CPU; w0 burns 5 ms, sleeps 10 ms, burns 5 ms; w1 and w2 burn 5 ms and sleep 10 ms; all
//! queued at 0 on a per-CPU queue. What differs is `max_active`, and in `doc-intensive` that w1 and
//! w2 are CPU-intensive.

use crate::scenario::{Flag, Flags, QueueSpec, Scenario, WorkSpec};
use crate::script::Step;

/// The names, each with one line about it.
pub const NAMES: [(&str, &str); 4] = [
    ("doc-max3", "max_active 3: w1 and w2 run while w0 sleeps; done after 25 ms"),
    ("doc-max2", "max_active 2: w2 starts when w0 is done; done after 35 ms"),
    ("doc-max1", "max_active 1: one after the other; done after 50 ms"),
    ("doc-intensive", "w1 and w2 are CPU-intensive: both become runnable when w0 sleeps"),
];

/// The scenario of this name.
#[must_use]
pub fn find(name: &str) -> Option<Scenario> {
    match name {
        "doc-max3" => Some(doc(3, false)),
        "doc-max2" => Some(doc(2, false)),
        "doc-max1" => Some(doc(1, false)),
        "doc-intensive" => Some(doc(3, true)),
        _ => None,
    }
}

fn doc(max_active: u32, intensive: bool) -> Scenario {
    let percpu = Flags::NONE.with(Flag::Percpu);
    let queue = |name: &str, flags| QueueSpec { name: name.into(), flags, max_active, scope: None };
    let mut workqueues = vec![queue("q0", percpu)];
    if intensive {
        workqueues.push(queue("q1", percpu.with(Flag::CpuIntensive)));
    }
    let (burn, sleep) = (Step::Burn(5_000_000), Step::Sleep(10_000_000));
    let work = |name: &str, workqueue, script| WorkSpec {
        name: name.into(),
        workqueue,
        cpu: Some(0),
        script,
        ..WorkSpec::default()
    };
    let other = usize::from(intensive);
    let works = vec![
        work("w0", 0, vec![burn, sleep, burn]),
        work("w1", other, vec![burn, sleep]),
        work("w2", other, vec![burn, sleep]),
    ];
    Scenario { cpus: 1, workqueues, works }
}
