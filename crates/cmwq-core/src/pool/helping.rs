//! What a managed pool does because other pods have more work than they may run.
//!
//! The driver publishes first that the pod has a CPU to spare, if it has one, and then looks
//! whether others have a backlog: see [`help::board`](crate::help::board). Both answers may be
//! late.
//!
//! KERNEL: no twin.

use super::{Kick, PoolState, Rule};
use crate::ids::WorkerId;
use crate::worker::Phase;

/// Whether an idle worker may serve another pool.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lend {
    /// It stays here.
    No,
    /// It is bound to its own pool's CPUs, which are what it brings along, and then asks again:
    /// getting one of them may take a while.
    Rebind,
    /// It may, and counts as running here in this run.
    Lent(u64),
}

impl PoolState {
    /// Whether this pool has to be watched: work waits here; or a worker runs that helps another
    /// pod, which need not have a backlog that it tells of ([short
    /// items](crate::help::short_items)); or a CPU is in use here that another pod could use.
    /// `caller_computes`: whether a thread outside of the pools uses it; `others_wait`: whether
    /// another pod has a backlog.
    #[inline]
    #[must_use]
    pub fn has_to_watch(
        &self,
        caller_computes: impl FnOnce() -> bool,
        others_wait: impl FnOnce() -> bool,
    ) -> bool {
        let is_used = || self.nr_running > 0 || caller_computes();
        self.work_waits() || self.nr_helping > 0 || (is_used() && others_wait())
    }

    /// Another pod has a backlog, and asks to have the workers here watched: one that blocks leaves
    /// a CPU for it.
    pub const fn watch_for_others(&self, is_watched: bool) -> Kick {
        if !is_watched && self.nr_running > 0 { Kick::Watch } else { Kick::None }
    }

    /// Another pod has a backlog, and a thread outside of the pools computes on the CPU here. With
    /// a standby, [`Kick::Watch`] arms the CPU's sentinel, which wakes the standby later. Nobody is
    /// woken now.
    pub fn kick_when_idle(&mut self, is_watched: bool) -> Kick {
        match self.standby() {
            _ if is_watched || !self.has_spare_cpu() => Kick::None,
            Some(_) => Kick::Watch,
            None => self.kick_to_help(),
        }
    }

    /// Another pod has more work than it may run: whom to wake, so that he looks for work in other
    /// pods. Nobody while the pod [is asked](Self::is_asked_to_help) already.
    pub fn ask_to_help(&mut self) -> Kick {
        if self.is_asked_to_help {
            return Kick::None;
        }
        let kick = self.kick_to_help();
        // Only a woken worker answers. One that is being created does not.
        self.is_asked_to_help = matches!(kick, Kick::Wake(_));
        kick
    }

    /// Whether a worker was woken to help another pod, and none of this pool has looked since what
    /// to do: no other pod is to ask this one meanwhile.
    ///
    /// Any worker's look answers that. The one that was asked may find that work waits here by now:
    /// then the pod has a CPU to spare again when that worker blocks, and can be asked again.
    #[inline]
    #[must_use]
    pub const fn is_asked_to_help(&self) -> bool {
        self.is_asked_to_help
    }

    /// Whether more work waits here than may start, so that other pods may help.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        self.work_waits() && (self.is_at_capacity() || self.is_starved())
    }

    /// Whether a worker of this pool that helps another pod has to come back: because work waits
    /// here; because the pool [is crowded](Self::is_crowded); or because a thread outside of the
    /// pools has the CPU (`caller_computes`).
    pub fn wants_back(&self, caller_computes: impl FnOnce() -> bool) -> bool {
        self.work_waits() || self.is_crowded() || caller_computes()
    }

    /// Whether more workers run than may, since another one started while one was blocked that is
    /// back. Not if items [wait first](Self::items_wait_first). Reports make a pool crowded, and
    /// items that [begin on an alarm](Self::begins_on_alarm).
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.is_over_capacity() && !self.items_wait_first()
    }

    /// A worker of this pool was reported blocked, which demanded `kick`: which worker to wake.
    /// Where no work waits here, that is one that looks for work in other pods; but while a caller
    /// computes on the CPU, only the CPU's sentinel wakes workers.
    ///
    /// The driver has posted on the board before that the pool has a CPU to spare. `has_posted`:
    /// what it posted says for the first time that the pool has a backlog, so others are asked.
    pub fn replace_blocked(
        &mut self,
        kick: Kick,
        has_posted: bool,
        caller_computes: impl FnOnce() -> bool,
        others_wait: impl FnOnce() -> bool,
    ) -> Kick {
        if has_posted {
            return kick.or(Kick::Watch);
        }
        if kick == Kick::None && !caller_computes() && others_wait() {
            return self.kick_to_help();
        }
        kick
    }

    /// Idle worker `id` wants to serve another pool as a guest there. Not without another idle
    /// worker, which must stay as standby, and not if work waits. `is_unbound`: it may run on any
    /// CPU, since it was [unbound](Self::is_unbound).
    pub fn lend(&mut self, id: WorkerId, is_unbound: bool) -> Lend {
        let nr_idle = if self.keeps(Rule::LendersLeaveAStandby) { 2 } else { 1 };
        if !self.has_spare_cpu() || self.nr_idle < nr_idle || self.worker(id).phase != Phase::Idle {
            return Lend::No;
        }
        if is_unbound {
            return Lend::Rebind;
        }
        // Who was asked while this worker was on its way may be this worker.
        self.is_asked_to_help = false;
        self.leave_idle(id);
        self.update(id, |w| {
            w.phase = Phase::Working;
            w.lent = true;
            w.begins_anyway = false;
            w.seq += 1;
        });
        self.assert_standby();
        Lend::Lent(self.worker(id).seq)
    }

    /// A lent worker starts another item of the other pool, which is a run of its own. Returns its
    /// `seq`.
    #[must_use]
    pub fn lend_again(&mut self, id: WorkerId) -> u64 {
        self.update(id, |w| {
            w.sleeping = false;
            w.cpu_intensive = false;
            w.seq += 1;
        });
        self.worker(id).seq
    }

    /// A lent worker is back; it asks for [`next`](Self::next) now.
    pub fn lend_end(&mut self, id: WorkerId) {
        self.update(id, |w| {
            w.lent = false;
            w.sleeping = false;
            w.cpu_intensive = false;
        });
    }

    /// Which idle worker to wake because another pool has more work than CPUs, if any.
    pub fn kick_to_help(&mut self) -> Kick {
        if self.has_spare_cpu() { self.wake_idle() } else { Kick::None }
    }
}
