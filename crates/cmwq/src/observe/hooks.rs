//! All that the engine and the detectors know of observing: what they call while they act, and what
//! they keep for those who look. `.ci/tidy` sees to it that they name nothing else of this room.
//!
//! Nothing here decides anything, takes a core lock or waits for a reader.

pub(crate) use super::inspect::{
    Inspect, NodeCounts, Places, PoolMirror, QueueMirror, QueueSettings, Reason, Role,
    WorkerMirror, WorkerRecord, believe,
};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use super::totals::Totals;
pub(crate) use super::watchdog::{WaitFor, Watchdog, parse_signal};
pub(crate) use super::{symbol, trace};

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) use process::{Held, began, begin};

/// What a process as a whole does.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod process {
    use crate::engine::params::Params;
    use crate::observe::{control, inspect, stacks, trace, watchdog};

    /// The process is about to have a runtime.
    pub(crate) fn begin() {
        trace::open();
    }

    /// The process has a runtime. Caller holds no lock.
    pub(crate) fn began(params: &Params) {
        watchdog::dump_as_params_say(params);
        if let Some(path) = &params.control {
            control::start_as_wished(path);
        }
    }

    /// What of observing is locked during a fork.
    pub(crate) struct Held {
        _watchdog: watchdog::HandlerGuard,
        control: control::Held,
        flusher: trace::FlusherGuard,
        rings: trace::RingsGuard,
    }

    impl Held {
        pub(crate) fn take() -> Self {
            Self {
                _watchdog: watchdog::lock_handler(),
                control: control::hold(),
                flusher: trace::lock_flusher(),
                rings: trace::lock_rings(),
            }
        }

        /// This is the child: what its parent shows, is asked and traces is not the child's.
        pub(crate) fn leave_behind(&mut self) {
            trace::leave_behind(&mut self.rings, &mut self.flusher);
            control::leave_behind(&mut self.control);
        }

        /// The same, of what needs no lock, before the child's runtime is made.
        pub(crate) fn leave_mapping() {
            inspect::leave_behind();
        }

        /// The same, of what the child's threads would have been asked for.
        pub(crate) fn forget_stacks() {
            stacks::forget();
        }
    }
}
