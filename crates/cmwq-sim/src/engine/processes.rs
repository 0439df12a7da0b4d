//! Items that stand for a process while they wait for it.
//!
//! The worker's own thread plays the process: the worker sleeps meanwhile, and the process has the
//! CPUs of the worker that started it.

use cmwq_core::consts::MANY_SOON_PROCESSES;
use cmwq_core::detect::By;
use cmwq_core::detect::evidence::{self, Seen, Senses, Switch, Used};

use cmwq_core::detect::tick::TICK_SHORTEST_FOR_PROCESSES_NS;
use cmwq_core::{Finding, Found, Kick, LockFor};

use super::detecting::Report;
use super::{Due, Engine, Mode};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
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
        let (home, id, seq, now) = (thread.home, thread.id, thread.seq, self.now);
        let mut was_standing = false;
        if let Mode::Item(run) = &mut thread.mode {
            was_standing = std::mem::replace(&mut run.stands_for_process, runs);
        }
        if !runs {
            if thread.process_since.take().is_some() {
                self.note(What::ProcessWaited(home, None));
            }
        } else if !was_standing {
            thread.process_since = Some(now);
        }
        // The worker reports that it waits, as one that blocks.
        self.helping.occasions += u64::from(runs);
        let core = self.pools.list[home].lock(LockFor::Decide);
        core.worker_stands_for_process(id, seq, runs, now);
        let kick = if runs { core.worker_waits(id, seq) } else { Kick::None };
        self.kick(home, kick);
    }

    /// The worker is blocked, and its pool did not know that.
    pub(super) fn process_waited(&mut self, tid: Tid) {
        let home = self.threads[tid].home;
        if self.is_process(tid)
            && let Some(since) = self.threads[tid].process_since.take()
        {
            self.note(What::ProcessWaited(home, Some(self.now - since)));
        }
    }

    /// The process of the report's worker waits. Whether a CPU idles, and the pool takes that as
    /// enough, so that nobody looks: then the next tick finds the worker. `leaving`: see
    /// [`cpu_idles`](Self::cpu_idles).
    pub(super) fn begins_unseen(&mut self, report: Report, leaving: u32) -> bool {
        let Report { pool, finding: Finding { id, seq, found, .. } } = report;
        let waits =
            found == Found::Blocked && self.pools.list[pool].read().stands_for_process(id, seq);
        if !waits || !self.cpu_idles(pool, leaving) || !self.begins_on_alarm(pool) {
            return false;
        }
        self.pools.list[pool].has_unseen = true;
        let at = self.now + TICK_SHORTEST_FOR_PROCESSES_NS;
        self.agenda.add(at, Rank::Wake, Due::LateReport(report));
        true
    }

    /// A worker leaves its CPU although work waits, or work has come. If there are workers at whom
    /// nobody has looked, a sentinel may have the CPU next.
    pub(super) fn cpu_may_idle(&mut self, pool: PoolNo) {
        if self.pools.list[pool].has_unseen {
            self.agenda.add(self.now, Rank::Wake, Due::Alarm(pool));
        }
    }

    /// If a CPU idles, the sentinel there says so: another item begins, or all are looked at.
    pub(super) fn alarm_if_unseen(&mut self, pool: PoolNo) {
        let has_unseen = self.pools.list[pool].has_unseen;
        if has_unseen && self.cpu_idles(pool, 0) && !self.begins_on_alarm(pool) {
            self.pools.list[pool].has_unseen = false;
            self.look(pool);
        }
    }

    /// A sentinel wakes the standby: whether it begins an item.
    fn begins_on_alarm(&mut self, pool: PoolNo) -> bool {
        if !self.pools.list[pool].is_watched {
            return false;
        }
        let believes = self.config.sabotage == Some(Sabotage::BelieveProcesses);
        let now = self.now;
        let core = self.pools.list[pool].lock(LockFor::Decide);
        if believes {
            (0..MANY_SOON_PROCESSES).for_each(|_| core.process_waited(Some(0)));
        }
        let Some(standby) = core.standby().filter(|&standby| core.begins_on_alarm(standby, || now))
        else {
            return false;
        };
        self.note(What::BeginsOnAlarm(pool));
        self.unpark_worker(pool, standby);
        true
    }

    /// Whether fewer workers have a CPU, or are on the way to one, than may, without so many that
    /// are about to leave one.
    fn cpu_idles(&self, pool: PoolNo, leaving: u32) -> bool {
        let gauge = &self.gauges[pool];
        gauge.computing + gauge.waking + gauge.transit < gauge.concurrency.saturating_add(leaving)
    }

    /// The tick looks at the worker, if it is blocked still.
    pub(super) fn look_at_blocked(&mut self, report: Report) {
        let Report { pool, finding } = report;
        let tid = self.pools.list[pool].thread(finding.id);
        let is_in_run = |&tid: &Tid| self.threads[tid].seq == finding.seq;
        if let Some(tid) = tid.filter(is_in_run)
            && self.is_process(tid)
            && !self.process_runs(tid)
        {
            self.report_look(pool, &mut [finding]);
        }
    }

    /// Whether the thread plays a process.
    pub(super) fn is_process(&self, tid: Tid) -> bool {
        matches!(self.threads[tid].mode, Mode::Item(run) if run.stands_for_process)
    }

    /// What a look at the worker and its process tells.
    pub(super) fn look_at_process(&self, tid: Tid) -> Seen {
        evidence::state_for(&mut Waiter, By::Tick, || Some(self.process_runs(tid)))
    }

    /// Whether the process, or the worker that waits for it, is back.
    pub(super) fn process_is_back(&self, tid: Tid) -> bool {
        evidence::is_back_for(&mut Waiter, || Some(self.process_runs(tid)))
    }

    pub(super) fn process_runs(&self, tid: Tid) -> bool {
        self.machine.threads[tid].state != State::Off
    }
}
