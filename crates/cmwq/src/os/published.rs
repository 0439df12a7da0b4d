//! Pointers that are set under somebody's lock and read without any: the ways in which this crate
//! publishes things.
//!
//! Where the kernel has RCU, things here live for ever ([`Lasting`]: pools, the runtime) or as long
//! as the pointer to them ([`Published`]), so that readers need nothing but to see the whole of
//! what the pointer leads to.

use std::fmt;
use std::marker::PhantomData;
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

/// Leads to something that lives for ever, and later perhaps to another such thing.
pub(crate) struct Lasting<T: 'static> {
    thing: AtomicPtr<T>,
    /// It may be sent and shared as such a reference may.
    as_reference: PhantomData<&'static T>,
}

impl<T> Lasting<T> {
    /// Leads to nothing yet.
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) const fn nothing() -> Self {
        Self { thing: AtomicPtr::new(ptr::null_mut()), as_reference: PhantomData }
    }

    /// The same; a model's atomics are not made in statics.
    #[cfg(any(cmwq_loom, cmwq_shuttle))]
    pub(crate) fn nothing() -> Self {
        Self { thing: AtomicPtr::new(ptr::null_mut()), as_reference: PhantomData }
    }

    /// What it leads to, if anything.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // ORDERING: Acquire pairs with the Release of `set`.
        let thing = self.thing.load(acquire("lasting_get"));
        // SAFETY: null, or from a reference that lasts for ever.
        unsafe { thing.as_ref() }
    }

    /// Leads to `thing` from now on. Who has what was there before may keep it.
    pub(crate) fn set(&self, thing: &'static T) {
        // ORDERING: Release pairs with the Acquire of `get`.
        self.thing.store(ptr::from_ref(thing).cast_mut(), release("lasting_set"));
    }

    /// Leads to nothing again.
    pub(crate) fn clear(&self) {
        // ORDERING: no pairing: nothing has nothing to see.
        self.thing.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for Lasting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lasting").field(&self.get().is_some()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Published<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Published").field(&self.get()).finish()
    }
}
