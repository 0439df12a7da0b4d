//! Each protective rule of the core is needed: with any one of them taken out, the scope named here
//! breaks, and with none it holds (`search.rs`, and the gate's own run).

use cmwq_explore::{Limits, Rule, scopes, search};

/// Which scope notices, and what it says.
const NOTICED: &[(Rule, &str, &str)] = &[
    (Rule::LastIdleManages, "reopen", "(standby)"),
    (Rule::KickBehindStart, "reopen", "(coming)"),
    (Rule::WatchAtCapacity, "reports-lost", "no fair continuation"),
    (Rule::OneIsWoken, "batches-failing", "two workers are woken"),
    (Rule::DyingDoNotCount, "reopen", "(coming)"),
    (Rule::BlockedMakesRoom, "reports-lost", "no fair continuation"),
    (Rule::ReportsNameTheirRun, "reports", "a stray report changed the counts"),
    (Rule::AskingIsRunning, "reentrance", "counts"),
    (Rule::FinishCorrects, "blocking", "is believed blocked"),
    (Rule::NoReentrance, "reentrance", "runs twice at once"),
    (Rule::ChainsMoveTogether, "rescue-attributes", "a wait ended before"),
    (Rule::BarriersOutliveTheirItem, "inactive-barriers", "no fair continuation"),
    (Rule::GrabKicks, "inactive-barriers", "no fair continuation"),
    (Rule::SlotsActivate, "limits", "inactive items and slots free"),
    (Rule::PluggedStartsNothing, "ordered", "of an ordered queue was started before"),
    (Rule::UnplugActivates, "ordered", "inactive items and slots free"),
    (Rule::RetiredRefuses, "node-attributes", "which was replaced"),
    (Rule::DestroyedRefuses, "expiring", "a pwq that does not exist"),
    (Rule::RetiredTells, "retiring", "no fair continuation"),
    (Rule::FlushedTells, "flushing", "no fair continuation"),
    (Rule::ConcurrencyKicks, "hotplug", "(coming)"),
    (Rule::WaitersLeaveTheLine, "node-attributes", "a removed pwq waited for a slot"),
    (Rule::RisesAreHandedOver, "split", "some wait in line for it"),
    (Rule::GrantsArePassedOn, "node-attributes", "no fair continuation"),
    (Rule::GuestKicksBehind, "rescue-in-turn", "(coming)"),
    (Rule::LendersLeaveAStandby, "lending-woken", "(standby)"),
    (Rule::GuestsFinish, "lending-again", "scheduled"),
    (Rule::CursorsAreNeverFirst, "rescue", "(cursor)"),
    (Rule::VisitedStays, "rescue-attributes", "a pwq that does not exist"),
    (Rule::CalledOnce, "rescue", "(called)"),
    (Rule::ClosedKeepsStandby, "reopen", "(standby)"),
    (Rule::FailureIsBorne, "outage", "no fair continuation"),
    (Rule::RefusalsAreRemembered, "refused", "nobody tries again"),
    (Rule::LooksTellOfNeed, "refused", "nobody creates a worker"),
    (Rule::LooksWakeOthers, "alarms", "was never told that it was woken"),
    (Rule::WaitersStandForProcesses, "processes", "a wait for a process"),
    (Rule::AlarmedBegin, "processes-wait-soon", "no fair continuation"),
    (Rule::HogsNeedRoom, "hogs-managed", "hogs do not count"),
    (Rule::ShutQueuesRefuseTimers, "shutting-down", "no fair continuation"),
    (Rule::RunsLeftBehindAreFound, "ordered-taken-back", "was cancelled with waiting"),
    (Rule::ArmingAsksWithTheLock, "shutting-down", "no fair continuation"),
    (Rule::LastLooksSeeNoProgress, "chained", "a pwq that does not exist"),
    (Rule::BatchesComeBack, "batches", "was lost"),
    (Rule::QueuesBehindOthers, "batches-crowded", "was queued before it"),
];

#[test]
fn every_rule_is_in_the_table() {
    for rule in Rule::ALL {
        assert_eq!(NOTICED.iter().filter(|row| row.0 == *rule).count(), 1, "{rule:?}");
    }
}

#[test]
fn every_rule_is_needed() {
    let mut unnoticed = Vec::new();
    for &(rule, name, says) in NOTICED {
        let scope = scopes::gate().into_iter().find(|scope| scope.name == name);
        let scope = scope.unwrap_or_else(|| panic!("there is no scope {name}"));
        let limits = Limits { without: Some(rule), states: 150_000, ..Limits::default() };
        let outcome = search(&scope, &limits, &mut |_| ());
        match outcome.violation {
            Some(violation) if violation.what.contains(says) => {}
            other => unnoticed.push((rule, name, other.map(|violation| violation.what))),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}
