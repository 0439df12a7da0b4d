//! What pools learn of the waits of their items: only of those that were found, as in the runtime,
//! where each thread has the same marks.

use cmwq_core::{LockFor, Waited};

use super::{Engine, Mode};
use crate::Nanos;
use crate::event::What;
use crate::machine::Tid;

/// The marks of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Its CPU time when it was first found blocked in the item that it runs.
    found: Option<Nanos>,
    /// Its CPU time when the last item ended of which its pool has learned.
    ended: Nanos,
    /// How often it had slept before the item, if its pool asks whether the item waits.
    sleeps: Option<u64>,
}

impl Marks {
    /// Whether the thread was found blocked in the run that has just ended.
    pub(super) const fn was_blocked(&self) -> bool {
        self.found.is_some()
    }
}

impl Engine<'_> {
    /// The thread enters the function of an item. `is_to_wait`: see [`cmwq_core::Claim`].
    pub(super) fn mark_sleeps(&mut self, tid: Tid, is_to_wait: bool) {
        self.threads[tid].marks.sleeps = is_to_wait.then_some(self.machine.threads[tid].nr_sleeps);
    }

    /// The thread was found blocked in run `seq`, or reports that it blocks. While it stands for a
    /// process, CPU time says nothing about the item.
    pub(super) fn mark_blocked(&mut self, tid: Tid, seq: u64) {
        let thread = &mut self.threads[tid];
        let is_in_run =
            thread.seq == seq && matches!(thread.mode, Mode::Item(run) if !run.stands_for_process);
        let is_managed = self.pools.list[thread.home].read().config().is_managed();
        if is_in_run && is_managed && thread.is_worker() && thread.marks.found.is_none() {
            thread.marks.found = Some(self.machine.used(tid, self.now));
        }
    }

    /// An item has ended, or a batch: what the worker's own pool learns from it.
    pub(super) fn learn(&mut self, tid: Tid) {
        let Marks { found, ended, sleeps } = self.threads[tid].marks;
        if !self.threads[tid].is_worker() || (found.is_none() && sleeps.is_none()) {
            return;
        }
        let now = self.machine.used(tid, self.now);
        let nr_sleeps = self.machine.threads[tid].nr_sleeps;
        let waited = found.map(|found| Waited::of(ended, found, now));
        let has_slept = sleeps != Some(nr_sleeps);
        self.threads[tid].marks = Marks { ended: now, ..Marks::default() };
        let home = self.threads[tid].home;
        self.pools.list[home].lock(LockFor::Counts).learn_wait(waited, has_slept);
        match waited {
            Some(waited) => self.note(What::ToldWaited(home, waited)),
            None if has_slept => {}
            None => self.note(What::ToldNotWaited(home)),
        }
    }
}
