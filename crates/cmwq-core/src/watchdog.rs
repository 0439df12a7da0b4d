//! The stall watchdog's decisions: what has stalled, when to report it, and when to panic.
//!
//! A driver looks at intervals at each pool and queue where work waits, and reports how much
//! progress it has made so far ([`PoolState::progress`](crate::PoolState::progress)), as a count.
//! Starting an item reads no clock: a pool with the same count at two looks made no progress in
//! between. So a stall is found a quarter of the threshold late, or two quarters if it began just
//! after a look.
//!
//! Between two looks at most one interval of time counts: a watchdog that was stopped, or kept from
//! the CPU, has not seen what happened meanwhile. After a pause of a whole threshold all measures
//! begin anew.
//!
//! KERNEL: `wq_watchdog_timer_fn`, `panic_on_wq_watchdog`.
//!
//! Why: docs/decisions/watchdog-counts.md

use alloc::collections::BTreeMap;
use core::mem;

use crate::ids::Nanos;

mod circles;

pub use circles::{ItemWait, WaitFor, circles};

/// The threshold unless another one is asked for: 30 s. KERNEL: `wq_watchdog_thresh` — same.
pub const WATCHDOG_THRESH_NS: Nanos = 30_000_000_000;
/// Looks per threshold.
const PARTS: Nanos = 4;

/// Where work waits, by `K`, and since when there has been no progress.
#[derive(Clone, Debug)]
pub struct Watchdog<K> {
    thresh: Nanos,
    /// Time that counts.
    time: Nanos,
    /// When the last look was, unless nothing waited then.
    looked_at: Option<Nanos>,
    /// Numbers the looks.
    look: u64,
    suspects: BTreeMap<K, Suspect>,
    /// The longest stall of this look.
    longest: Nanos,
    /// Looks that had something to report.
    nr_reports: u32,
    /// Another look follows.
    is_to_look: bool,
    /// When this look began, and the one before.
    began: Nanos,
    began_before: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    progress: u64,
    since: Nanos,
    reported: Nanos,
    /// The look that saw it last.
    look: u64,
}

/// When stalls end the process. 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PanicPolicy {
    /// At the look that is so many-th to report a stall. KERNEL: `panic_on_stall` — same.
    pub on_stall: u32,
    /// When a stall has lasted so long. KERNEL: `panic_on_stall_time` — same.
    pub on_stall_time: Nanos,
}

/// What follows from a look.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// When to look again; `None`: nothing waits.
    pub next: Option<Nanos>,
    /// The policy says that the process ends.
    pub has_to_panic: bool,
}

impl<K: Ord + Copy> Watchdog<K> {
    /// A watchdog that reports stalls of `thresh`, which must not be 0.
    #[must_use]
    pub const fn new(thresh: Nanos) -> Self {
        Self {
            thresh,
            time: 0,
            looked_at: None,
            look: 0,
            suspects: BTreeMap::new(),
            longest: 0,
            nr_reports: 0,
            is_to_look: false,
            began: 0,
            began_before: 0,
        }
    }

    /// The threshold.
    #[must_use]
    pub const fn thresh(&self) -> Nanos {
        self.thresh
    }

    /// Changes the threshold; everything begins anew.
    pub fn set_thresh(&mut self, thresh: Nanos) {
        self.thresh = thresh;
        self.suspects.clear();
        self.looked_at = None;
    }

    /// How long after work began to wait, or after a look, the next look is due.
    #[must_use]
    pub const fn interval(thresh: Nanos) -> Nanos {
        let part = thresh / PARTS;
        if part == 0 { 1 } else { part }
    }

    /// Whether a touch at `now` is to be noted for all, who were last touched at `touched`. Not
    /// each time: it may come often, and on many CPUs.
    #[must_use]
    pub const fn notes_touch(thresh: Nanos, touched: Nanos, now: Nanos) -> bool {
        now.saturating_sub(touched) > Self::interval(thresh) / PARTS
    }

