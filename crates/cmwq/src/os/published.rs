//! A pointer that is set under somebody's lock and read without any: the one way in which this
//! crate publishes things.
//!
//! Where the kernel has RCU, things here live for ever (pools) or as long as whoever may look
//! (links of a queue), so that readers need nothing but to see the whole of what the pointer leads
//! to.

use std::fmt;
use std::ptr;

use crate::os::sync::{AtomicPtr, Ordering, acquire, release};

/// See the module header. Owns what it points at.
pub(crate) struct Published<T> {
    thing: AtomicPtr<T>,
}

// SAFETY: it hands out shared references to, and drops, a `T`.
unsafe impl<T: Send + Sync> Sync for Published<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Published<T> {}

impl<T> Published<T> {
    pub(crate) fn nothing() -> Self {
        Self { thing: AtomicPtr::new(ptr::null_mut()) }
    }

    /// What was published, if anything.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // ORDERING: Acquire pairs with the Release of `publish`.
        let thing = self.thing.load(acquire("published"));
        // SAFETY: null, or made by `publish` and not dropped before `self`.
        unsafe { thing.as_ref() }
    }

    /// Publishes a thing, the first and last here.
    ///
    /// # Panics
    /// If there was one. Calls must not overlap: their callers hold a lock.
    pub(crate) fn publish(&self, thing: Box<T>) -> &T {
        // ORDERING: no pairing: calls do not overlap.
        assert!(self.thing.load(Ordering::Relaxed).is_null(), "published twice");
        let thing = Box::into_raw(thing);
        // ORDERING: Release pairs with the Acquire of `get`.
        self.thing.store(thing, release("publish"));
        // SAFETY: just made, and not dropped before `self`.
        unsafe { &*thing }
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // ORDERING: no pairing: nobody else is left.
        let thing = self.thing.load(Ordering::Relaxed);
        if !thing.is_null() {
            // SAFETY: made by `Box::into_raw` in `publish`; `&mut self` ends all that `get` gave
            // out.
            drop(unsafe { Box::from_raw(thing) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Published").field(&self.get()).finish()
    }
}
