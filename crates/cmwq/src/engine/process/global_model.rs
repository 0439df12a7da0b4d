//! An execution of a model in place of a process: the model makes the runtime and takes it down.

use std::cell::Cell;

use super::Process;
use crate::engine::runtime::Runtime;
use crate::os::error::Error;

std::thread_local! {
    /// A model checker runs all threads of an execution on one thread of the system.
    static CURRENT: Cell<Option<&'static Process>> = const { Cell::new(None) };
}

impl Runtime {
    /// The execution's runtime.
    ///
    /// # Errors
    /// None.
    ///
    /// # Panics
    /// If the model has none.
    pub(crate) fn global() -> Result<&'static Self, Error> {
        Ok(CURRENT.get().expect("the model has no runtime").runtime)
    }

    /// The execution's runtime.
    pub(crate) fn existing() -> Option<&'static Self> {
        CURRENT.get().map(|process| process.runtime)
    }
}

impl Process {
    /// The execution's.
    #[cfg(not(cmwq_loom))]
    pub(crate) fn existing() -> Option<&'static Self> {
        CURRENT.get()
    }

    /// Makes it the execution's.
    #[cfg(all(test, cmwq_shuttle))]
    pub(crate) fn make_global(&'static self) {
        CURRENT.set(Some(self));
    }
}
