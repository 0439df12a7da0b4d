//! Who looks at the process from above (dumps, the watchdog's thread, the control socket), as far
//! as the engine knows of them: at these moments it calls them, by this trait.
//!
//! The crate's root says who they are, so none can be forgotten, and no module of the engine names
//! theirs.

use crate::engine::runtime::Runtime;

/// What observers do at turning points of the process.
pub(crate) trait Observers: Sync {
    /// The process has a runtime. Caller holds no lock.
    fn began(&self, runtime: &'static Runtime);

    /// The watchdog is needed, and has no thread. By the service thread.
    ///
    /// # Errors
    /// If the system has no thread to give.
    fn start_watchdog(&self, runtime: &'static Runtime) -> std::io::Result<()>;

    /// The process is about to fork: takes the observers' locks, so that the child does not find
    /// one locked by a thread that it does not have.
    fn hold(&self) -> Box<dyn Held>;

    /// This process is a child: what was asked of its parent's threads was not asked of its own.
    fn in_child(&self);
}

/// The observers' locks during a fork, given up when this is dropped.
pub(crate) trait Held {
    /// This process is the child: what its parent serves is not the child's.
    fn leave_behind(&mut self);
}
