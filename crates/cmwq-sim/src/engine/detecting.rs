//! How the pool learns that workers block and come back: reports, which may be late, lost or wrong,
//! and the tick, which looks for itself.

use cmwq_core::WorkerId;

use super::{Due, Engine, Mode};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::PoolNo;
use crate::machine::{State, Tid};

/// What somebody saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pool: PoolNo,
    id: WorkerId,
    seq: u64,
    is_blocked: bool,
}

impl Engine<'_> {
    /// The thread blocks in the function of an item. `announced`: it says so itself.
    pub(super) fn report_blocked(&mut self, tid: Tid, announced: bool) {
        if self.is_watched(tid, announced) {
            self.report(self.report_on(tid, true), announced, self.config.detect.blocked);
            self.maybe_spurious(tid, false);
        }
    }

    /// The thread has a CPU again.
    pub(super) fn report_resumed(&mut self, tid: Tid, announced: bool) {
        if self.is_watched(tid, announced) {
            self.report(self.report_on(tid, false), announced, self.config.detect.resumed);
        }
    }

    /// Whether anybody learns what the thread does. Rescuers do not count, so nobody watches them.
    fn is_watched(&self, tid: Tid, announced: bool) -> bool {
        let is_seen = announced || !self.threads[tid].is_rescuer;
        is_seen && self.config.sabotage != Some(Sabotage::NoReports)
    }

    /// A worker is counted by its own pool, wherever it works.
    fn report_on(&self, tid: Tid, is_blocked: bool) -> Report {
        let thread = &self.threads[tid];
        Report { pool: thread.home, id: thread.id, seq: thread.seq, is_blocked }
    }

    fn report(&mut self, report: Report, announced: bool, latency: Nanos) {
        if announced {
            return self.deliver(report);
        }
        let faults = &self.config.faults;
        if self.rng.chance(faults.lost) {
            return;
        }
        let mut latency = latency;
        if self.rng.chance(faults.late) {
            latency += self.rng.below(faults.late_by);
        }
        if self.rng.chance(faults.duplicate) {
            let again = self.now + latency + self.rng.below(faults.late_by);
            self.agenda.add(again, Rank::Wake, Due::Report(report));
        }
        match latency {
            0 => self.deliver(report),
            _ => self.agenda.add(self.now + latency, Rank::Wake, Due::Report(report)),
        }
    }

    /// Sometimes something untrue is reported of a run.
    pub(super) fn maybe_spurious(&mut self, tid: Tid, is_blocked: bool) {
        let faults = &self.config.faults;
        if self.rng.chance(faults.spurious) {
            let at = self.now + self.rng.below(faults.late_by.max(1));
            self.agenda.add(at, Rank::Wake, Due::Report(self.report_on(tid, is_blocked)));
        }
    }

    pub(super) fn deliver(&mut self, report: Report) {
        let core = &mut self.pools.list[report.pool].core;
        if report.is_blocked {
            let kick = core.worker_blocked(report.id, report.seq);
            self.kick(report.pool, kick);
        } else {
            core.worker_resumed(report.id, report.seq);
            self.check_pool(report.pool);
        }
    }

    // ---- the tick

    /// Work waits at capacity: somebody must notice when a running worker blocks.
    pub(super) fn watch(&mut self, pool: PoolNo) {
        let entry = &mut self.pools.list[pool];
        entry.is_watched = true;
        if let Some(tick) = self.config.detect.tick
            && entry.tick.is_none()
            && self.config.sabotage != Some(Sabotage::NoReports)
        {
            entry.tick = Some(tick.first);
            self.agenda.add(self.now + tick.first, Rank::Wake, Due::Tick(pool));
        }
        self.ask_idle_pods(pool);
    }

    /// Looks at the pool's workers, while work waits.
    pub(super) fn tick(&mut self, pool: PoolNo) {
        let Some(tick) = self.config.detect.tick else { return };
        let entry = &mut self.pools.list[pool];
        let work_waits = entry.is_watched && entry.core.work_waits();
        if !work_waits && entry.nr_lent == 0 {
            entry.is_watched = false;
            entry.tick = None;
            return;
        }
        let found = self.look(pool);
        self.ask_idle_pods(pool);
        let entry = &mut self.pools.list[pool];
        let longer = entry.tick.unwrap_or(tick.first) * 3 / 2;
        let interval = if found { tick.first } else { longer.min(tick.longest) };
        entry.tick = Some(interval);
        self.agenda.add(self.now + interval, Rank::Wake, Due::Tick(pool));
    }

    /// Tells the core the truth about its workers. `true`: some were blocked that it thought
    /// running.
    fn look(&mut self, pool: PoolNo) -> bool {
        let core = &self.pools.list[pool].core;
        let views: Vec<_> = core.workers().filter(|view| view.running || view.sleeping).collect();
        let mut found = false;
        for view in views {
            let Some(tid) = self.pools.list[pool].thread(view.id) else { continue };
            let in_run = matches!(self.threads[tid].mode, Mode::Item(_))
                && self.threads[tid].seq == view.seq;
            let is_blocked = self.machine.threads[tid].state == State::Off;
            if in_run && is_blocked == view.running {
                found |= is_blocked;
                self.deliver(Report { pool, id: view.id, seq: view.seq, is_blocked });
            }
        }
        found
    }
}
