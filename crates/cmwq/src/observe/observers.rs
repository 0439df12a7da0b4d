//! What this room does when the engine calls it at turning points of the process.

use std::io;

use super::watchdog;
use crate::engine::process::observers::{Held, Observers};
use crate::engine::runtime::Runtime;

/// All of them.
#[derive(Debug)]
pub(crate) struct All;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
impl Observers for All {
    fn began(&self, runtime: &'static Runtime) {
        watchdog::dump_as_params_say(&runtime.params);
        if let Some(path) = &runtime.params.control {
            super::control::start_as_wished(path);
        }
    }

    fn start_watchdog(&self, runtime: &'static Runtime) -> io::Result<()> {
        watchdog::spawn(runtime)
    }

    fn hold(&self) -> Box<dyn Held> {
        Box::new(Locks { _watchdog: watchdog::lock_handler(), control: super::control::hold() })
    }

    fn in_child(&self) {
        super::stacks::forget();
    }
}

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
struct Locks {
    _watchdog: watchdog::HandlerGuard,
    control: super::control::Held,
}

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
impl Held for Locks {
    fn leave_behind(&mut self) {
        super::control::leave_behind(&mut self.control);
    }
}

/// A model has the watchdog, which its threshold keeps off, and nobody forks.
#[cfg(any(cmwq_loom, cmwq_shuttle))]
impl Observers for All {
    fn began(&self, _: &'static Runtime) {}

    fn start_watchdog(&self, runtime: &'static Runtime) -> io::Result<()> {
        watchdog::spawn(runtime)
    }

    fn hold(&self) -> Box<dyn Held> {
        struct Nothing;
        impl Held for Nothing {
            fn leave_behind(&mut self) {}
        }
        Box::new(Nothing)
    }

    fn in_child(&self) {}
}
