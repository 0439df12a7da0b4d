//! Looks which workers are blocked, and reports to the core.
//!
//! A source of detection only says "look now". The look is made without the lock (it may read
//! files); its result is applied under the lock with the number of the run it is about, so that a
//! worker that has moved on meanwhile is not misjudged.

use std::cell::RefCell;

use cmwq_core::detect::evidence::Seen;
use cmwq_core::detect::{alarms, hogs};
use cmwq_core::{Hog, Kick, Nanos, PoolState, WorkerId};

use crate::engine::pool::Pool;
use crate::engine::thread::Thread;
use crate::os::sync::Arc;
use crate::record::Reason;
use crate::record::symbol;
use crate::record::trace::{self, Kind};

struct Suspect {
    id: WorkerId,
    seq: u64,
    was_blocked: bool,
    /// It runs, and has used the CPU for long.
    is_hog: bool,
    /// It may wake up on another CPU.
    is_unbound: bool,
    thread: Arc<Thread>,
}

crate::os::sync::thread_local! {
    /// Kept from look to look, so that looks allocate nothing in the long run.
    static SUSPECTS: RefCell<Vec<Suspect>> = const { RefCell::new(Vec::new()) };
}

/// What a round of looking found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
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
pub(crate) fn look(pool: &'static Pool, me: Option<WorkerId>, patient: bool) -> Found {
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

/// Reports a worker as blocked or back without a look.
#[cfg(feature = "explore")]
pub(crate) fn report(pool: &'static Pool, id: WorkerId, seq: u64, is_blocked: bool) {
    let Some(thread) = pool.read(|_, locked| locked.thread(id).cloned()) else { return };
    let (was_blocked, is_hog, is_unbound) = (!is_blocked, false, false);
    apply(pool, &mut [Suspect { id, seq, was_blocked, is_hog, is_unbound, thread }], None);
}

fn collect(pool: &'static Pool, suspects: &mut Vec<Suspect>, is_tick: bool) -> Found {
    let mut guard = pool.lock();
    if !guard.has_to_watch(pool) {
        guard.unwatch(pool);
        pool.unlock(guard, Kick::None);
        return Found::default();
    }
    let has_processes = guard.core.suspects(|view| {
        let Some(thread) = guard.thread(view.id) else { return };
        suspects.push(Suspect {
            id: view.id,
            seq: view.seq,
            was_blocked: view.sleeping,
            is_hog: false,
            is_unbound: false,
            thread: Arc::clone(thread),
        });
    });
    let room_for_hogs = guard.core.room_for_hogs(pool.kind.in_core());
    let kick = if is_tick { guard.core.begin_another() } else { Kick::None };
    pool.unlock(guard, kick);
    Found { has_to_watch: true, has_processes, room_for_hogs, ..Found::default() }
}

/// Reports what the look found to the core. Returns whether another worker than `me` is woken.
fn apply(pool: &'static Pool, suspects: &mut [Suspect], me: Option<WorkerId>) -> bool {
    let mut guard = pool.lock();
    for back in suspects.iter().filter(|suspect| suspect.was_blocked) {
        guard.worker_resumed(pool, back.id, back.seq);
        guard.record_state(back.id);
    }
    let mut wake = Kick::None;
    let mut found_hogs = Vec::new();
    for suspect in suspects.iter_mut().filter(|suspect| !suspect.was_blocked) {
        let kick = if suspect.is_hog {
            let Some(hog) = guard.core.worker_cpu_intensive(suspect.id, suspect.seq) else {
                continue;
            };
            found_hogs.push((hog, Arc::clone(&suspect.thread)));
            guard.mirror.decided(Reason::Hog);
            hog.kick
        } else {
            guard.mirror.decided(Reason::Blocked);
            let kick =
                guard.worker_blocked(pool, suspect.id, suspect.seq, PoolState::worker_blocked);
            suspect.is_unbound = guard.core.is_unbound(suspect.id, suspect.seq);
            kick
        };
        guard.record_state(suspect.id);
        // The core marks the worker that it wakes, so only the first kick can be a wake-up.
        if let Kick::Wake(id) = kick
            && Some(id) != me
        {
            wake = kick;
        }
    }
    let wake = if me.is_none() { guard.replace_blocked(pool, wake) } else { wake };
    let has_woken = matches!(wake, Kick::Wake(_));
    let learns_waits = guard.core.config().learns_waits;
    pool.unlock(guard, wake);
    // After the wake-up, so that it does not delay another worker. On an alarm the caller itself
    // takes the next item, after this.
    if learns_waits {
        let blocked = suspects.iter().filter(|suspect| !suspect.was_blocked && !suspect.is_hog);
        blocked.for_each(|suspect| suspect.thread.record_blocked(suspect.seq));
    }
    for suspect in suspects.iter().filter(|suspect| suspect.is_unbound) {
        pool.unbind(&suspect.thread, suspect.seq);
    }
    for (hog, thread) in found_hogs {
        report_hog(pool, hog, &thread);
    }
    has_woken
}

/// Reports a hog of a per-CPU queue by name. A helper's hog counts for the pool that it helps.
#[cold]
fn report_hog(pool: &'static Pool, hog: Hog, thread: &Thread) {
    trace::worker(Kind::CpuHog, pool, thread.tid());
    let runtime = pool.runtime;
    let Some((func, wq)) = hog.item else {
        if let Some((busy, guest)) = thread.guest()
            && let Some(busy) = runtime.pool(busy)
        {
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
    fn is_worth_reporting(&mut self, patient: bool, hog_thresh: Nanos, found: &mut Found) -> bool {
        if self.was_blocked {
            return self.thread.is_back(self.seq);
        }
        match self.thread.look(self.seq, patient) {
            Seen::Blocked => {
                found.blocked += 1;
                true
            }
            Seen::Running => {
                found.running += 1;
                self.is_hog = hog_thresh != 0
                    && found.room_for_hogs > 0
                    && self.thread.hogs(self.seq, hog_thresh);
                found.room_for_hogs -= u32::from(self.is_hog);
                self.is_hog
            }
            Seen::Unknown => false,
        }
    }
}
