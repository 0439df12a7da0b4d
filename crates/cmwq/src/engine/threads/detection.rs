//! Looks which workers are blocked, and reports to the core.
//!
//! A source of detection only says "look now". The look is made without the lock (it may read
//! files); its result is applied under the lock with the number of the run it is about, so that a
//! worker that has moved on meanwhile is not misjudged.

use std::borrow::{Borrow, BorrowMut};
use std::cell::RefCell;

use cmwq_core::detect::evidence::Seen;
use cmwq_core::detect::judge::{self, Look};
use cmwq_core::detect::{By, alarms, hogs};
use cmwq_core::{Finding, Found, Kick, LockFor, Nanos, WorkFn, WorkerId, WqKey};

use crate::engine::pool::{Locked, Pool};
use crate::engine::tools::thread::Thread;
use crate::os::clock;
use crate::os::sync::Arc;
use crate::record::Reason;
use crate::record::trace::{self, Kind};

struct Suspect {
    finding: Finding,
    /// It is known as a hog.
    is_hog: bool,
    thread: Arc<Thread>,
}

impl Borrow<Finding> for Suspect {
    fn borrow(&self) -> &Finding {
        &self.finding
    }
}

impl BorrowMut<Finding> for Suspect {
    fn borrow_mut(&mut self) -> &mut Finding {
        &mut self.finding
    }
}

crate::os::sync::thread_local! {
    /// Kept from look to look, so that looks allocate nothing in the long run.
    static SUSPECTS: RefCell<Vec<Suspect>> = const { RefCell::new(Vec::new()) };
}

/// What a round of looking found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    look: Look,
    /// The pool still has to be watched.
    pub(crate) has_to_watch: bool,
    /// Somebody was woken because of what was found.
    pub(crate) has_woken: bool,
    /// Workers wait for processes.
    pub(crate) has_processes: bool,
    /// Nobody was looked at: the worker that was woken by the alarm begins an item.
    begins: bool,
}

impl Round {
    /// The worker that looked is to ask for work: somebody was found blocked, or an idle CPU is
    /// enough.
    pub(crate) const fn is_to_ask(&self) -> bool {
        self.has_found() || self.begins
    }

    /// A worker that was believed to run was found blocked.
    pub(crate) const fn has_found(&self) -> bool {
        self.look.nr_blocked > 0
    }
}

/// A sentinel has woken the standby, since the CPU went idle. The standby itself replaces the
/// worker that it finds blocked, since it asks for work right afterwards. So no other worker is
/// woken for that one.
pub(crate) fn on_alarm(pool: &'static Pool, me: WorkerId) {
    let found = detect(pool, Some(me), By::Alarm);
    if !found.begins && alarms::is_false(found.look.nr_blocked, found.has_to_watch) {
        pool.false_alarm();
    }
}

/// Looks at the pool's workers if work waits, and reports to the core. `me`: an idle worker of this
/// pool that will ask for work right afterwards and so need not be woken. Caller holds no core
/// lock.
pub(crate) fn detect(pool: &'static Pool, me: Option<WorkerId>, by: By) -> Round {
    SUSPECTS.with(|suspects| {
        let suspects = &mut *suspects.borrow_mut();
        suspects.clear();
        let mut found = collect(pool, suspects, me, by);
        if !found.has_to_watch || found.begins {
            return found;
        }
        let hog_thresh = pool.runtime.hogs.thresh_ns;
        suspects.retain_mut(|Suspect { finding, is_hog, thread }| {
            let mut suspected = Suspected { thread, seq: finding.seq, by, hog_thresh };
            found.look.judge(finding, *is_hog, &mut suspected)
        });
        if found.has_found() {
            pool.alarms_bear_fruit();
        }
        if !suspects.is_empty() {
            found.has_woken = apply(pool, suspects, me);
        }
        suspects.clear();
        found
    })
}

/// Reports workers as blocked or back without a look.
#[cfg(feature = "explore")]
pub(crate) fn report(pool: &'static Pool, found: impl Iterator<Item = (WorkerId, u64, bool)>) {
    let suspect = |(id, seq, is_blocked): (WorkerId, u64, bool)| {
        let thread = pool.read(|_, locked| locked.thread(id).cloned())?;
        Some(Suspect {
            finding: Finding::new(id, seq, Found::of(is_blocked)),
            is_hog: false,
            thread,
        })
    };
    apply(pool, &mut found.filter_map(suspect).collect::<Vec<_>>(), None);
}

