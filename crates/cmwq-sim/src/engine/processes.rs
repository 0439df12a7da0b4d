//! Items that stand for a process while they wait for it.
//!
//! The worker's own thread plays the process: the worker sleeps meanwhile, and the process has the
//! CPUs of the worker that started it.

use cmwq_core::Kick;
use cmwq_core::detect::By;
use cmwq_core::detect::evidence::{self, Seen, Senses, Switch, Used};

use super::{Engine, Mode};
use crate::machine::{State, Tid};

/// The worker's thread, as a look finds it while the process runs or waits.
struct Waiter;

impl Senses for Waiter {
    fn switched(&mut self) -> Option<Switch> {
        None
    }

    fn used(&mut self) -> Option<Used> {
        Some(Used::Nothing)
    }

    fn is_blocked(&mut self) -> Option<bool> {
        Some(true)
    }

    fn stood_still(&mut self) -> u32 {
        0
    }
}

impl Engine<'_> {
    /// The item that the thread runs begins (`runs`) or ends to stand for a process, which it waits
    /// for. Rescuers and BH contexts stand for none.
    pub(super) fn process(&mut self, tid: Tid, runs: bool) {
        let thread = &mut self.threads[tid];
        if !thread.is_worker() {
            return;
        }
        let (home, id, seq) = (thread.home, thread.id, thread.seq);
        if let Mode::Item(run) = &mut thread.mode {
            run.stands_for_process = runs;
        }
        // The worker reports that it waits, as one that blocks.
        self.helping.occasions += u64::from(runs);
        let core = self.pools.list[home].lock_unlisted();
        core.worker_stands_for_process(id, seq, runs);
        let kick = if runs { core.worker_waits(id, seq) } else { Kick::None };
        self.kick(home, kick);
    }

    /// Whether the thread plays a process.
    pub(super) fn is_process(&self, tid: Tid) -> bool {
        matches!(self.threads[tid].mode, Mode::Item(run) if run.stands_for_process)
    }

    /// What a look at the worker and its process tells.
    pub(super) fn look_at_process(&self, tid: Tid) -> Seen {
        evidence::look_for(&mut Waiter, By::Tick, || Some(self.process_runs(tid)))
    }

    /// Whether the process, or the worker that waits for it, is back.
    pub(super) fn process_is_back(&self, tid: Tid) -> bool {
        evidence::is_back_for(&mut Waiter, || Some(self.process_runs(tid)))
    }

    fn process_runs(&self, tid: Tid) -> bool {
        self.machine.threads[tid].state != State::Off
    }
}
