//! Detection: which workers a look is about, what it has found, and who is woken for it.
//!
//! A look finds several workers at once: some are back from their waits, others are blocked or hog
//! the CPU. First those are reported that are back: a worker that is back has the CPU that another
//! one leaves. Then one worker is woken for all that have left a CPU. It takes an item, and what
//! it claims wakes the next worker if more may run.
//!
//! KERNEL: no twin. There each worker reports for itself, as it goes to sleep.

use core::borrow::BorrowMut;

use super::{Kick, PoolState, Rule};
use crate::ids::{Nanos, WorkerId, WqKey};
use crate::work::WorkFn;
use crate::worker::{Worker, WorkerView};

/// Workers believed blocked that one look checks, to see whether they are back.
const SLEEPERS_PER_LOOK: usize = 8;

/// What a worker is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was believed blocked, and runs.
    Back,
    /// It was believed to run, and is blocked.
    Blocked,
    /// It runs, and has used the CPU for long.
    Hog,
}

/// What was found of a worker, and what its pool makes of that.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// Which worker.
    pub id: WorkerId,
    /// The run that was looked at.
    pub seq: u64,
    /// What it is.
    pub found: Found,
    /// The pool's answer: it did not know that, and the worker is in that run still.
    pub is_news: bool,
    /// The pool's answer: the worker, which is blocked or a hog, is to be
    /// [unbound](PoolState::is_unbound).
    pub is_unbound: bool,
    /// The pool's answer: what a hog that is news runs, as [`Hog::item`](super::Hog::item).
    pub hogs: Option<(WorkFn, WqKey)>,
}

impl Found {
    /// What reports say that know only these two.
    #[must_use]
    pub const fn of(is_blocked: bool) -> Self {
        if is_blocked { Self::Blocked } else { Self::Back }
    }
}

impl Finding {
    /// Before its pool has been asked.
    #[must_use]
    pub const fn new(id: WorkerId, seq: u64, found: Found) -> Self {
        Self { id, seq, found, is_news: false, is_unbound: false, hogs: None }
    }

    /// Whether the worker is back.
    #[must_use]
    pub const fn is_back(&self) -> bool {
        matches!(self.found, Found::Back)
    }
}

impl PoolState {
    /// Calls `look` for each worker that has to be looked at: first some of those believed blocked,
    /// which may be back, then those that are believed to run, which may be blocked. A hog that is
    /// blocked makes room for another one, which matters only in managed pools.
    ///
    /// A guest is looked at in its own pool. Workers that have waited for longest are most likely
    /// back, so the oldest eight are chosen. While a worker that is back is believed blocked, the
    /// pool takes the CPU for free, and starts others that only crowd on it.
    ///
    /// `true`: some of them wait for processes, which are dear to look at.
    ///
    /// KERNEL: no twin. There the scheduler says who sleeps and who is back.
    pub fn suspects(&self, mut look: impl FnMut(WorkerView)) -> bool {
        let mut has_processes = false;
        let mut look = |view: WorkerView| {
            has_processes |= view.stands_for_process;
            look(view);
        };
        self.assert_caught_up();
        let mut oldest = [(u64::MAX, WorkerId(0)); SLEEPERS_PER_LOOK];
        let sleeps = |worker: &Worker| worker.sleeping && !worker.guest;
        for (id, worker) in self.workers.iter().filter(|(_, worker)| sleeps(worker)) {
            let last = &mut oldest[SLEEPERS_PER_LOOK - 1];
            if worker.blocked_nr < last.0 {
                *last = (worker.blocked_nr, WorkerId(id));
                oldest.sort_unstable();
            }
        }
        let sleepers = oldest.iter().filter(|sleeper| sleeper.0 != u64::MAX);
        sleepers.filter_map(|&(_, id)| self.worker_view(id)).for_each(&mut look);
        let is_looked_at = |view: &WorkerView| {
            view.running || (self.config.is_managed() && view.hog && !view.sleeping)
        };
        self.workers().filter(is_looked_at).for_each(look);
        has_processes
    }

    /// Reports what a look has found, in whatever order, and fills in the answers. Returns which
    /// worker to wake for all of them, or that one is to be created, to be passed on to
    /// [`replace_blocked`](Self::replace_blocked); `None`: nobody has left a CPU.
    ///
    /// Whether the pool is to be watched now is asked after it
    /// ([`watch_when_full`](Self::watch_when_full)): mostly it is watched, since it was looked at.
    ///
    /// `now`: the time, read only for who stands for processes. `me`: an idle worker that looked
    /// itself. It asks for work right afterwards, so it is not woken, and nobody else comes in its
    /// place.
    pub fn report_look<F: BorrowMut<Finding>>(
        &mut self,
        findings: &mut [F],
        me: Option<WorkerId>,
        now: impl Fn() -> Nanos,
    ) -> Option<Kick> {
        let mut wake = None;
        for finding in findings.iter_mut().map(F::borrow_mut).filter(|one| one.is_back()) {
            finding.is_news = self.is_blocked(finding.id, finding.seq);
            // A driver asks `watch_when_full` after this.
            let _ = self.worker_resumed(finding.id, finding.seq);
        }
        for finding in findings.iter_mut().map(F::borrow_mut).filter(|one| !one.is_back()) {
            let kick = self.report_one(finding, &now);
            let is_own =
                me.is_some_and(|me| kick == Kick::Wake(me) || !self.keeps(Rule::LooksWakeOthers));
            if self.has_use(kick) && !is_own {
                wake = Some(wake.unwrap_or(Kick::None).or(kick));
            } else if finding.is_news && me.is_none() {
                wake = wake.or(Some(Kick::None));
            }
        }
        wake
    }

    /// Whether a look has to pass on what a report demands. The pool is watched, since it was
    /// looked at.
    fn has_use(&self, kick: Kick) -> bool {
        match kick {
            Kick::None | Kick::Watch => false,
            Kick::NeedFirst => self.keeps(Rule::LooksTellOfNeed),
            Kick::Wake(_) => true,
        }
    }

    fn report_one(&mut self, finding: &mut Finding, now: impl FnOnce() -> Nanos) -> Kick {
        let (id, seq) = (finding.id, finding.seq);
        if finding.found == Found::Hog {
            let hog = self.worker_cpu_intensive(id, seq);
            finding.is_news = hog.is_some();
            finding.is_unbound = self.is_unbound(id, seq);
            finding.hogs = hog.and_then(|hog| hog.item);
            return hog.map_or(Kick::None, |hog| hog.kick);
        }
        let before = self.nr_blocked_reports;
        let kick = self.worker_blocked(id, seq);
        finding.is_news = self.nr_blocked_reports != before;
        if finding.is_news {
            self.process_found_waiting(id, now);
        }
        finding.is_unbound = self.is_unbound(id, seq);
        kick
    }
}
