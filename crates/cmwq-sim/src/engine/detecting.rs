//! How the pool learns that workers block and come back: reports, which may be late, lost or wrong,
//! and the tick, which looks for itself.

use std::mem;

use cmwq_core::detect::evidence::{self, Seen, Senses, Switch, Used};
use cmwq_core::detect::hogs::Evidence;
use cmwq_core::detect::judge::{self, Look};
use cmwq_core::detect::tick::TickFound;
use cmwq_core::detect::{By, Quiet, Tick, TickRole};
use cmwq_core::help;
use cmwq_core::place::Cpus;
use cmwq_core::{Finding, Found, Kick, LockFor, WorkerId};

use super::{Due, Engine, Mode, Run, Thread};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::machine::{State, Tid};
use crate::plan::{ItemId, Sighting};

/// A report about a worker's run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(super) pool: PoolNo,
    pub(super) finding: Finding,
}

/// The tick of a run: one for all pools, as the runtime has one service thread.
#[derive(Debug)]
pub(super) struct Ticking {
    tick: Tick,
    /// When it comes next.
    at: Nanos,
    /// The pools that the tick looks at, and for how long each has not been watched.
    pools: Vec<(PoolNo, Quiet)>,
}

impl Ticking {
    pub(super) const fn new(role: TickRole) -> Self {
        Self { tick: Tick::new(role), at: 0, pools: Vec::new() }
    }
}

/// A thread's CPU time when the tick looked at it last, and the time of that look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    used: Nanos,
    at: Nanos,
}

/// See [`Engine::view`]. There are no switch records here, and states can always be read.
struct View<'a> {
    used: Nanos,
    now: Nanos,
    is_blocked: bool,
    looked: &'a mut Looked,
}

impl Senses for View<'_> {
    fn switched(&mut self) -> Option<Switch> {
        None
    }

    fn used(&mut self) -> Option<Used> {
        let before = mem::replace(self.looked, Looked { used: self.used, at: self.now });
        Some(Used::of(self.used - before.used, self.now - before.at))
    }

    fn is_blocked(&mut self) -> Option<bool> {
        Some(self.is_blocked)
    }

    fn stood_still(&mut self) -> u32 {
        0
    }
}

/// A worker, while it is looked at.
struct Suspected<'a, 'p> {
    engine: &'a mut Engine<'p>,
    tid: Tid,
    is_process: bool,
}

impl judge::Suspect for Suspected<'_, '_> {
    fn is_back(&mut self) -> bool {
        match self.is_process {
            true => self.engine.process_is_back(self.tid),
            false => evidence::is_back(&mut self.engine.view(self.tid)),
        }
    }

    fn state(&mut self) -> Seen {
        let seen = match self.is_process {
            true => self.engine.look_at_process(self.tid),
            false => evidence::state(&mut self.engine.view(self.tid), By::Tick),
        };
        if seen == Seen::Blocked {
            self.engine.threads[self.tid].hog.slept();
        }
        seen
    }

    /// What a process computes is not its worker's time.
    fn hogs(&mut self) -> bool {
        !self.is_process && self.engine.hogs(self.tid)
    }
}