fn collect(
    pool: &'static Pool,
    suspects: &mut Vec<Suspect>,
    me: Option<WorkerId>,
    by: By,
) -> Round {
    let mut guard = pool.lock(LockFor::Decide);
    if !guard.has_to_watch(pool) {
        guard.unwatch(pool);
        pool.unlock(guard, Kick::None);
        return Round::default();
    }
    let begins = me.is_some_and(|me| guard.core.begins_on_alarm(me, clock::now));
    if begins {
        pool.unlock(guard, Kick::None);
        return Round { has_to_watch: true, begins, ..Round::default() };
    }
    let has_processes = guard.core.suspects(|view| {
        let Some(thread) = guard.thread(view.id) else { return };
        let finding = Look::expects(&view);
        suspects.push(Suspect { finding, is_hog: view.hog, thread: Arc::clone(thread) });
    });
    let seeks_hogs = by == By::Tick && pool.runtime.hogs.thresh_ns != 0;
    let room = guard.core.room_for_new_hogs(pool.has_short_items());
    let look = Look::begin(if seeks_hogs { room } else { 0 });
    let kick = match by {
        By::Tick => guard.core.tick(),
        By::Alarm => Kick::None,
    };
    pool.unlock(guard, kick);
    Round { look, has_to_watch: true, has_processes, ..Round::default() }
}

/// Reports what the look found to the core. Returns whether another worker than `me` is woken.
fn apply(pool: &'static Pool, suspects: &mut [Suspect], me: Option<WorkerId>) -> bool {
    let mut guard = pool.lock(LockFor::Decide);
    let room = guard.core.report_look(suspects, me, clock::now);
    for suspect in suspects.iter() {
        guard.record_finding(pool, &suspect.finding);
    }
    let wake = room.map_or(Kick::None, |kick| guard.replace_blocked(pool, kick));
    // Late alarms also come to pools that nobody watches any more.
    let wake = wake.or(guard.watch_when_full());
    let has_woken = matches!(wake, Kick::Wake(_));
    let is_managed = guard.core.config().is_managed();
    guard.note_crowd(pool);
    pool.unlock(guard, wake);
    // After the wake-up, so that it does not delay another worker. On an alarm the caller itself
    // takes the next item, after this.
    for Suspect { finding, thread, .. } in suspects.iter() {
        match finding.found {
            Found::Back => {}
            Found::Blocked => {
                if is_managed {
                    thread.record_blocked(finding.seq);
                }
                if finding.is_news
                    && let Some((busy, _)) = pool.runtime.served_by(thread)
                {
                    busy.helper_blocked();
                }
            }
            Found::Hog if finding.is_news => report_hog(pool, finding.hogs, thread),
            Found::Hog => {}
        }
        if finding.is_unbound {
            pool.unbind(thread, finding.seq);
        }
    }
    has_woken
}

impl Locked {
    /// Traces what the core has made of a finding, and records it in the mapping.
    fn record_finding(&mut self, pool: &Pool, finding: &Finding) {
        match finding.found {
            Found::Back if finding.is_news => {
                self.trace_worker(Kind::WorkerResumed, pool, finding.id);
            }
            Found::Back => {}
            Found::Blocked => {
                if finding.is_news {
                    self.trace_worker(Kind::WorkerBlocked, pool, finding.id);
                }
                self.mirror.decided(Reason::Blocked);
            }
            Found::Hog if finding.is_news => self.mirror.decided(Reason::Hog),
            Found::Hog => return,
        }
        self.record_state(finding.id);
    }
}

/// Reports a hog of a per-CPU queue by name. A helper's hog counts for the pool that it helps.
#[cold]
fn report_hog(pool: &'static Pool, item: Option<(WorkFn, WqKey)>, thread: &Thread) {
    trace::worker(Kind::CpuHog, pool, thread.tid());
    let runtime = pool.runtime;
    let Some((func, wq)) = item else {
        if let Some((busy, guest)) = runtime.served_by(thread) {
            let mut guard = busy.lock(LockFor::Counts);
            let _ = guard.core.guest_cpu_intensive(guest);
            Pool::unlock_quietly(guard);
        }
        return;
    };
    if hogs::is_mistake(pool.kind.in_core())
        && let Some(name) = runtime.wq_name(wq)
        && runtime.hogs.report(func, &name)
    {
        runtime.tell_of_hogs();
    }
}

/// A suspect, while it is looked at.
struct Suspected<'a> {
    thread: &'a Thread,
    seq: u64,
    by: By,
    hog_thresh: Nanos,
}

impl judge::Suspect for Suspected<'_> {
    fn is_back(&mut self) -> bool {
        self.thread.is_back(self.seq)
    }

    fn state(&mut self) -> Seen {
        self.thread.state(self.seq, self.by)
    }

    fn hogs(&mut self) -> bool {
        self.thread.hogs(self.seq, self.hog_thresh)
    }
}
