//! Items that wait for items of their own queue: the pool grows instead of deadlocking.

use std::fs::File;
use std::sync::Arc;

use cmwq::Workqueue;

use crate::support::scene::{Scene, Stage};
use crate::support::{Gate, joined, managed, sys, within};

pub(crate) const SCENES: &[Scene] = &[
    ("nesting::deep", || {
        let wq = roomy("deep");
        assert_eq!(joined(wq.clone().queue(move || depth(&wq, 1_000))), 1_000);
    }),
    ("nesting::wide", wide),
    ("nesting::few_files", few_files),
];

/// With room for more than a thousand items on each NUMA node: its limit is split over them.
fn roomy(name: &str) -> Workqueue {
    let wq = Workqueue::builder(name).max_active(1_200).build().unwrap();
    wq.set_min_active(1_200).unwrap();
    wq
}

/// Waits for an item that waits for an item, and so on.
fn depth(wq: &Workqueue, left: u32) -> u32 {
    if left == 0 {
        return 0;
    }
    let next = wq.clone();
    wq.queue(move || depth(&next, left - 1)).join().unwrap() + 1
}

#[test]
fn a_thousand_deep() {
    Stage::new("nesting::deep").play();
    Stage::new("nesting::deep").detect("inline").play();
}

#[test]
fn a_thousand_wide() {
    Stage::new("nesting::wide").play();
    Stage::new("nesting::wide").detect("sentinel").play();
}

/// All wait in a way that nobody announces, for the last one.
fn wide() {
    let wq = roomy("wide");
    let gate = Gate::new();
    let waiters: Vec<_> = (0..1_000)
        .map(|i| {
            let gate = gate.clone();
            wq.queue(move || {
                gate.pass();
                i
            })
        })
        .collect();
    let opener = wq.queue(move || gate.open());
    joined(opener);
    for (i, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(joined(waiter), i);
    }
}

#[test]
fn items_wait_for_items_queued_after_them() {
    for _ in 0..20 {
        let wq = managed("chain of waits");
        let gates: Arc<Vec<Gate>> = Arc::new((0..50).map(|_| Gate::new()).collect());
        let handles: Vec<_> = (0..50)
            .map(|n| {
                let gates = Arc::clone(&gates);
                wq.queue(move || {
                    if let Some(next) = gates.get(n + 1) {
                        next.pass();
                    }
                    gates[n].open();
                })
            })
            .collect();
        handles.into_iter().for_each(joined);
    }
}

#[test]
fn the_pool_leaves_descriptors_to_the_program() {
    for source in ["perf", "sentinel", "tick"] {
        Stage::new("nesting::few_files").detect(source).play();
    }
}

/// Workers need descriptors to be looked at, but they are not the only ones in the process.
fn few_files() {
    sys::set_limit(sys::Limit::Files, 256).unwrap();
    let wq = managed("few files");
    let gate = Gate::new();
    let waiters: Vec<_> = (0..400)
        .map(|_| {
            let gate = gate.clone();
            wq.queue(move || gate.pass())
        })
        .collect();
    let opened = wq.queue({
        let gate = gate.clone();
        move || {
            let files: Vec<_> = (0..50).map(|_| File::open("/dev/null")).collect();
            gate.open();
            files.into_iter().filter_map(Result::err).map(|error| error.to_string()).next()
        }
    });
    let refused = joined(opened);
    within("four hundred waiters", move || waiters.into_iter().for_each(joined));
    assert_eq!(refused, None, "the workers took all descriptors");
}
