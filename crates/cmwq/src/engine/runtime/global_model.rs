//! The runtime of an execution of a model, which has it made and taken down.

use std::cell::Cell;

use super::Runtime;
use crate::os::error::Error;

std::thread_local! {
    /// A model checker runs all threads of an execution on one thread of the system.
    static CURRENT: Cell<Option<&'static Runtime>> = const { Cell::new(None) };
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
        Ok(CURRENT.get().expect("the model has no runtime"))
    }

    /// The execution's runtime.
    pub(crate) fn existing() -> Option<&'static Self> {
        CURRENT.get()
    }

    /// Makes it the execution's.
    #[cfg(test)]
    pub(crate) fn make_global(&'static self) {
        CURRENT.set(Some(self));
    }
}
