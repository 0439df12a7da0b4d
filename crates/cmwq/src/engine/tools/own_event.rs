//! The event with which a thread waits for an item: the same one for each of its waits.
//!
//! Setting an event wakes the sleeper last; the waiter may have seen the event set, and have gone
//! on, before. So events are [recycled](crate::os::recycled) when their threads end, as parkers
//! are: a late wake-up then meets the wait of another thread, which goes on waiting.

use std::cell::Cell;
use std::ops::Deref;

use crate::os::park::Event;
use crate::os::recycled::{IS_RECYCLED, Recycled};

/// The events of threads that have ended.
pub(crate) static EVENTS: Recycled<Event> = Recycled::new();

std::thread_local! {
    static OWN: Own = const { Own(Cell::new(None)) };
}

/// What a thread keeps between two waits.
struct Own(Cell<Option<&'static Event>>);

/// An event that is not set, for one wait. To be dropped when it will not be set any more.
pub(crate) struct OwnEvent(&'static Event);

impl OwnEvent {
    /// The calling thread's event, or another one while that is in use.
    #[inline]
    pub(crate) fn take() -> Self {
        let own = OWN.try_with(|own| own.0.take()).ok().flatten();
        Self(own.unwrap_or_else(|| EVENTS.take(Event::new)))
    }

    /// For the thread that sets it.
    pub(crate) fn event(&self) -> &'static Event {
        self.0
    }
}

impl Deref for OwnEvent {
    type Target = Event;

    fn deref(&self) -> &Event {
        self.0
    }
}

impl Drop for OwnEvent {
    #[inline]
    fn drop(&mut self) {
        if !IS_RECYCLED {
            return;
        }
        self.0.renew();
        // The thread may be about to end, or this wait was inside of another one.
        let spare = OWN.try_with(|own| own.0.replace(Some(self.0))).unwrap_or(Some(self.0));
        if let Some(spare) = spare {
            EVENTS.give_back(spare);
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(event) = self.0.take() {
            EVENTS.give_back(event);
        }
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn a_thread_waits_with_the_same_one_again_and_it_is_not_set() {
        let first = OwnEvent::take();
        first.set();
        assert!(first.wait(None));
        let (event, inner) = (first.event(), OwnEvent::take());
        assert!(!ptr::eq(event, inner.event()), "it is in use");
        drop((inner, first));
        let again = OwnEvent::take();
        assert!(ptr::eq(event, again.event()) && !again.is_set());
    }
}
