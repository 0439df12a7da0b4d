//! A managed pool and those of other pods: what it posts on their [board](super::board), and how
//! others ask it to help.

use std::mem;

use cmwq_core::help::board::Entry;
use cmwq_core::help::{self, Facts, Progress, Set};
use cmwq_core::{Creator, Kick, LockFor};

use super::board::Pod;
use super::{Holder, Locked, Pool, PoolGuard};
use crate::os::clock;
use crate::os::sense;
use crate::os::sync::{Ordering, without};
use crate::record::Reason;

impl Pool {
    /// See [`help::may_be_helped`].
    #[inline(always)]
    pub(crate) fn may_be_helped(&self) -> bool {
        self.pod.is_some_and(|pod| help::may_be_helped(pod.board, || self.has_short_items()))
    }

    /// It has more work than it may start, and that takes long enough to be worth help.
    #[inline]
    pub(crate) fn wants_help(&self) -> bool {
        self.pod.is_some_and(|Pod { board, number }| help::wants_help(board, number))
    }

    /// Its workers begin to be watched, or one of them has begun an item: asks others if that is
    /// of use.
    pub(super) fn ask_others(&'static self) {
        if self.pod.is_some_and(|Pod { board, number }| help::asks(board, number)) {
            self.runtime.ask_for_help(self);
        }
    }

    /// Another pod has more work than it may run, so that a CPU which somebody leaves here matters.
    #[inline]
    fn others_wait(&self) -> bool {
        self.pod.is_some_and(|Pod { board, number }| help::others_wait(board, number))
    }

    /// Whether its items are too short for others to help. A hint.
    #[inline]
    pub(crate) fn has_short_items(&self) -> bool {
        // ORDERING: no pairing: a hint; under the lock it is exact.
        self.has_short_items.load(Ordering::Relaxed)
    }

    /// Whether the pool is [crowded](cmwq_core::PoolState::is_crowded). A hint for its helpers.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        // ORDERING: no pairing: a hint; with the lock they ask the core.
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Measures the pool's items again, if they were found short. By the tick. Caller holds no core
    /// lock.
    pub(crate) fn detect_short_items(&'static self) {
        if !self.has_short_items() {
            return;
        }
        let mut guard = self.lock(LockFor::Decide);
        let now = guard.progress_now();
        match guard.measured.was_short(now) {
            None => {}
            Some(is_short) => guard.set_short(self, is_short, now),
        }
        self.unlock(guard, Kick::None);
    }

    /// Whether the board says that this pod has a CPU to spare.
    #[cold]
    pub(crate) fn is_spare(&self) -> bool {
        self.read(|_, locked| locked.entry.has(Set::Spare))
    }

    /// Whether items wait that the pool may not start. The caller is about to help it.
    pub(crate) fn has_backlog(&'static self) -> bool {
        let guard = self.lock(LockFor::Decide);
        let has_backlog = guard.core.has_backlog();
        self.unlock(guard, Kick::None);
        has_backlog
    }

    /// Whether a thread of the program computes on its CPU. A hint; `false` while the CPU has no
    /// sentinel to report the end of that.
    #[inline]
    pub(crate) fn caller_computes(&self) -> bool {
        self.pod.is_some_and(|Pod { board, number }| board.has(Set::CallerComputes, number))
            && self.is_reported_idle()
    }

    /// Whether a sentinel reports that its CPU is idle. `false` for a pool of several CPUs.
    pub(crate) fn is_reported_idle(&self) -> bool {
        self.lone_cpu.is_some_and(|cpu| self.runtime.sentinels.reports(cpu))
    }

    /// Whether the calling thread is on its only CPU.
    pub(crate) fn is_here(&self) -> bool {
        self.lone_cpu.is_some_and(|cpu| sense::sched::current_cpu() == Some(cpu))
    }

    #[inline]
    pub(crate) fn set_caller_computes(&self, caller_computes: bool) {
        let Some(Pod { board, number }) = self.pod else { return };
        let caller_computes = caller_computes && self.is_reported_idle();
        if board.has(Set::CallerComputes, number) != caller_computes {
            board.put(Set::CallerComputes, number, caller_computes);
        }
    }

    /// As [`ask_to_help`](Self::ask_to_help), but once its CPU is idle: the CPU's sentinel then
    /// wakes the standby.
    pub(crate) fn ask_when_idle(&'static self) {
        if self.is_watched() || without("caller_computes.call") {
            return;
        }
        let _ = self.wake_one(|locked| locked.core.kick_when_idle(locked.watched));
    }

    /// Wakes an idle worker, to look for work in other pods, and creates one if there is none.
    /// `false`: no worker comes.
    pub(crate) fn ask_to_help(&'static self) -> bool {
        self.wake_one(|locked| locked.core.ask_to_help())
    }

    /// Wakes the worker that `whom` chooses; if the pool has no worker, creates one and asks again,
    /// or leaves both to the creator. `false`: no worker comes.
    fn wake_one(&'static self, whom: impl Fn(&mut Locked) -> Kick) -> bool {
        let ask = || {
            let mut guard = self.lock(LockFor::Decide);
            let kick = whom(&mut guard);
            // No work waits here, so acting on `NeedFirst` would not create a worker.
            let is_nobody = kick == Kick::NeedFirst;
            self.unlock(guard, if is_nobody { Kick::None } else { kick });
            kick
        };
        let kick = match ask() {
            Kick::NeedFirst if self.ask_for_worker(Creator::Spare) => return true,
            Kick::NeedFirst => ask(),
            kick => kick,
        };
        matches!(kick, Kick::Wake(_))
    }

