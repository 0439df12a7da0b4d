//! The flushes of a queue: the core's books, and the threads that wait.

use cmwq_core::FlushState;

use super::State;
use crate::os::park::Event;
use crate::os::sync::Arc;

/// What a queue needs for flushing, made with the first flush of a used queue. Lock: WQ.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    pub(crate) books: FlushState<u64>,
    /// The flushers that wait, by number.
    pub(crate) flushers: Vec<(u64, Arc<Event>)>,
    next: u64,
}

impl Flushes {
    pub(crate) fn enter(&mut self, done: &Arc<Event>) -> u64 {
        let me = self.next;
        self.next += 1;
        self.flushers.push((me, Arc::clone(done)));
        me
    }

    pub(crate) fn leave(&mut self, me: u64) {
        self.flushers.retain(|(id, _)| *id != me);
    }

    /// The event of the flusher for which the pwqs report.
    pub(crate) fn first(&self) -> Option<Arc<Event>> {
        let first = self.books.first()?;
        let known = self.flushers.iter().find(|(id, _)| *id == first);
        known.map(|(_, event)| Arc::clone(event))
    }
}

impl State {
    /// The colour of what is queued now.
    pub(super) fn work_color(&self) -> u8 {
        self.flushes.as_ref().map_or(0, |flushes| flushes.books.work_color())
    }
}
