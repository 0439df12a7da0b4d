//! The simulator's random runs notice, too, when a rule of the core is taken out: in larger worlds
//! than the search can visit, by checkers that know nothing of the core.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cmwq_explore::Rule;
use cmwq_sim::swarm::Options;
use cmwq_sim::{run_seed, simulate_without};

/// Enough for each rule that is expected to be noticed.
const SEEDS: u64 = 1_000;

/// What no random run has shown in 1,000 seeds, and why. The search notices all of them.
const ONLY_SEARCHED: [Rule; 20] = [
    // The next look at the worker puts right what they prevent, before anybody complains.
    Rule::ReportsNameTheirRun,
    Rule::AskingIsRunning,
    Rule::FinishCorrects,
    // Runs without a standby end well unless a thread cannot be had just then.
    Rule::LendersLeaveAStandby,
    // Nobody but a manager creates a worker just when an item comes by the inbox and one is idle.
    Rule::OneIsWoken,
    // Who has forgotten a need is reminded when the next item is queued, before anybody complains.
    Rule::RefusalsAreRemembered,
    Rule::LooksTellOfNeed,
    // No worker looks itself there.
    Rule::LooksWakeOthers,
    // Nobody takes back an inactive item for which somebody waits.
    Rule::BarriersOutliveTheirItem,
    // Between finding a pwq and queueing there nothing happens here, so none is retired.
    Rule::RetiredRefuses,
    // A removed pwq that waits for a slot is rare, and the next one takes its place in line.
    Rule::WaitersLeaveTheLine,
    // Rescuers that are called twice come twice, for nothing.
    Rule::CalledOnce,
    // Where nobody begins on an alarm the tick finds who waits.
    Rule::AlarmedBegin,
    // A few hogs more share their CPUs with others, and hold up nobody.
    Rule::HogsNeedRoom,
    // No run shuts all queues down.
    Rule::ShutQueuesRefuseTimers,
    Rule::ArmingAsksWithTheLock,
    // What expires is let in and queued at once there.
    Rule::DestroyedRefuses,
    // The driver does it, there as here.
    Rule::RisesAreHandedOver,
    // It has a sabotage of its own there.
    Rule::RunsLeftBehindAreFound,
    // All pwqs of a queue are read in one event there.
    Rule::LastLooksSeeNoProgress,
];

/// A run without it takes minutes until it has gone round in circles often enough.
const SLOW: Rule = Rule::FailureIsBorne;

/// Whether a checker or an assertion of the core complains of a run without the rule.
fn notices(rule: Rule, seed: u64) -> bool {
    let honest = run_seed(seed, &Options { hotplug: seed % 2 == 1, ..Options::default() });
    assert!(honest.violation().is_none(), "seed {seed}: {:?}", honest.violation());
    let run = AssertUnwindSafe(|| simulate_without(&honest.plan, &honest.config, rule));
    catch_unwind(run).map_or(true, |outcome| outcome.violation.is_some())
}

#[test]
fn each_rule_that_is_taken_out_is_noticed() {
    let is_expected = |rule: &&Rule| !ONLY_SEARCHED.contains(rule) && **rule != SLOW;
    for &rule in Rule::ALL.iter().filter(is_expected) {
        let seed = (0..SEEDS).find(|&seed| notices(rule, seed));
        assert!(seed.is_some(), "no run of {SEEDS} seeds needs {rule:?}");
    }
}
