//! The protective rules of a pool, by name, so that the exhaustive search can take each of them out
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
    /// Who starts an item wakes another worker, if work waits that a CPU could run.
    KickBehindStart,
    /// Work that waits at capacity is watched.
    WatchAtCapacity,
    /// A worker that was told to leave is nobody to count on.
    DyingDoNotCount,
    /// A worker that was reported blocked makes room for another.
    BlockedMakesRoom,
    /// A report about an earlier run is ignored.
    ReportsNameTheirRun,
    /// Who asks for work counts as running, whatever was reported of him.
    AskingIsRunning,
    /// The books are right again when an item ends, whatever was reported of its worker.
    FinishCorrects,
    /// An item that is running goes to the worker that runs it.
    NoReentrance,
    /// An item and what is glued to it move together.
    ChainsMoveTogether,
    /// The barriers of a parked item that is taken back do not wait for its slot.
    BarriersOutliveTheirItem,
    /// Taking an item back wakes a worker for what its slot activated.
    GrabKicks,
    /// A slot that comes free activates a parked item.
    SlotsActivate,
    /// A plugged pwq starts nothing.
    PluggedParks,
    /// What was parked while the pwq was plugged starts when it is not any more.
    UnplugActivates,
    /// A retired pwq takes nothing new.
    RetiredRefuses,
    /// A retired pwq tells when it has drained.
    RetiredTells,
    /// A pwq tells when the flushed colour has gone.
    FlushedTells,
    /// A pool whose concurrency rises wakes a worker.
    ConcurrencyKicks,
    /// A pwq that waits for a slot of its node does not go before it has left the line.
    WaitersLeaveTheLine,
    /// A slot that was granted too late is passed on.
    GrantsArePassedOn,
    /// A guest wakes a worker for what it leaves behind.
    GuestKicksBehind,
    /// A worker is lent only if another one stands by.
    LendersLeaveAStandby,
    /// A guest goes only when nothing is scheduled that it alone can run.
    GuestsFinish,
    /// A rescuer serves the pwq that called it from the beginning if its mark is gone.
    MarksAreSettled,
    /// A pwq that a rescuer visits stays.
    VisitedStays,
    /// A pwq is called for once until its rescuer comes.
    CalledOnce,
    /// A closed pool keeps the standby of those who still work.
    ClosedKeepsStandby,
    /// After a failed creation work goes on without a standby.
    FailureIsBorne,
    /// What a worker has taken along and not begun comes back when somebody needs the books.
    BatchesComeBack,
    /// Who queues calls a batch back before: what was taken along is older.
    QueueingCallsBack,
    /// Who watches others is not blocked by waiting for them.
    WatchersStandForOthers,
    /// An item that is to be queued later, on a queue that is shut down, is refused, and not queued
    /// at once: see [`Closed`](crate::Closed). The search takes it out by itself.
    #[cfg(feature = "explore")]
    ShutQueuesRefuseTimers,
    /// Whether a queue is shut down is asked with the lock with which the timer is armed: who shuts
    /// it down has it after that. The search takes it out by itself.
    #[cfg(feature = "explore")]
    ArmingAsksWithTheLock,
}

#[cfg(feature = "explore")]
impl Rule {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::LastIdleManages,
        Self::KickBehindStart,
        Self::WatchAtCapacity,
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
        Self::PluggedParks,
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
        Self::MarksAreSettled,
        Self::VisitedStays,
        Self::CalledOnce,
        Self::ClosedKeepsStandby,
        Self::FailureIsBorne,
        Self::BatchesComeBack,
        Self::QueueingCallsBack,
        Self::WatchersStandForOthers,
        Self::ShutQueuesRefuseTimers,
        Self::ArmingAsksWithTheLock,
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