    /// A look begins, at `now`.
    pub fn begin(&mut self, now: Nanos) {
        let passed = self.looked_at.map_or(0, |then| now.saturating_sub(then));
        let interval = Self::interval(self.thresh);
        if passed.saturating_sub(interval) > self.thresh {
            self.suspects.clear();
        }
        self.time += passed.min(interval);
        self.looked_at = Some(now);
        self.began_before = mem::replace(&mut self.began, now);
        self.look += 1;
        self.longest = 0;
        self.is_to_look = false;
    }

    /// At this look items can begin to wait somewhere without a word to the watchdog
    /// ([`Reading::takes_unseen`](crate::Reading::takes_unseen)): another look follows in any case.
    pub const fn keep_looking(&mut self) {
        self.is_to_look = true;
    }

    /// Whether the watchdog was touched since the last look began, so that what it looks at is
    /// excused. `nr_cpus`: of a pool, how many CPUs its workers may use; of anything else, 0.
    /// `on_first`: when it was touched on account of the first of these; `on_any`: on any account.
    /// For a pool with one CPU other CPUs do not count.
    ///
    /// KERNEL: `wq_watchdog_timer_fn` — same, for per-CPU pools.
    #[must_use]
    pub const fn excuses(&self, nr_cpus: u32, on_first: Nanos, on_any: Nanos) -> bool {
        let touched = if nr_cpus == 1 { on_first } else { on_any };
        touched > self.began_before
    }

    /// A queue has items that wait for a slot: as [`see`](Self::see). Nothing starts in one that is
    /// frozen, and that is meant; its measure begins when it is thawed.
    #[must_use]
    pub fn see_queue(
        &mut self,
        key: K,
        is_frozen: bool,
        progress: impl FnOnce() -> u64,
        excused: bool,
    ) -> Option<Nanos> {
        if is_frozen { None } else { self.see(key, progress(), excused) }
    }

    /// Items wait for each other in the circle `key`, which is known by the first of their waits:
    /// as [`see`](Self::see). Nothing of it makes progress.
    #[must_use]
    pub fn see_circle(&mut self, key: K, excused: bool) -> Option<Nanos> {
        self.see(key, 0, excused)
    }

    /// Work waits in `key`, whose progress so far is `progress`. `excused`: see
    /// [`excuses`](Self::excuses). `Some(time)`: there has been no progress for `time`, which is to
    /// be reported now; once per threshold. What has got the name of something that has gone is to
    /// have another key.
    #[must_use]
    pub fn see(&mut self, key: K, progress: u64, excused: bool) -> Option<Nanos> {
        let (time, look) = (self.time, self.look);
        let fresh = Suspect { progress, since: time, reported: time, look };
        let suspect = self.suspects.entry(key).or_insert(fresh);
        if suspect.progress != progress || excused {
            *suspect = fresh;
        }
        suspect.look = look;
        if time - suspect.reported < self.thresh {
            return None;
        }
        suspect.reported = time;
        let stalled = time - suspect.since;
        self.longest = self.longest.max(stalled);
        Some(stalled)
    }

    /// The look is over.
    pub fn end(&mut self, policy: PanicPolicy) -> Looked {
        let look = self.look;
        self.suspects.retain(|_, suspect| suspect.look == look);
        let has_reported = self.longest > 0;
        self.nr_reports = self.nr_reports.saturating_add(u32::from(has_reported));
        let is_often = policy.on_stall != 0 && self.nr_reports >= policy.on_stall;
        let is_long = policy.on_stall_time != 0 && self.longest >= policy.on_stall_time;
        let now = self.looked_at.filter(|_| !self.suspects.is_empty() || self.is_to_look);
        self.looked_at = now;
        Looked {
            next: now.map(|now| now.saturating_add(Self::interval(self.thresh))),
            has_to_panic: has_reported && (is_often || is_long),
        }
    }

    /// The driver has reported stalls until `now`, which takes long. That time does not count, and
    /// the next look is due an interval later. As [`Looked::next`].
    pub fn told(&mut self, now: Nanos) -> Option<Nanos> {
        self.looked_at = self.looked_at.map(|_| now);
        self.looked_at.map(|now| now.saturating_add(Self::interval(self.thresh)))
    }

    /// Looks that had something to report, so far.
    #[must_use]
    pub const fn nr_reports(&self) -> u32 {
        self.nr_reports
    }
}
