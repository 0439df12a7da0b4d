//! What is used again when its owner has gone, and never freed: a waker that takes no lock may be
//! late with it. At worst it wakes the next owner for nothing.

use super::sync::{PlainGuard, PlainMutex, lock_plain};

/// A model checker's words must not outlive the execution they were made in.
pub(crate) const IS_RECYCLED: bool = !super::IS_MODEL;

/// Those of one kind that nobody owns. Lock: its own, innermost.
#[derive(Debug)]
pub(crate) struct Recycled<T: 'static>(PlainMutex<Vec<&'static T>>);

/// Nobody takes one, or gives one back; see `fork`.
pub(crate) type Guard<T> = PlainGuard<'static, Vec<&'static T>>;

impl<T> Recycled<T> {
    pub(crate) const fn new() -> Self {
        Self(PlainMutex::new(Vec::new()))
    }

    /// One that nobody owns, or a new one.
    pub(crate) fn take(&self, new: impl FnOnce() -> T) -> &'static T {
        let free = lock_plain(&self.0).pop();
        free.unwrap_or_else(|| Box::leak(Box::new(new())))
    }

    /// Its owner has gone.
    pub(crate) fn give_back(&self, one: &'static T) {
        if IS_RECYCLED {
            lock_plain(&self.0).push(one);
        }
    }

    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    pub(crate) fn lock(&'static self) -> Guard<T> {
        lock_plain(&self.0)
    }
}
