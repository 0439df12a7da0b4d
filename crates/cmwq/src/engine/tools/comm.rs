//! The name a worker's thread shows in `ps -L` and `top -H`.
//!
//! The kernel composes `kworker/0:1+desc` when the name is read. A process must set it by a system
//! call, so here the worker only stores which queue it serves, and the service thread sets the
//! names that have become wrong, a little later: `kworker/0:1+desc` for a worker that runs an item
//! of queue `desc`, `kworker/0:1-desc` for an idle worker whose last item was of that queue. Short
//! items and short naps of a busy worker cost nothing.
//!
//! Why: docs/decisions/names-from-the-side.md

use std::fs;

use cmwq_core::WqKey;

use crate::os::sense;
use crate::os::sync::{AtomicBool, AtomicU32, Ordering, PlainMutex};

/// No queue.
const NONE: u32 = u32::MAX;
/// A queue that is gone.
const GONE: u32 = u32::MAX - 1;
/// A text that the item has set, in place of its queue.
const SAID: u32 = u32::MAX - 2;

/// The name of one worker.
#[derive(Debug)]
pub(crate) struct Comm {
    base: String,
    tid: AtomicU32,
    /// The queue whose item the worker runs, or `NONE`.
    doing: AtomicU32,
    /// The queue that the name shows behind a `+`, or `NONE`.
    shown: AtomicU32,
    /// It was idle, with a name that shows a queue, when names were written last.
    was_idle: AtomicBool,
    /// The text that an item has set last; valid while `doing` or `shown` is `SAID`.
    said: PlainMutex<String>,
}

impl Comm {
    pub(crate) fn new(base: String) -> Self {
        let none = || AtomicU32::new(NONE);
        Self {
            base,
            tid: AtomicU32::new(0),
            doing: none(),
            shown: none(),
            was_idle: AtomicBool::new(false),
            said: PlainMutex::default(),
        }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    // ORDERING (all accesses here): no pairing: a name is for people.

    /// Called once by the thread itself.
    pub(crate) fn set_tid(&self, tid: u32) {
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// The kernel's number of the thread, between [`set_tid`](Self::set_tid) and
    /// [`forget_tid`](Self::forget_tid).
    pub(crate) fn tid(&self) -> Option<libc::pid_t> {
        libc::pid_t::try_from(self.tid.load(Ordering::Relaxed)).ok().filter(|tid| *tid != 0)
    }

    /// Called by the thread itself when it ends.
    pub(crate) fn forget_tid(&self) {
        self.tid.store(0, Ordering::Relaxed);
    }

    /// Records that an item of `wq` is about to run, or none. `true`: the name is wrong now.
    #[inline]
    pub(crate) fn turn_to(&self, wq: Option<WqKey>) -> bool {
        let doing = wq.map_or(NONE, |wq| wq.0);
        self.doing.store(doing, Ordering::Relaxed);
        self.shown.load(Ordering::Relaxed) != doing
    }

    /// The item that the worker runs sets a text, which lasts until the next item's
    /// [`turn_to`](Self::turn_to).
    pub(crate) fn say(&self, desc: &str) {
        if let Ok(mut said) = self.said.lock() {
            desc.clone_into(&mut said);
        }
        self.doing.store(SAID, Ordering::Relaxed);
        if self.shown.load(Ordering::Relaxed) == SAID {
            // The name shows another text.
            self.shown.store(GONE, Ordering::Relaxed);
        }
    }

    /// The queue is gone: its name, if shown, is out of date.
    pub(crate) fn forget(&self, wq: WqKey) {
        if self.shown.load(Ordering::Relaxed) == wq.0 {
            self.shown.store(GONE, Ordering::Relaxed);
        }
    }

    /// Sets the name if it is wrong. By the service thread. `name_of` knows the queues. `false`:
    /// it is left wrong for now, since the worker is idle and was not the last time: soon it may
    /// run an item again.
    pub(crate) fn write(&self, name_of: impl FnOnce(WqKey) -> Option<String>) -> bool {
        let doing = self.doing.load(Ordering::Relaxed);
        let is_idle = doing == NONE && self.shown.load(Ordering::Relaxed) != NONE;
        if is_idle && !self.was_idle.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.was_idle.store(false, Ordering::Relaxed);
        let shown = self.shown.swap(doing, Ordering::Relaxed);
        let tid = self.tid.load(Ordering::Relaxed);
        if doing == shown || tid == 0 {
            return true;
        }
        let (sign, what) = if doing == NONE { ('-', shown) } else { ('+', doing) };
        let desc = self.desc_of(what, name_of).unwrap_or_default();
        // Without /proc the name stays as it is.
        let _ = fs::write(
            format!("/proc/self/task/{tid}/comm"),
            sense::sched::fitting_name(&format!("{}{sign}{desc}", self.base)),
        );
        true
    }

    fn desc_of(&self, what: u32, name_of: impl FnOnce(WqKey) -> Option<String>) -> Option<String> {
        match what {
            SAID => self.said(),
            wq => name_of(WqKey(wq)),
        }
    }

    fn said(&self) -> Option<String> {
        self.said.lock().map(|said| said.clone()).ok()
    }

    /// The text that the running item has set, if it has.
    pub(crate) fn desc(&self) -> Option<String> {
        (self.doing.load(Ordering::Relaxed) == SAID).then(|| self.said()).flatten()
    }

    /// The name as it ought to be now, in full. KERNEL: `wq_worker_comm` — same.
    pub(crate) fn in_full(&self, name_of: impl FnOnce(WqKey) -> Option<String>) -> String {
        let doing = self.doing.load(Ordering::Relaxed);
        let shown = self.shown.load(Ordering::Relaxed);
        let (sign, what) = if doing == NONE { ('-', shown) } else { ('+', doing) };
        match self.desc_of(what, name_of) {
            Some(desc) => format!("{}{sign}{desc}", self.base),
            None => self.base.clone(),
        }
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_idle_for_a_moment_keeps_its_name() {
        let comm = Comm::new("kworker/0:0".into());
        let wq = Some(WqKey(3));
        assert!(comm.turn_to(wq) && comm.write(|_| None));
        for _ in 0..3 {
            assert!(comm.turn_to(None));
            assert!(!comm.write(|_| None), "later");
            assert!(!comm.turn_to(wq), "the name is right again");
            assert!(comm.write(|_| None));
        }
        assert!(comm.turn_to(None));
        assert!(!comm.write(|_| None) && comm.write(|_| None), "it stays idle");
        assert!(comm.turn_to(wq), "the name shows that");
    }
}
