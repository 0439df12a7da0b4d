//! The protective rules of a pool, by name, so that the exhaustive search can take each rule out
//! and show that it notices.
//!
//! Without the feature `explore` every rule is kept, at no cost: [`PoolState::keeps`] is constant.

use super::PoolState;

/// A rule without which something goes wrong in some history.
#[cfg_attr(
    not(feature = "explore"),
    allow(unreachable_pub, reason = "it is public with the feature")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The last idle worker creates another one before it starts an item.
    LastIdleManages,
    /// A worker that starts an item wakes another one, if work waits that a CPU could run.
    KickBehindStart,
    /// A pool at capacity is watched while work waits.
    WatchAtCapacity,
    /// Where a worker has been woken, the creation of another one wakes nobody.
    OneIsWoken,
    /// A worker that was told to leave is not counted on.
    DyingDoNotCount,
    /// A worker that was reported blocked makes room for another.
    BlockedMakesRoom,
    /// A report about an earlier run is ignored.
    ReportsNameTheirRun,
    /// A worker that asks for work counts as running, whatever was reported of it.
    AskingIsRunning,
    /// The counts are right again when an item ends, whatever was reported of its worker.
    FinishCorrects,
    /// An item that is running goes to the worker that runs it.
    NoReentrance,
    /// An item and what is linked to it move together.
    ChainsMoveTogether,
    /// The barriers of an inactive item that is taken back do not wait for its slot.
    BarriersOutliveTheirItem,
    /// Taking an item back wakes a worker for what its slot activated.
    GrabKicks,
    /// A slot that comes free activates an inactive item.
    SlotsActivate,
    /// A plugged pwq starts nothing.
    PluggedStartsNothing,
    /// Items that became inactive while a pwq was plugged start when it is unplugged.
    UnplugActivates,
    /// A retired pwq takes nothing new.
    RetiredRefuses,
    /// A retired pwq tells when it has drained.
    RetiredTells,
    /// A pwq tells when the flushed colour has gone.
    FlushedTells,
    /// A pool whose concurrency rises wakes a worker.
    ConcurrencyKicks,
    /// A pwq that waits for a slot of its node is not removed before it has left the line.
    WaitersLeaveTheLine,
    /// A slot that was granted too late is passed on.
    GrantsArePassedOn,
    /// A guest that leaves wakes a worker for the items that still wait.
    GuestKicksBehind,
    /// A worker is lent only if another one stands by.
    LendersLeaveAStandby,
    /// A guest leaves only when it has no scheduled items, which it alone can run.
    GuestsFinish,
    /// A rescuer's cursor is never the first on the worklist.
    CursorsAreNeverFirst,
    /// A pwq that a rescuer visits stays.
    VisitedStays,
    /// The rescuer is called once for a pwq until it comes.
    CalledOnce,
    /// A closed pool keeps a standby for its workers that still work.
    ClosedKeepsStandby,
    /// After a failed creation workers go on without a standby.
    FailureIsBorne,
    /// A pool that was refused a worker asks for one as long as it needs one.
    RefusalsAreRemembered,
    /// A look at workers passes on that their pool needs one that it was refused.
    LooksTellOfNeed,
    /// A worker that looks itself leaves out its own wake-up, and no other one's.
    LooksWakeOthers,
    /// Items that a worker has taken along and not begun come back when the counts are read.
    BatchesComeBack,
    /// In a pool that makes batches an item is queued behind all that wait, also behind those that
    /// are on no list.
    QueuesBehindOthers,
    /// A worker that stands for a process is not blocked by waiting for it.
    WaitersStandForProcesses,
    /// Who is to begin an item since a CPU idles takes one although enough workers run.
    AlarmedBegin,
    /// A hog of a managed pool that has waited is one again only if there is room.
    HogsNeedRoom,
    /// An item that is to be queued later, on a queue that is shut down, is refused, and not queued
    /// at once: see [`Closed`](crate::Closed). The search itself takes this rule out.
    #[cfg(feature = "explore")]
    ShutQueuesRefuseTimers,
    /// Whether a queue is shut down is asked with the lock with which the timer is armed: who shuts
    /// it down has it after that. The search takes it out by itself.
    #[cfg(feature = "explore")]
    ArmingAsksWithTheLock,
    /// Who waits for an item looks for a run of it also at pools that its queue has left: see
    /// [`QueueKind::leaves_runs_behind`](crate::place::QueueKind::leaves_runs_behind). The search
    /// takes it out by itself.
    #[cfg(feature = "explore")]
    RunsLeftBehindAreFound,
    /// A queue is empty only if there was no progress while its pwqs were read: see
    /// [`EmptyCheck`](crate::EmptyCheck). The search takes it out by itself.
    #[cfg(feature = "explore")]
    LastLooksSeeNoProgress,
    /// When a limit has risen that pwqs share, its new slots go to those in line: see
    /// [`NodeLimit::set_max`](crate::NodeLimit::set_max). The search takes it out by itself.
    #[cfg(feature = "explore")]
    RisesAreHandedOver,
    /// Who was let in, and finds that the queue is being destroyed meanwhile, is refused: see
    /// [`Closed::still_lets_in`](crate::Closed::still_lets_in). The search takes it out by itself.
    #[cfg(feature = "explore")]
    DestroyedRefuses,
}

#[cfg(feature = "explore")]
impl Rule {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::LastIdleManages,
        Self::KickBehindStart,
        Self::WatchAtCapacity,
        Self::OneIsWoken,
        Self::DyingDoNotCount,
        Self::BlockedMakesRoom,
        Self::ReportsNameTheirRun,
        Self::AskingIsRunning,
        Self::FinishCorrects,
        Self::NoReentrance,
        Self::ChainsMoveTogether,
        Self::BarriersOutliveTheirItem,
        Self::GrabKicks,
        Self::SlotsActivate,
        Self::PluggedStartsNothing,
        Self::UnplugActivates,
        Self::RetiredRefuses,
        Self::RetiredTells,
        Self::FlushedTells,
        Self::ConcurrencyKicks,
        Self::WaitersLeaveTheLine,
        Self::GrantsArePassedOn,
        Self::GuestKicksBehind,
        Self::LendersLeaveAStandby,
        Self::GuestsFinish,
        Self::CursorsAreNeverFirst,
        Self::VisitedStays,
        Self::CalledOnce,
        Self::ClosedKeepsStandby,
        Self::FailureIsBorne,
        Self::RefusalsAreRemembered,
        Self::LooksTellOfNeed,
        Self::LooksWakeOthers,
        Self::BatchesComeBack,
        Self::QueuesBehindOthers,
        Self::WaitersStandForProcesses,
        Self::AlarmedBegin,
        Self::HogsNeedRoom,
        Self::ShutQueuesRefuseTimers,
        Self::ArmingAsksWithTheLock,
        Self::RunsLeftBehindAreFound,
        Self::LastLooksSeeNoProgress,
        Self::RisesAreHandedOver,
        Self::DestroyedRefuses,
    ];
}

impl PoolState {
    /// Whether the rule is in force: always, but for the search's own test.
    #[inline(always)]
    #[cfg(not(feature = "explore"))]
    pub(crate) const fn keeps(&self, _rule: Rule) -> bool {
        true
    }

    /// Whether the rule is in force.
    #[inline(always)]
    #[cfg(feature = "explore")]
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    /// Takes one rule out of this pool, to show that it is needed.
    #[cfg(feature = "explore")]
    pub fn take_out(&mut self, rule: Rule) {
        self.broken = Some(rule);
    }
}