impl Engine<'_> {
    /// The thread blocks in the function of an item. `announced`: the item itself reports it.
    pub(super) fn report_blocked(&mut self, tid: Tid, announced: bool) {
        if self.is_watched(tid, announced) && (announced || self.may_be_seen(tid)) {
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

    /// Whether reports about the thread are made.
    fn is_watched(&self, tid: Tid, announced: bool) -> bool {
        let is_seen = announced || (self.threads[tid].is_worker() && self.is_looked_at(tid));
        is_seen && self.config.sabotage != Some(Sabotage::NoReports)
    }

    /// Whether anybody looks at the workers of the thread's pool.
    fn may_be_seen(&self, tid: Tid) -> bool {
        let pool = self.pools.list.get(self.threads[tid].home);
        !self.config.detect.is_watched_only || pool.is_some_and(|pool| pool.is_watched)
    }

    /// Detectors only look at workers that count as running, and at hogs of managed pools: not at
    /// those of CPU-intensive items.
    pub(super) fn is_looked_at(&self, tid: Tid) -> bool {
        let is_hog = matches!(self.threads[tid].mode, Mode::Item(run) if run.is_hog);
        self.counts(tid) || (is_hog && self.is_managed(tid))
    }

    /// Whether the worker counts as running while it computes in its item.
    pub(super) fn counts(&self, tid: Tid) -> bool {
        let Thread { mode: Mode::Item(run), visit, .. } = &self.threads[tid] else { return true };
        !run.is_hog && (!run.is_intensive || visit.is_some())
    }

    /// A worker is counted by its own pool, wherever it works.
    fn report_on(&self, tid: Tid, is_blocked: bool) -> Report {
        let thread = &self.threads[tid];
        let finding = Finding::new(thread.id, thread.seq, Found::of(is_blocked));
        Report { pool: thread.home, finding }
    }

    fn report(&mut self, report: Report, announced: bool, latency: Nanos) {
        if announced {
            let Report { pool, finding } = report;
            if finding.is_back() {
                let core = self.pools.list[pool].lock(LockFor::Counts);
                let kick = core.worker_resumed(finding.id, finding.seq);
                if kick != Kick::None {
                    self.kick(pool, kick);
                }
                self.post(pool);
                self.check_core(pool);
                self.may_count(pool, finding.id);
            } else {
                self.deliver(report);
            }
            return;
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

    /// Sometimes makes an untrue report about a run.
    pub(super) fn maybe_spurious(&mut self, tid: Tid, is_blocked: bool) {
        let faults = &self.config.faults;
        if self.rng.chance(faults.spurious) {
            let at = self.now + self.rng.below(faults.late_by.max(1));
            self.agenda.add(at, Rank::Wake, Due::Report(self.report_on(tid, is_blocked)));
        }
    }

    pub(super) fn deliver(&mut self, report: Report) {
        // Where it is known at once that it blocks, the worker has its CPU still.
        let worker = self.pools.list[report.pool].thread(report.finding.id);
        let leaving = worker.map_or(0, |tid| u32::from(self.process_runs(tid)));
        if !self.begins_unseen(report, leaving) {
            self.report_look(report.pool, &mut [report.finding]);
            self.cpu_may_idle(report.pool);
        }
    }

    /// Tells the core what a look has found. `true`: a worker was woken because of that.
    pub(super) fn report_look(&mut self, pool: PoolNo, findings: &mut [Finding]) -> bool {
        let now = self.now;
        let room = self.pools.list[pool].lock(LockFor::Decide).report_look(findings, None, || now);
        self.check_pool(pool);
        let hogs = findings.iter().filter(|one| one.found == Found::Hog && one.is_news);
        hogs.for_each(|hog| self.is_hog(pool, hog.id));
        let kick = room.map_or(Kick::None, |kick| self.replace_blocked(pool, kick));
        let it = &self.pools.list[pool];
        let kick = kick.or(it.read().watch_when_full(it.is_watched));
        self.kick(pool, kick);
        for &Finding { id, seq, found, is_news, is_unbound, .. } in findings.iter() {
            let Some(tid) = self.pools.list[pool].thread(id) else { continue };
            match found {
                Found::Back => self.may_count(pool, id),
                Found::Blocked => {
                    if is_news {
                        self.process_waited(tid);
                    }
                    self.mark_blocked(tid, seq);
                    self.unbind(tid, seq, is_unbound);
                    if let Some(visit) = self.threads[tid].visit.filter(|_| is_news) {
                        self.helper_blocked(visit.host);
                    }
                }
                Found::Hog => self.unbind(tid, seq, is_unbound),
            }
        }
        matches!(kick, Kick::Wake(_))
    }

    /// Lets a worker of a managed pool that is blocked, or a hog, leave its pod if the core says
    /// so.
    fn unbind(&mut self, tid: Tid, seq: u64, is_unbound: bool) {
        let pool = &self.pools.list[self.threads[tid].home];
        if is_unbound {
            let belonging = pool.kind.belonging(&self.machine);
            self.machine.set_place(tid, pool.kind.which(belonging.unbound, &self.machine));
        } else if self.is_left_bound(tid, seq) {
            // Items do not compute after their waits here: the worker may well wait for its CPU.
            self.machine.set_movable(tid, false);
        }
    }

    /// Whether the pool knows that the worker of a managed pool is blocked in run `seq`, and wants
    /// it to wake up in its pod.
    pub(super) fn is_left_bound(&self, tid: Tid, seq: u64) -> bool {
        let Thread { home, id, .. } = self.threads[tid];
        let core = self.pools.list[home].read();
        core.config().unbinds && core.is_blocked(id, seq) && !self.is_unbound(tid)
    }

    // ---- reports as a plan has them

    /// Remembers the run of an item, for reports of the plan.
    pub(super) fn remember_run(&mut self, item: ItemId, tid: Tid) {
        if self.is_told_reports {
            self.last_runs.insert(item, self.report_on(tid, true));
        }
    }

    pub(super) fn report_as_told(&mut self, one: Sighting, other: Option<Sighting>) {
        let run = |Sighting { item, is_blocked }| {
            let mut report = *self.last_runs.get(&item)?;
            report.finding.found = Found::of(is_blocked);
            Some(report)
        };
        let found: Vec<_> = [one].into_iter().chain(other).filter_map(run).collect();
        // A look is at one pool.
        let Some(&Report { pool, .. }) = found.first() else { return };
        let of_pool = found.iter().filter(|report| report.pool == pool);
        self.report_look(pool, &mut of_pool.map(|report| report.finding).collect::<Vec<_>>());
    }

    pub(super) fn count_running(&mut self) {
        for pool in 0..self.pools.list.len() {
            self.note(What::Counted(pool, self.pools.list[pool].read().nr_running()));
            let sets: Vec<_> = self.pools.sets(pool).collect();
            sets.into_iter().for_each(|set| self.note(What::OnBoard(pool, set)));
        }
    }

    // ---- the tick

    /// Work waits at capacity: from now on a running worker that blocks must be noticed.
    pub(super) fn watch(&mut self, pool: PoolNo) {
        if let Some(context) = self.pools.list[pool].context {
            return self.raise(pool, context);
        }
        if !std::mem::replace(&mut self.pools.list[pool].is_watched, true) {
            self.forget_short_items(pool);
            self.update_pool(pool);
            self.cpu_may_idle(pool);
            if self.config.detect.is_watched_only {
                self.find_blocked(pool);
            }
        }
        let entry = &mut self.pools.list[pool];
        if let Some(ticking) = &mut self.ticking
            && !entry.is_ticking
            && self.config.sabotage != Some(Sabotage::NoReports)
        {
            entry.is_ticking = true;
            ticking.pools.push((pool, Quiet::default()));
            if ticking.pools.len() == 1 {
                ticking.at = self.now + ticking.tick.begin();
                self.agenda.add(ticking.at, Rank::Wake, Due::Tick);
            }
        }
        if self.asks_board(pool, help::asks) {
            self.ask_for_help(pool);
        }
    }

    /// The pool begins to be watched: whoever blocked unseen is found now.
    fn find_blocked(&mut self, pool: PoolNo) {
        let threads: Vec<Tid> = self.pools.list[pool].threads().collect();
        for tid in threads {
            let is_off = self.machine.threads[tid].state == State::Off;
            let sleeps = |run: Run| run.has_slept && !run.is_announced;
            if is_off && matches!(self.threads[tid].mode, Mode::Item(run) if sleeps(run)) {
                self.report_blocked(tid, false);
            }
        }
    }

    /// Detection relies on the tick: it comes after its first interval at the latest.
    pub(super) fn tick_soon(&mut self) {
        let Some(ticking) = self.ticking.as_mut().filter(|it| !it.pools.is_empty()) else { return };
        let at = self.now + ticking.tick.begin();
        if at < ticking.at {
            ticking.at = at;
            self.agenda.add(at, Rank::Wake, Due::Tick);
        }
    }

    /// Looks at the workers of all pools where work waits, or did lately.
    pub(super) fn tick(&mut self) {
        // A tick that was put forward has come already.
        if self.ticking.as_ref().is_none_or(|ticking| ticking.at != self.now) {
            return;
        }
        let listed = self.ticking.iter().flat_map(|ticking| &ticking.pools);
        let listed: Vec<PoolNo> = listed.map(|&(pool, _)| pool).collect();
        let mut found = TickFound::default();
        self.nr_ticks = self.nr_ticks.wrapping_add(1);
        for pool in listed {
            found |= self.tick_pool(pool);
        }
        let Some(ticking) = &mut self.ticking else { return };
        let pools = &mut self.pools.list;
        ticking.pools.retain_mut(|(pool, quiet)| {
            let entry = &mut pools[*pool];
            entry.is_ticking = quiet.stays(entry.is_watched);
            entry.is_ticking
        });
        let interval = ticking.tick.after(found);
        if !ticking.pools.is_empty() {
            ticking.at = self.now + interval;
            self.agenda.add(ticking.at, Rank::Wake, Due::Tick);
        }
    }

    fn tick_pool(&mut self, pool: PoolNo) -> TickFound {
        if !self.pools.list[pool].is_watched {
            return TickFound::default();
        }
        self.detect_short_items(pool);
        let _ = self.pools.list[pool].lock(LockFor::Decide);
        if !self.has_to_watch(pool) {
            self.pools.list[pool].is_watched = false;
            self.check_pool(pool);
            return TickFound::default();
        }
        self.check_pool(pool);
        self.helping.occasions += 1;
        let kick = self.pools.list[pool].lock(LockFor::Decide).tick();
        if let Kick::Wake(_) = kick {
            self.note(What::BeginsAnother(pool));
        }
        self.kick(pool, kick);
        let found = self.look(pool);
        if self.asks_board(pool, help::wants_help) {
            self.ask_for_help(pool);
            self.watch_other_pods(pool);
        }
        found
    }

    /// Looks at the pool's workers, and tells the core: some may be blocked that it thought
    /// running, or hog the CPU, and others start in their place.
    pub(super) fn look(&mut self, pool: PoolNo) -> TickFound {
        let core = self.pools.list[pool].lock(LockFor::Decide);
        let mut views = Vec::new();
        let has_processes = core.suspects(|view| views.push(view));
        let it = &self.pools.list[pool];
        let mut look = Look::begin(it.read().room_for_new_hogs(it.has_short_items));
        self.check_pool(pool);
        let mut findings = Vec::new();
        for view in views {
            let Some(tid) = self.pools.list[pool].thread(view.id) else { continue };
            let is_in_run = self.threads[tid].seq == view.seq;
            if !matches!(self.threads[tid].mode, Mode::Item(_)) || !is_in_run {
                continue;
            }
            let is_process = self.is_process(tid);
            let mut finding = Look::expects(&view);
            let mut suspect = Suspected { engine: self, tid, is_process };
            if look.judge(&mut finding, view.hog, &mut suspect) {
                findings.push(finding);
            }
        }
        let has_woken = !findings.is_empty() && self.report_look(pool, &mut findings);
        if self.config.sabotage == Some(Sabotage::LookLeavesBound) {
            self.bind_again(pool, &findings);
        }
        TickFound { has_woken, has_processes }
    }

    /// The mistake: who was let go wakes up in its pod.
    fn bind_again(&mut self, pool: PoolNo, found: &[Finding]) {
        let pool = &self.pools.list[pool];
        for tid in found.iter().filter(|one| one.is_unbound).filter_map(|one| pool.thread(one.id)) {
            self.machine.set_place(tid, pool.kind.place());
        }
    }

    /// A look at the thread from outside.
    fn view(&mut self, tid: Tid) -> View<'_> {
        let used = self.machine.used(tid, self.now);
        let is_blocked = self.machine.threads[tid].state == State::Off;
        View { used, now: self.now, is_blocked, looked: &mut self.threads[tid].looked }
    }

    /// Whether the thread has used the CPU for long without a sleep.
    fn hogs(&mut self, tid: Tid) -> bool {
        let (cpu, seq) = (self.machine.used(tid, self.now), self.threads[tid].seq);
        let seen = Evidence { seq, cpu, now: self.now };
        if self.config.sabotage == Some(Sabotage::NeverYield) {
            return false;
        }
        let (thresh, sleeps) = (self.config.hog_thresh, self.machine.threads[tid].nr_sleeps);
        thresh != 0 && self.threads[tid].hog.judge(seen, thresh, || Some(sleeps))
    }

    /// A worker hogs its CPU: the pool that it helps is told, too.
    fn is_hog(&mut self, pool: PoolNo, id: WorkerId) {
        let Some(tid) = self.pools.list[pool].thread(id) else { return };
        if let Some(visit) = self.threads[tid].visit {
            let _ = self.pools.list[visit.host].lock(LockFor::Counts).guest_cpu_intensive(visit.id);
        }
        if let Mode::Item(run) = &mut self.threads[tid].mode {
            run.is_hog = true;
        }
        if self.is_managed(tid) && self.may_wake_elsewhere(tid) {
            self.machine.set_movable(tid, true);
        }
        self.regauge(tid);
    }

    /// Whether the worker, of a managed pool, may wake up on other CPUs: not if its own is set
    /// apart.
    pub(super) fn may_wake_elsewhere(&self, tid: Tid) -> bool {
        let home = &self.pools.list[self.threads[tid].home];
        home.kind.belonging(&self.machine).unbound == Cpus::Managed
    }

    /// A worker is back. If it was a hog, it counts now unless there was room for another one.
    fn may_count(&mut self, pool: PoolNo, id: WorkerId) {
        let Some(tid) = self.pools.list[pool].thread(id) else { return };
        let is_hog = self.pools.list[pool].read().worker_view(id).is_some_and(|view| view.hog);
        if let Mode::Item(run) = &mut self.threads[tid].mode
            && run.is_hog
        {
            run.is_hog = is_hog;
            self.regauge(tid);
        }
    }
}