    /// A helper here was found blocked: what it has taken along comes back, and the items are not
    /// short.
    pub(crate) fn helper_blocked(&'static self) {
        let mut guard = self.lock(LockFor::Decide);
        guard.found_long(self);
        self.unlock(guard, Kick::None);
    }

    /// Drops the lock behind a worker that was lent. Detectors watch it: if it blocks, this pod has
    /// a CPU to spare again, and another worker is to be woken from now on.
    pub(crate) fn unlock_lent(&'static self, mut guard: PoolGuard<'_>) {
        guard.note_crowd(self);
        guard.mirror.decided(Reason::Lent);
        self.unlock_as(guard, Kick::Watch, Holder::Claimer);
    }

    /// Another pod has a backlog, and could use a CPU here: has this pool watched.
    pub(crate) fn watch_for_others(&'static self) {
        if self.is_watched() {
            return;
        }
        let guard = self.lock(LockFor::Decide);
        let kick = guard.core.watch_for_others(guard.watched);
        self.unlock(guard, kick);
    }
}

impl Locked {
    /// Posts the changes of this pod's entry on the board. `true`: the entry says that the pod has
    /// a backlog, and did not before.
    #[inline(always)]
    pub(super) fn post_entry(&mut self, pool: &Pool) -> bool {
        pool.pod.is_some_and(|pod| self.post_changes(pool, pod))
    }

    /// As [`post_entry`](Self::post_entry), where nobody acts on what comes of it at once: who next
    /// drops the lock with a [`Todo`](super::Todo) asks other pods.
    pub(crate) fn post_for_next(&mut self, pool: &Pool) {
        if self.post_entry(pool) {
            self.pending_kick = self.pending_kick.or(Kick::Watch);
        }
    }

    fn post_changes(&mut self, pool: &Pool, pod: Pod) -> bool {
        let is_at_capacity = self.core.is_at_capacity();
        let facts = Facts {
            work_waits: self.core.work_waits(),
            is_at_capacity,
            is_starved: self.core.is_starved(),
            has_short_items: pool.has_short_items(),
            is_saturated: self.core.lets_push(),
            is_asked_to_help: self.core.is_asked_to_help(),
            is_closed: !self.may_help,
            caller_computes: !is_at_capacity && pool.caller_computes(),
            is_watched: self.watched,
        };
        let entry = facts.entry();
        entry != self.entry && self.post(pod, entry)
    }

    /// See [`post_entry`](Self::post_entry).
    #[inline(never)]
    fn post(&mut self, pod: Pod, entry: Entry) -> bool {
        let before = mem::replace(&mut self.entry, entry);
        pod.board.post(pod.number, before, entry);
        entry.has(Set::Backlog) && !before.has(Set::Backlog)
    }

    /// Whether detectors have to watch this pool: work waits here, or a CPU is in use here that
    /// another pod could use.
    pub(crate) fn has_to_watch(&self, pool: &Pool) -> bool {
        self.core.has_to_watch(|| pool.caller_computes(), || pool.others_wait())
    }

    /// See [`PoolState::replace_blocked`](cmwq_core::PoolState::replace_blocked).
    pub(crate) fn replace_blocked(&mut self, pool: &Pool, kick: Kick) -> Kick {
        // First the pool posts that it has a CPU to spare, then it looks which pod wants that.
        let has_posted = self.post_entry(pool);
        self.core.replace_blocked(
            kick,
            has_posted,
            || pool.caller_computes(),
            || pool.others_wait(),
        )
    }

    /// A worker has been created here. Another pod may have asked it, and has not waited for it:
    /// whom to wake for that.
    pub(crate) fn answer_late(&mut self, pool: &Pool) -> Kick {
        if !pool.others_wait() {
            Kick::None
        } else if pool.caller_computes() {
            self.core.kick_when_idle(self.watched)
        } else {
            self.core.ask_to_help()
        }
    }

    /// How many items the pool has started by now.
    pub(crate) fn progress_now(&self) -> Progress {
        Progress { at: clock::now(), started: self.core.nr_started() }
    }

    /// A guest has found the pool's items short.
    pub(crate) fn found_short(&mut self, pool: &Pool) {
        let now = self.progress_now();
        self.set_short(pool, true, now);
    }

    /// The pool's items are worth help, whatever was found before.
    pub(crate) fn found_long(&mut self, pool: &Pool) {
        if pool.has_short_items() {
            let now = self.progress_now();
            self.set_short(pool, false, now);
        }
    }

    pub(super) fn set_short(&mut self, pool: &Pool, is_short: bool, now: Progress) {
        self.measured = now;
        // ORDERING: no pairing: written under the lock, a hint for all others.
        pool.has_short_items.store(is_short, Ordering::Relaxed);
    }

    /// Whether the pool is crowded may have changed, and matters to its helpers.
    pub(crate) fn note_crowd(&self, pool: &Pool) {
        let is_crowded = self.core.is_crowded();
        if pool.is_crowded() != is_crowded {
            // ORDERING: no pairing: see `Pool::is_crowded`.
            pool.is_crowded.store(is_crowded, Ordering::Relaxed);
        }
    }
}
