//! The process: its runtime, and the services that use the runtime's queues; its forks and its end;
//! what only some programs use.

use cmwq_core::{WorkItem, WorkWord};

#[cfg(not(cmwq_loom))]
use crate::engine::process::bare_timers::BareTimers;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
use crate::engine::process::callbacks::Callbacks;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
use crate::engine::queue::totals::Totals;
use crate::engine::runtime::Runtime;
use crate::os::generation;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
use crate::os::sync::Mutex;

#[cfg(not(cmwq_loom))]
pub(crate) mod bare_timers;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod callbacks;
pub(crate) mod freezing;
pub(crate) mod observers;
pub(crate) mod readers;
pub(crate) mod sections;
pub(crate) mod shutdown;

// They are this module's own.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod fork;
#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "process/global_model.rs")]
mod global;
mod starting;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use fork::watch as watch_forks;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use fork::{Innermost, hold_during_forks};
/// Models do not fork.
#[cfg(any(cmwq_loom, cmwq_shuttle))]
pub(crate) const fn watch_forks() {}
#[cfg(all(test, cmwq_shuttle))]
pub(crate) use starting::UPCALLS;
#[cfg(all(test, not(cmwq_shuttle)))]
pub(crate) use starting::without_threads::on_one_cpu;
#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
pub(crate) use starting::without_threads::{without_threads, without_threads_by};

/// See the module header.
pub(crate) struct Process {
    pub(crate) runtime: &'static Runtime,
    #[cfg(not(cmwq_loom))]
    pub(crate) bare_timers: BareTimers,
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) callbacks: Callbacks,
    /// See [`totals`](crate::observe::totals).
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) totals: Mutex<Totals>,
}

impl Process {
    /// A process with this runtime.
    #[cfg(not(cmwq_loom))]
    pub(crate) fn around(runtime: &'static Runtime) -> Box<Self> {
        Box::new(Self {
            runtime,
            bare_timers: BareTimers::new(),
            #[cfg(not(cmwq_shuttle))]
            callbacks: Callbacks::new(),
            #[cfg(not(cmwq_shuttle))]
            totals: Mutex::default(),
        })
    }
}

/// Whether this process is a forked child, and a word that was just read is as its parent left it,
/// or as an item is made. It makes nothing: in a child that has no runtime nobody has queued.
pub(crate) fn is_from_before(word: WorkWord) -> bool {
    generation::is_child() && Runtime::existing().is_none_or(|runtime| runtime.is_from_before(word))
}

/// Whether an item is pending in this process.
pub(crate) fn is_pending(item: &WorkItem) -> bool {
    let word = item.word();
    word.is_pending() && !is_from_before(word)
}
