//! The checkers can fail: each deliberate mistake of the driver makes the right one complain.

use cmwq_sim::config::{Checks, Detect, Faults, Sabotage, TickRole};
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::swarm::{Fault, FaultSet, Options};
use cmwq_sim::{Config, Shape, Violation, run_seed, simulate};

/// Enough seeds for every mistake to matter in some of them.
const SEEDS: u64 = 1_000;

/// Runs seeds with a mistake, watched by one checker alone, until that complains.
#[track_caller]
fn check_caught(sabotage: Sabotage, checker: &'static str) {
    check_caught_under(
        &Options { faults: FaultSet::NONE, ..Options::default() },
        sabotage,
        checker,
    );
}

#[track_caller]
fn check_caught_under(options: &Options, sabotage: Sabotage, checker: &'static str) {
    check_caught_in(SEEDS, options, sabotage, checker);
}

#[track_caller]
fn check_caught_in(seeds: u64, options: &Options, sabotage: Sabotage, checker: &'static str) {
    for seed in 0..seeds {
        let honest = run_seed(seed, options);
        let checks = Checks::Only(checker);
        let config = Config { sabotage: Some(sabotage), checks, ..honest.config.clone() };
        let outcome = simulate(&honest.plan, &config);
        if let Some(violation) = outcome.violation {
            assert_eq!(violation.checker, checker, "seed {seed}: {violation}");
            let own = honest.violation();
            assert!(own.is_none(), "seed {seed} complains without the mistake: {own:?}");
            return;
        }
    }
    panic!("{sabotage:?} went unnoticed by '{checker}' in {seeds} seeds");
}

#[test]
fn a_forgotten_wake_up_is_a_stall() {
    check_caught(Sabotage::DropWake, "stall");
}

#[test]
fn without_reports_and_tick_work_stalls() {
    check_caught(Sabotage::NoReports, "stall");
}

#[test]
fn a_forgotten_slot_is_a_stall() {
    check_caught(Sabotage::DropGrant, "stall");
}

#[test]
fn queueing_a_running_item_elsewhere_is_reentrance() {
    check_caught(Sabotage::IgnoreRedirect, "reentrance");
}

#[test]
fn false_reports_break_concurrency() {
    check_caught(Sabotage::FalseReports, "concurrency");
}

#[test]
fn a_belief_about_processes_without_reason_is_noticed() {
    check_caught(Sabotage::BelieveProcesses, "unseen");
}

#[test]
fn a_raised_limit_is_noticed() {
    check_caught(Sabotage::RaiseLimit, "limit");
}

#[test]
fn a_lost_item_is_missed() {
    check_caught(Sabotage::LoseItem, "conservation");
}

#[test]
fn one_worker_too_many_is_noticed() {
    check_caught(Sabotage::CreateTwice, "bounds");
}

#[test]
fn workers_that_never_leave_are_noticed() {
    check_caught(Sabotage::NeverCull, "bounds");
}

#[test]
fn jumping_the_queue_is_noticed() {
    check_caught(Sabotage::Reorder, "order");
}

#[test]
fn an_ordered_queue_that_runs_two_items_is_noticed() {
    check_caught(Sabotage::UnorderOrdered, "order");
}

#[test]
fn an_early_flush_is_noticed() {
    check_caught(Sabotage::FlushEarly, "flush");
}

#[test]
fn an_early_wait_is_noticed() {
    check_caught(Sabotage::WaitEarly, "flush");
}

#[test]
fn an_early_timer_is_noticed() {
    check_caught(Sabotage::FireEarly, "delay");
}

#[test]
fn a_timer_that_is_not_set_anew_is_noticed() {
    check_caught(Sabotage::KeepDelay, "delay");
}

#[test]
fn a_timer_that_stays_armed_while_its_item_is_waited_for_is_noticed() {
    check_caught(Sabotage::FlushLeavesTimer, "delay");
}

#[test]
fn a_pod_that_does_not_help_is_noticed() {
    check_caught(Sabotage::NeverLend, "help");
}

#[test]
fn a_pod_that_is_not_called_when_its_cpu_is_idle_is_noticed() {
    // With one other pod only, which has all the work then.
    let options = Options { faults: FaultSet::NONE, cpus: Some(2), ..Options::default() };
    // Rarely the only CPU that is idle: workers that were blocked use it, too.
    check_caught_in(20 * SEEDS, &options, Sabotage::StayTaken, "help");
}

#[test]
fn a_queue_that_goes_too_early_is_noticed() {
    check_caught(Sabotage::DropEarly, "life");
}

#[test]
fn workers_that_no_queue_needs_are_noticed() {
    check_caught(Sabotage::NeverClose, "life");
}

#[test]
fn an_ordered_queue_that_starts_items_in_two_pools_is_noticed() {
    check_caught(Sabotage::NeverPlug, "order");
}

#[test]
fn an_ordered_queue_that_never_goes_on_is_a_stall() {
    check_caught(Sabotage::StayPlugged, "stall");
}

/// The mistakes that only matter while CPUs leave and come back.
#[track_caller]
fn check_caught_in_storm(sabotage: Sabotage, checker: &'static str) {
    let options = Options { faults: FaultSet::NONE, hotplug: true, ..Options::default() };
    check_caught_under(&options, sabotage, checker);
}

#[test]
fn a_pool_that_does_not_know_that_its_cpu_has_left_stalls() {
    check_caught_in_storm(Sabotage::IgnoreLeave, "stall");
}

