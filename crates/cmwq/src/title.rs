//! The name a worker's thread shows in `ps -L` and `top -H`.
//!
//! The kernel composes `kworker/0:1+desc` when somebody reads it. A process must set the name, a
//! system call, so here the worker only notes what it is doing, and the service thread sets the
//! names that have become wrong, a little later: `kworker/0:1+desc` for a worker that runs an item
//! of queue `desc`, `kworker/0:1-desc` for one that did last and is idle. Short items and short
//! naps of a busy worker cost nothing.

use std::fs;

use cmwq_core::WqKey;

use crate::runtime::Runtime;
use crate::sense;
use crate::sync::{AtomicU32, Ordering};

/// No queue.
const NONE: u32 = u32::MAX;
/// A queue that is gone.
const GONE: u32 = u32::MAX - 1;

/// One worker's title.
#[derive(Debug)]
pub(crate) struct Title {
    base: String,
    tid: AtomicU32,
    /// The queue whose item the worker runs, or `NONE`.
    doing: AtomicU32,
    /// The queue that the name shows behind a `+`, or `NONE`.
    shown: AtomicU32,
}

impl Title {
    pub(crate) fn new(base: String) -> Self {
        let none = || AtomicU32::new(NONE);
        Self { base, tid: AtomicU32::new(0), doing: none(), shown: none() }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    // ORDERING (all accesses here): no pairing: a title is for people.

    /// Called once by the thread itself.
    pub(crate) fn set_tid(&self) {
        self.tid.store(sense::sched::gettid().unsigned_abs(), Ordering::Relaxed);
    }

    /// Notes that an item of `wq` is about to run, or none. `true`: the name is wrong now.
    #[inline]
    pub(crate) fn note(&self, wq: Option<WqKey>) -> bool {
        let doing = wq.map_or(NONE, |wq| wq.0);
        self.doing.store(doing, Ordering::Relaxed);
        self.shown.load(Ordering::Relaxed) != doing
    }

    /// The queue is gone: its name, if shown, is out of date.
    pub(crate) fn forget(&self, wq: WqKey) {
        if self.shown.load(Ordering::Relaxed) == wq.0 {
            self.shown.store(GONE, Ordering::Relaxed);
        }
    }

    /// Sets the name if it is wrong. By the service thread.
    pub(crate) fn settle(&self, runtime: &'static Runtime) {
        let doing = self.doing.load(Ordering::Relaxed);
        let shown = self.shown.swap(doing, Ordering::Relaxed);
        let tid = self.tid.load(Ordering::Relaxed);
        if doing == shown || tid == 0 {
            return;
        }
        let (sign, wq) = if doing == NONE { ('-', shown) } else { ('+', doing) };
        let desc = runtime.wq_name(WqKey(wq)).unwrap_or_default();
        // Without /proc the name stays as it is.
        let _ = fs::write(
            format!("/proc/self/task/{tid}/comm"),
            sense::sched::fitting_name(&format!("{}{sign}{desc}", self.base)),
        );
    }
}
