//! The observers of the process (dumps, the watchdog's thread, the control socket), as the engine
//! knows them: it calls them at certain moments, by this trait.
//!
//! The crate's root lists them, so none can be forgotten, and no module of the engine names them.
//!
//! Why: docs/decisions/engine-hands-over-numbers.md

use crate::engine::runtime::Runtime;

/// What observers do at turning points of the process.
pub(crate) trait Observers: Sync {
    /// The process has a runtime. Caller holds no lock.
    fn began(&self, runtime: &'static Runtime);

    /// The watchdog is needed, and has no thread. By the service thread, or its creator.
    ///
    /// # Errors
    /// If the system has no thread to give.
    fn start_watchdog(&self, runtime: &'static Runtime) -> std::io::Result<()>;

    /// The process is about to fork: takes the observers' locks, so that the child does not find
    /// one locked by a thread that it does not have.
    fn hold(&self) -> Box<dyn Held>;

    /// This process is a forked child: requests to the parent's threads are forgotten.
    fn in_child(&self);
}

/// The observers' locks during a fork, given up when this is dropped.
pub(crate) trait Held {
    /// This process is the child: it does not serve what its parent serves.
    fn leave_behind(&mut self);
}
