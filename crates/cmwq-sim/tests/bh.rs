//! A BH context serves its CPU's pools as in the runtime: in visits, that of high priority first.
//! Every expected time is worked out by hand.

use cmwq_sim::scenario::{Flag, Flags, QueueSpec, WorkSpec};
use cmwq_sim::script::Step;
use cmwq_sim::{Config, Moment, Nanos, Scenario, run_scenario_under};

const MS: Nanos = 1_000_000;

/// When works start on one CPU: `(on the queue of high priority, at ms, burn ms)` each.
fn starts(works: &[(bool, u64, u64)]) -> Vec<(usize, Nanos)> {
    let queue = |name: &str, flags: &[Flag]| QueueSpec {
        name: name.into(),
        flags: flags.iter().copied().collect::<Flags>(),
        ..QueueSpec::default()
    };
    let work = |(n, &(is_high, at, burn)): (usize, &(bool, u64, u64))| WorkSpec {
        name: format!("w{n}"),
        workqueue: usize::from(is_high),
        cpu: Some(0),
        at_ns: at * MS,
        script: vec![Step::Burn(burn * MS)],
        ..WorkSpec::default()
    };
    let works = works.iter().enumerate().map(work).collect();
    let workqueues = vec![queue("bh", &[Flag::Bh]), queue("bh-high", &[Flag::Bh, Flag::Highpri])];
    let scenario = Scenario { cpus: 1, workqueues, works };
    let timeline = run_scenario_under(&scenario, &Config::exact(1)).expect("no checker complains");
    let starts = timeline.events.iter().filter(|event| event.what == Moment::Start);
    starts.map(|event| (event.work, event.t / MS)).collect()
}

#[test]
fn a_visit_ends_after_two_milliseconds_and_high_priority_goes_first() {
    // The item of high priority comes during the first one, which takes longer than a visit.
    let works = [(false, 0, 5), (false, 0, 1), (true, 1, 3)];
    assert_eq!(starts(&works), [(0, 0), (2, 5), (1, 8)]);
}

#[test]
fn a_visit_that_is_not_over_goes_on_with_its_pool() {
    let works = [(false, 0, 1), (false, 0, 1), (false, 0, 1), (true, 0, 3)];
    // The context begins with the first item, since nothing else is there then. Two milliseconds.
    assert_eq!(starts(&works), [(0, 0), (1, 1), (3, 2), (2, 5)]);
}
