//! What a new worker opens, and what it does first.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use cmwq::trace::{Kind, Record, unpack};
use cmwq::{Detect, Workqueue};

use crate::support::scene::{Scene, Stage, skip};
use crate::support::wait::Opened;
use crate::support::{Gate, Peak, at_gate, eventually, joined, percpu, unbound, undisturbed};
use crate::trace;

pub(crate) const SCENES: &[Scene] = &[
    ("births::not_looked_at", not_looked_at),
    ("births::by_records", by_records),
    ("births::looks", looks),
];

const WORKERS: usize = 20;

/// So many descriptors lead to what workers are looked at with: switch records, and states.
fn open_senses() -> (usize, usize) {
    let entries = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let leads_to = entries.filter_map(|path| fs::read_link(path).ok());
    let names: Vec<_> = leads_to.map(|link| link.to_string_lossy().into_owned()).collect();
    let count = |is_it: &dyn Fn(&String) -> bool| names.iter().filter(|name| is_it(name)).count();
    let is_state = |name: &String| name.contains("/task/") && name.ends_with("/stat");
    (count(&|name| name.contains("[perf_event]")), count(&is_state))
}

/// How many descriptors there are for workers, of which so many are in items now.
fn senses_of(wq: &Workqueue) -> (usize, usize) {
    let (gate, peak) = (Gate::new(), Arc::new(Peak::default()));
    let opened = Opened(&gate);
    let items = at_gate(wq, WORKERS, &gate, &peak);
    eventually("every item has a worker", || peak.now() == WORKERS);
    let senses = open_senses();
    drop(opened);
    items.into_iter().for_each(joined);
    senses
}

#[test]
fn workers_that_nobody_looks_at_open_nothing() {
    for source in ["perf", "sentinel", "tick", "inline"] {
        Stage::new("births::not_looked_at").detect(source).play();
    }
}

fn not_looked_at() {
    assert_eq!(senses_of(&unbound("all at once")), (0, 0));
}

#[test]
fn states_are_opened_where_there_are_no_records() {
    for source in ["perf", "sentinel"] {
        Stage::new("births::by_records").detect(source).play();
    }
}

fn by_records() {
    let (records, states) = senses_of(&percpu("one by one"));
    let is_perf = cmwq_observe::diagnose().unwrap().detect == Detect::Perf;
    match records {
        0 if is_perf => skip("there are no switch records here"),
        0 => assert!(states >= WORKERS, "{states}"),
        _ => assert!(records >= WORKERS && states < records / 2, "{records}, {states}"),
    }
}

#[test]
fn a_new_worker_finds_that_its_creator_is_blocked() {
    // Without it only the tick would find that.
    Stage::new("births::looks").detect("tick").play();
}

fn looks() {
    let wq = percpu("one by one");
    joined(wq.queue(|| ()));
    let mut session = trace::begin(Kind::WorkerBlocked.bit());
    let mut workers = 0;
    // Where others have the CPU the tick may come before a new worker does, each time.
    undisturbed(5, || {
        // More than there are, so that some are born.
        workers += WORKERS;
        let (gate, peak) = (Gate::new(), Arc::new(Peak::default()));
        let opened = Opened(&gate);
        let items = at_gate(&wq, workers, &gate, &peak);
        eventually("every item has a worker", || peak.now() == workers);
        drop(opened);
        items.into_iter().for_each(joined);
        let (mut finders, mut names) = (Vec::new(), HashMap::new());
        let mut read = |ring, record| match record {
            Record::Event(_) => finders.push(ring),
            Record::Thread { name, .. } => drop(names.insert(ring, name)),
            _ => {}
        };
        let _ = session.round(|ring, words| unpack(words).for_each(|record| read(ring, record)));
        let by_tick = |ring: &&u32| names.get(*ring).is_some_and(|name| name == "cmwq/service");
        match finders.iter().filter(by_tick).count() {
            nr if nr < finders.len() => Ok(()),
            nr => Err(format!("{nr}, by {names:?}")),
        }
    });
}
