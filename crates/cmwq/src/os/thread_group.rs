//! The threads of a runtime, counted, so that shutting it down can wait for the last of them.

use std::cell::Cell;
use std::io;

use crate::os::countdown::Countdown;
use crate::os::park::Event;
use crate::os::sync;

/// See the module header.
#[derive(Debug)]
pub(crate) struct ThreadGroup {
    aboard: Countdown,
    all_gone: Event,
}

crate::os::sync::thread_local! {
    /// The thread belongs to a group.
    static IS_ABOARD: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one that a group waits for.
pub(crate) fn is_aboard() -> bool {
    IS_ABOARD.try_with(Cell::get).unwrap_or(false)
}

/// The calling thread is the copy of such a one, in a child.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn leave_aboard() {
    let _ = IS_ABOARD.try_with(|is_aboard| is_aboard.set(false));
}

/// A thread's place; given up when it ends, however it does.
struct Place(&'static ThreadGroup);

impl ThreadGroup {
    pub(crate) fn new() -> Self {
        Self { aboard: Countdown::new(), all_gone: Event::new() }
    }

    /// Starts a thread. By whoever made the group, before [`dismiss`](Self::dismiss), or by one of
    /// its threads; nobody waits for one that somebody else starts later.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub(crate) fn spawn(
        &'static self,
        name: &str,
        stack: usize,
        main: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.aboard.add_late();
        let place = Place(self);
        sync::spawn(name, stack, move || {
            IS_ABOARD.with(|is_aboard| is_aboard.set(true));
            main();
            drop(place);
        })
    }

    /// Waits until all threads are gone. They must know that they are to leave. Once only.
    pub(crate) fn dismiss(&self) {
        self.leave();
        self.wait_until_gone();
    }

    /// Waits for the same, while somebody else dismisses them or has.
    pub(crate) fn wait_until_gone(&self) {
        self.all_gone.wait(None);
    }

    fn leave(&self) {
        if self.aboard.done() {
            self.all_gone.set();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.leave();
    }
}
