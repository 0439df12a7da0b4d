//! The threads of a runtime, counted, so that shutting it down can wait for the last of them.
//!
//! A thread counts until it has done what it was started for. Afterwards the destructors of its
//! thread-locals may run what is the user's, and until it has left the system the process has more
//! than one thread. So whoever dismisses the threads joins those that leave then. Those that leave
//! before are detached: what is kept of a thread that was not joined is its stack.

use std::cell::Cell;
use std::io;

use crate::os::IS_MODEL;
use crate::os::backoff::Backoff;
use crate::os::countdown::Countdown;
use crate::os::park::Event;
use crate::os::sync::{self, Arc, Joining, Mutex, lock};

/// See the module header.
#[derive(Debug)]
pub(crate) struct ThreadGroup {
    aboard: Countdown,
    all_gone: Event,
    /// Those to be joined. `None`: those that leave are detached.
    leaving: Mutex<Option<Vec<Slot>>>,
    all_joined: Event,
}

/// Where who has started a thread puts what waits for its end: perhaps later than that.
type Slot = Arc<Mutex<Option<Joining>>>;

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
        Self {
            aboard: Countdown::new(),
            all_gone: Event::new(),
            leaving: Mutex::new(None),
            all_joined: Event::new(),
        }
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
        let slot = Slot::default();
        let own = Arc::clone(&slot);
        let joining = sync::spawn(name, stack, move || {
            IS_ABOARD.with(|is_aboard| is_aboard.set(true));
            main();
            if let Some(leaving) = lock(&self.leaving).as_mut() {
                leaving.push(own);
            }
            drop(place);
        })?;
        *lock(&slot) = Some(joining);
        Ok(())
    }

    /// Threads that leave from now on are joined when all are [dismissed](Self::dismiss).
    pub(crate) fn begin_joining(&self) {
        if !IS_MODEL {
            lock(&self.leaving).get_or_insert_default();
        }
    }

    /// Waits until all threads have left the system. They must know that they are to leave. Once
    /// only.
    pub(crate) fn dismiss(&self) {
        self.leave();
        self.all_gone.wait(None);
        // Not in the loop's head, where the lock would be held until the last has left.
        let leaving = lock(&self.leaving).take();
        leaving.into_iter().flatten().for_each(|slot| join(&slot));
        self.all_joined.set();
    }

    /// Waits for the same, while somebody else dismisses them or has.
    pub(crate) fn wait_until_gone(&self) {
        self.all_joined.wait(None);
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

/// Waits until the thread has left the system, which is soon.
fn join(slot: &Slot) {
    let mut backoff = Backoff::new();
    loop {
        let joining = lock(slot).take();
        match joining {
            // A panic is none of ours: nothing of the user's runs in the thread's own closure.
            Some(joining) => {
                let _ = joining.join();
                return;
            }
            // Whoever has started it is about to put it there, and may need this CPU for that.
            None => backoff.pause(),
        }
    }
}
