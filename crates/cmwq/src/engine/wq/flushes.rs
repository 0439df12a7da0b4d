//! The flushes of a queue: the core's state, and who waits.

use std::collections::BTreeMap;
use std::fmt;

use cmwq_core::FlushState;

use super::State;
use crate::os::park::Event;
use crate::os::sync::Arc;

/// What a queue needs for flushing, made with the first flush of a used queue. Lock: WQ.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    pub(crate) state: FlushState<u64>,
    /// The flushers that wait, by number: those that somebody wants to be told.
    flushers: BTreeMap<u64, Flusher>,
    next: u64,
}

/// Who waits for a flush.
pub(crate) enum Flusher {
    /// A thread, which then hands over.
    Thread(Arc<Event>),
    /// Nobody in person: this is called, by whoever has found out.
    Call(Box<dyn FnOnce() + Send>),
}

impl Flushes {
    /// The number of the next flusher.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn enter(&mut self, me: u64, flusher: Flusher) {
        self.flushers.insert(me, flusher);
    }

    pub(crate) fn leave(&mut self, me: u64) -> Option<Flusher> {
        self.flushers.remove(&me)
    }

    /// The flusher for which the pwqs report; it leaves.
    pub(crate) fn take_first(&mut self) -> Option<(u64, Option<Flusher>)> {
        let first = self.state.first()?;
        Some((first, self.leave(first)))
    }
}

impl Flusher {
    /// Not under a lock.
    pub(crate) fn tell(self) {
        match self {
            Self::Thread(event) => event.set(),
            Self::Call(call) => call(),
        }
    }
}

impl fmt::Debug for Flusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread(_) => "Thread",
            Self::Call(_) => "Call",
        })
    }
}

impl State {
    /// The colour of what is queued now.
    pub(super) fn work_color(&self) -> u8 {
        self.flushes.as_ref().map_or(0, |flushes| flushes.state.work_color())
    }
}
