//! The name a worker's thread shows in `ps -L` and `top -H`.
//!
//! The kernel composes `kworker/0:1+desc` when somebody reads it. A process must set the name, a system call, so
//! here it is set only when it changes: when a worker turns to another queue. What an idle worker did last is
//! shown as `kworker/0:1-desc`; the service thread sees to that a little later, so that the short naps of a busy
//! worker cost nothing.

use std::fs;

use cmwq_core::WqKey;

use crate::runtime::Runtime;
use crate::sense;
use crate::sync::{AtomicU32, Ordering};

const PLAIN: u32 = u32::MAX;

/// One worker's title.
#[derive(Debug)]
pub(crate) struct Title {
    base: String,
    tid: AtomicU32,
    /// The queue whose name is shown behind a `+`, or `PLAIN`.
    shown: AtomicU32,
}

impl Title {
    pub(crate) fn new(base: String) -> Self {
        Self { base, tid: AtomicU32::new(0), shown: AtomicU32::new(PLAIN) }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    // ORDERING (all accesses here): no pairing: a title is for people.

    /// Called once by the thread itself.
    pub(crate) fn set_tid(&self) {
        self.tid.store(sense::sched::gettid().unsigned_abs(), Ordering::Relaxed);
    }

    /// An item of `wq` is about to run. By the thread itself.
    #[inline]
    pub(crate) fn running(&self, runtime: &'static Runtime, wq: WqKey) {
        if self.shown.load(Ordering::Relaxed) != wq.0 {
            self.show(runtime, wq);
        }
    }

    #[cold]
    fn show(&self, runtime: &'static Runtime, wq: WqKey) {
        self.shown.store(wq.0, Ordering::Relaxed);
        let desc = runtime.wq_name(wq).unwrap_or_default();
        sense::sched::set_thread_name(&format!("{}+{desc}", self.base));
    }

    /// Whether it still says `+` although the worker may have become idle.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.shown.load(Ordering::Relaxed) != PLAIN
    }

    /// The worker has been idle for a while. By the service thread.
    pub(crate) fn settle(&self, runtime: &'static Runtime) {
        let wq = self.shown.swap(PLAIN, Ordering::Relaxed);
        let tid = self.tid.load(Ordering::Relaxed);
        if wq == PLAIN || tid == 0 {
            return;
        }
        let desc = runtime.wq_name(WqKey(wq)).unwrap_or_default();
        // Without /proc the title stays as it is.
        let _ = fs::write(
            format!("/proc/self/task/{tid}/comm"),
            sense::sched::fitting_name(&format!("{}-{desc}", self.base)),
        );
    }
}
