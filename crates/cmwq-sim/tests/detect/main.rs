//! Looks at workers decide what they decide in the runtime. Every expected time is worked out by
//! hand.

mod evidence;
mod hogs;
mod tick;

use cmwq_sim::config::{Costs, Detect, Faults, Sabotage, TickRole};
use cmwq_sim::scenario::{Flag, Flags, QueueSpec, WorkSpec};
use cmwq_sim::script::Step;
use cmwq_sim::topology::Scope;
use cmwq_sim::{Config, Moment, Nanos, Scenario, Timeline, Violation, run_scenario_under};

const US: Nanos = 1_000;
const MS: Nanos = 1_000_000;

/// When works of one queue start on one CPU, where somebody looks at intervals, in microseconds.
fn starts(flag: Flag, works: &[&[Step]], config: Config) -> Vec<Nanos> {
    play(flag, works, config).expect("no checker complains")
}

fn play(flag: Flag, works: &[&[Step]], config: Config) -> Result<Vec<Nanos>, Violation> {
    let flags = Flags::NONE.with(flag);
    let queue = QueueSpec { name: "q".into(), flags, ..QueueSpec::default() };
    let work = |(n, script): (usize, &&[Step])| WorkSpec {
        name: format!("w{n}"),
        cpu: Some(0),
        script: script.to_vec(),
        ..WorkSpec::default()
    };
    let works = works.iter().enumerate().map(work).collect();
    let scenario = Scenario { cpus: 1, workqueues: vec![queue], works };
    let detect = Detect { tick: Some(TickRole::Alone), ..Detect::default() };
    let config = Config { detect, ..config };
    let timeline = run_scenario_under(&scenario, &config)?;
    let starts = timeline.events.iter().filter(|event| event.what == Moment::Start);
    Ok(starts.map(|event| event.t / US).collect())
}

/// The same for a per-CPU queue, if no report ever comes.
fn starts_by_looks(works: &[&[Step]]) -> Vec<Nanos> {
    let faults = Faults { lost: 1_000_000, ..Faults::default() };
    starts(Flag::Percpu, works, Config { faults, ..Config::exact(1) })
}

/// When managed works start, each queued for its CPU of two, by looks, in microseconds.
fn starts_on(works: &[(u32, &[Step])]) -> Vec<Nanos> {
    times_on(Moment::Start, works)
}

/// When something happens to managed works, each queued for its CPU of two, by looks, in
/// microseconds.
fn times_on(what: Moment, works: &[(u32, &[Step])]) -> Vec<Nanos> {
    let timeline = play_on(works, None).expect("no checker complains");
    let events = timeline.events.iter().filter(|event| event.what == what);
    events.map(|event| event.t / US).collect()
}

fn play_on(works: &[(u32, &[Step])], sabotage: Option<Sabotage>) -> Result<Timeline, Violation> {
    let costs = Costs { slice: Some(MS), ..Costs::default() };
    let (flags, scope) = (Flags::NONE.with(Flag::Managed), Some(Scope::Cpu));
    let queue = QueueSpec { flags, scope, ..QueueSpec::default() };
    let work = |&(cpu, script): &(u32, &[Step])| WorkSpec {
        cpu: Some(cpu),
        script: script.to_vec(),
        ..WorkSpec::default()
    };
    let works = works.iter().map(work).collect();
    let scenario = Scenario { cpus: 2, workqueues: vec![queue], works };
    let detect = Detect { tick: Some(TickRole::Alone), ..Detect::default() };
    let config = Config { costs, detect, sabotage, ..Config::exact(2) };
    run_scenario_under(&scenario, &config)
}
