//! Pointers that are set under somebody's lock and read without any: the ways in which this crate
//! publishes things.
//!
//! Where the kernel has RCU, things here live for ever ([`Lasting`]: pools, parkers, the runtime),
//! as long as the pointer to them ([`Published`]), or as long as somebody promises ([`Pointer`]: a
//! queue's ways into pools). So readers need nothing but to see the whole of what the pointer leads
//! to.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use crate::os::sync::{AtomicPtr, Ordering, acquire, release};

/// See the module header. Who sets it says how long what it leads to is there.
pub(crate) struct Pointer<T>(AtomicPtr<T>);

impl<T> Pointer<T> {
    /// Leads to nothing yet.
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) const fn nowhere() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The same; a model's atomics are not made in statics.
    #[cfg(any(cmwq_loom, cmwq_shuttle))]
    pub(crate) fn nowhere() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Where it leads: null, or to something whose whole can be seen.
    #[inline]
    pub(crate) fn get(&self) -> *mut T {
        // ORDERING: Acquire pairs with the Release of `set`.
        self.0.load(acquire("published"))
    }

    /// Leads there from now on. Who has what was there before may keep it, as long as it is there.
    #[inline]
    pub(crate) fn set(&self, to: *mut T) {
        // ORDERING: Release pairs with the Acquire of `get`.
        self.0.store(to, release("publish"));
    }

    /// Where it leads, for those who set it: one at a time.
    #[inline]
    fn own(&self) -> *mut T {
        // ORDERING: no pairing: what was written here was written before.
        self.0.load(Ordering::Relaxed)
    }
}

/// Owns what it points at.
pub(crate) struct Published<T> {
    thing: Pointer<T>,
}

// SAFETY: it hands out shared references to, and drops, a `T`.
unsafe impl<T: Send + Sync> Sync for Published<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Published<T> {}

impl<T> Published<T> {
    pub(crate) fn nothing() -> Self {
        Self { thing: Pointer::nowhere() }
    }

    /// What was published, if anything.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: null, or made by `publish` and not dropped before `self`.
        unsafe { self.thing.get().as_ref() }
    }

    /// Publishes a thing, the first and last here.
    ///
    /// # Panics
    /// If there was one. Calls must not overlap: their callers hold a lock.
    pub(crate) fn publish(&self, thing: Box<T>) -> &T {
        assert!(self.thing.own().is_null(), "published twice");
        let thing = Box::into_raw(thing);
        self.thing.set(thing);
        // SAFETY: just made, and not dropped before `self`.
        unsafe { &*thing }
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let thing = self.thing.own();
        if !thing.is_null() {
            // SAFETY: made by `Box::into_raw` in `publish`; `&mut self` ends all that `get` gave
            // out.
            drop(unsafe { Box::from_raw(thing) });
        }
    }
}

/// Leads to something that lives for ever, and later perhaps to another such thing.
pub(crate) struct Lasting<T: 'static> {
    thing: Pointer<T>,
    /// It may be sent and shared as such a reference may.
    as_reference: PhantomData<&'static T>,
}

impl<T> Lasting<T> {
    /// Leads to nothing yet.
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) const fn nothing() -> Self {
        Self { thing: Pointer::nowhere(), as_reference: PhantomData }
    }

    /// The same; a model's atomics are not made in statics.
    #[cfg(any(cmwq_loom, cmwq_shuttle))]
    pub(crate) fn nothing() -> Self {
        Self { thing: Pointer::nowhere(), as_reference: PhantomData }
    }

    /// What it leads to, if anything.
    #[inline]
    pub(crate) fn get(&self) -> Option<&'static T> {
        // SAFETY: null, or from a reference that lasts for ever.
        unsafe { self.thing.get().as_ref() }
    }

    /// Leads to `thing` from now on. Who has what was there before may keep it.
    pub(crate) fn set(&self, thing: &'static T) {
        self.thing.set(ptr::from_ref(thing).cast_mut());
    }

    /// Leads to nothing again.
    pub(crate) fn clear(&self) {
        self.thing.set(ptr::null_mut());
    }

    /// Leads there, or to nothing, where it mostly leads already. By one at a time.
    #[inline]
    pub(crate) fn follow(&self, to: Option<&'static T>) {
        let to = to.map_or(ptr::null_mut(), |thing| ptr::from_ref(thing).cast_mut());
        if self.thing.own() != to {
            self.thing.set(to);
        }
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
