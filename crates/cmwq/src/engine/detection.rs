//! Looks which workers are blocked, and reports to the core.
//!
//! A source of detection only says "look now". The look is made without the lock (it may read
//! files); its result is applied under the lock with the number of the run it is about, so that a
//! worker that has moved on meanwhile is not misjudged.

use std::borrow::{Borrow, BorrowMut};
use std::cell::RefCell;

use cmwq_core::detect::evidence::Seen;
use cmwq_core::detect::{alarms, hogs};
use cmwq_core::{Finding, Found, Kick, Nanos, WorkFn, WorkerId, WqKey};

use crate::engine::pool::{Locked, Pool};
use crate::engine::thread::Thread;
use crate::os::sync::Arc;
use crate::record::Reason;
use crate::record::symbol;
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
pub(crate) struct Look {
    /// Workers newly known to be blocked.
    pub(crate) blocked: usize,
    /// Workers whose run could be looked at and is running.
    pub(crate) running: usize,
    /// The pool still has to be watched.
    pub(crate) has_to_watch: bool,
    /// Somebody was woken because of what was found.
    pub(crate) has_woken: bool,
    /// Workers wait for processes.
    pub(crate) has_processes: bool,
    /// How many more workers may be taken for hogs.
    room_for_hogs: u32,
}

/// A sentinel has woken the standby, since the CPU went idle. The standby itself replaces the
/// worker that it finds blocked, since it asks for work right afterwards. So no other worker is
/// woken for that one.
pub(crate) fn on_alarm(pool: &'static Pool, me: WorkerId) {
    let found = look(pool, Some(me), false);
    if alarms::is_false(found.blocked, found.has_to_watch) {
        pool.false_alarm();
    }
}

/// Looks at the pool's workers if work waits, and reports to the core. `me`: an idle worker of this
/// pool that will ask for work right afterwards and so need not be woken. Caller holds no core
/// lock.
pub(crate) fn look(pool: &'static Pool, me: Option<WorkerId>, patient: bool) -> Look {
    SUSPECTS.with(|suspects| {
        let suspects = &mut *suspects.borrow_mut();
        suspects.clear();
        let mut found = collect(pool, suspects, patient);
        if !found.has_to_watch {
            return found;
        }
        let hog_thresh = if patient { pool.runtime.hogs.thresh_ns } else { 0 };
        suspects.retain_mut(|suspect| suspect.is_worth_reporting(patient, hog_thresh, &mut found));
        if found.blocked > 0 {
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

fn collect(pool: &'static Pool, suspects: &mut Vec<Suspect>, is_tick: bool) -> Look {
    let mut guard = pool.lock_unlisted();
    if !guard.has_to_watch(pool) {
        guard.unwatch(pool);
        pool.unlock(guard, Kick::None);
        return Look::default();
    }
    let has_processes = guard.core.suspects(|view| {
        let Some(thread) = guard.thread(view.id) else { return };
        // What it may be found to be.
        let finding = Finding::new(view.id, view.seq, Found::of(!view.sleeping));
        suspects.push(Suspect { finding, is_hog: view.hog, thread: Arc::clone(thread) });
    });
    let room_for_hogs = guard.core.room_for_new_hogs(pool.has_short_items());
    let kick = if is_tick { guard.core.begin_another() } else { Kick::None };
    pool.unlock(guard, kick);
    Look { has_to_watch: true, has_processes, room_for_hogs, ..Look::default() }
}

/// Reports what the look found to the core. Returns whether another worker than `me` is woken.
fn apply(pool: &'static Pool, suspects: &mut [Suspect], me: Option<WorkerId>) -> bool {
    let mut guard = pool.lock_unlisted();
    let room = guard.core.report_look(suspects, me);
    for suspect in suspects.iter() {
        guard.record_finding(pool, &suspect.finding);
    }
    let wake = room.map_or(Kick::None, |kick| guard.replace_blocked(pool, kick));
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
            let mut guard = busy.lock_only();
            let _ = guard.core.guest_cpu_intensive(guest);
            guard.publish_mirror();
        }
        return;
    };
    if hogs::is_mistake(pool.kind.in_core())
        && let Some(name) = runtime.wq_name(wq)
    {
        runtime.hogs.report(func, &name, symbol::name_of);
    }
}

impl Suspect {
    fn is_worth_reporting(&mut self, patient: bool, hog_thresh: Nanos, found: &mut Look) -> bool {
        let seq = self.finding.seq;
        if self.finding.is_back() {
            return self.thread.is_back(seq);
        }
        match self.thread.look(seq, patient) {
            Seen::Blocked => {
                found.blocked += 1;
                true
            }
            Seen::Running => {
                found.running += 1;
                let may_be_hog = !self.is_hog && hog_thresh != 0 && found.room_for_hogs > 0;
                let is_hog = may_be_hog && self.thread.hogs(seq, hog_thresh);
                found.room_for_hogs -= u32::from(is_hog);
                self.finding.found = Found::Hog;
                is_hog
            }
            Seen::Unknown => false,
        }
    }
}