#[test]
fn a_pool_that_does_not_know_that_its_cpu_is_back_runs_too_much() {
    check_caught_in_storm(Sabotage::IgnoreReturn, "concurrency");
}

#[test]
fn threads_that_stay_away_are_noticed() {
    check_caught_in_storm(Sabotage::Strand, "place");
}

#[test]
fn limits_that_do_not_follow_the_cpus_are_noticed() {
    check_caught_in_storm(Sabotage::ForgetNodes, "node");
}

#[test]
fn pods_that_are_not_cut_anew_are_noticed() {
    check_caught_in_storm(Sabotage::KeepPods, "place");
}

#[test]
fn a_rescuer_that_is_never_called_is_noticed() {
    let options = Options { faults: FaultSet::NONE.with(Fault::Outage), ..Options::default() };
    check_caught_under(&options, Sabotage::NeverRescue, "rescue");
}

#[test]
fn every_mistake_is_noticed_by_the_whole_set() {
    for (sabotage, _) in Sabotage::ALL {
        // Rescuers are for when threads cannot be had.
        let outage = FaultSet::NONE.with(Fault::Outage);
        let is_of_watchdog = matches!(
            sabotage,
            Sabotage::BlindWatchdog | Sabotage::BlindToPods | Sabotage::BlindToQueues
        );
        if is_of_watchdog {
            // See `watchdog`: the runs of seeds have none.
            continue;
        }
        if matches!(sabotage, Sabotage::LookLeavesBound | Sabotage::NeverWatchOthers) {
            // Reports are exact here. See `without_reports`.
            continue;
        }
        if sabotage == Sabotage::StayTaken {
            // Too rarely: see `a_pod_that_is_not_called_when_its_cpu_is_idle_is_noticed`.
            continue;
        }
        if sabotage == Sabotage::NeverYield {
            // Items of these runs are short. See `who_is_never_taken_for_a_hog_is_noticed`.
            continue;
        }
        if sabotage == Sabotage::LeaveDrained {
            // See `rescue`: few queues move while their rescuers run something.
            continue;
        }
        let faults = if sabotage == Sabotage::NeverRescue { outage } else { FaultSet::NONE };
        let options =
            Options { faults, hotplug: true, sabotage: Some(sabotage), ..Options::default() };
        let caught = (0..SEEDS).any(|seed| run_seed(seed, &options).violation().is_some());
        assert!(caught, "{sabotage:?}");
    }
}

#[test]
fn workers_that_stay_bound_to_a_busy_cpu_are_noticed() {
    check_caught(Sabotage::NeverUnbind, "idle");
}

#[test]
fn a_pool_that_stays_saturated_is_noticed() {
    check_caught(Sabotage::StaySaturated, "stall");
}

const MS: u64 = 1_000_000;

/// What one checker says of items of a managed queue with two pods of one CPU each, where every
/// report is lost, so that only the tick finds who is blocked. Of each item: where and when it is
/// queued, and what it does.
fn without_reports(
    items: &[(u32, u64, &[Op])],
    lending: bool,
    checker: &'static str,
    sabotage: Option<Sabotage>,
) -> Option<Violation> {
    let call = |(item, &(cpu, at, _)): (usize, &(u32, u64, &[Op]))| Call {
        at,
        op: Op::Queue { item, cpu: Some(cpu) },
    };
    let plan = Plan {
        queues: vec![QueueSpec {
            name: "q".into(),
            flags: [Flag::Managed].into_iter().collect(),
            ..QueueSpec::default()
        }],
        items: items
            .iter()
            .map(|(_, _, ops)| Item { ops: (*ops).into(), ..Item::default() })
            .collect(),
        calls: items.iter().enumerate().map(call).collect(),
        ..Plan::default()
    };
    let config = Config {
        shape: Shape::Regular([1, 2, 1, 1]),
        detect: Detect { tick: Some(TickRole::Alone), ..Detect::default() },
        faults: Faults { lost: 1_000_000, ..Faults::default() },
        lending,
        checks: Checks::Only(checker),
        sabotage,
        ..Config::exact(2)
    };
    simulate(&plan, &config).violation
}

/// The first item is back when its CPU computes, and behind that something waits; the other CPU is
/// idle, since pods do not help each other here.
#[test]
fn a_worker_that_the_tick_leaves_bound_to_a_busy_cpu_is_noticed() {
    let burn: &[Op] = &[Op::Burn(20 * MS)];
    let items: &[(u32, u64, &[Op])] =
        &[(0, 0, &[Op::Sleep(10 * MS), Op::Burn(5 * MS)]), (0, 0, burn), (0, 0, burn)];
    assert_eq!(without_reports(items, false, "idle", None), None);
    let found = without_reports(items, false, "idle", Some(Sabotage::LookLeavesBound));
    assert_eq!(found.map(|found| found.at), Some(10 * MS));
}

/// The item on CPU 1 blocks at 2 ms, where nothing else waits; on CPU 0 something does.
#[test]
fn workers_of_other_pods_that_nobody_watches_are_noticed() {
    let burn: &[Op] = &[Op::Burn(20 * MS)];
    let items: &[(u32, u64, &[Op])] =
        &[(0, 0, burn), (1, 0, &[Op::Burn(2 * MS), Op::Sleep(40 * MS)]), (0, MS, burn)];
    assert_eq!(without_reports(items, true, "help", None), None);
    let found = without_reports(items, true, "help", Some(Sabotage::NeverWatchOthers));
    assert_eq!(found.map(|found| found.checker), Some("help"));
}
