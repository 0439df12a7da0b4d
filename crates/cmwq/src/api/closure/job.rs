//! What a closure's item runs, and whom that concerns besides the handle.

use super::{Origin, Outcome};
use crate::os::panic::{self, guarded};

/// A function, and its owner.
pub(crate) trait Job<T> {
    type Owner: Owner;
    /// The owner is dropped behind everything else of the closure.
    fn split(self) -> (impl FnOnce() -> T, Self::Owner);
}

/// Who is told what nobody joins.
pub(crate) trait Owner {
    /// The handle has gone. To be called at most once. May unwind if there is anything to drop: a
    /// panic's payload, or a value.
    fn unjoined<T>(&self, outcome: Outcome<T>, origin: Origin);
}

/// A function of its own.
impl<F: FnOnce() -> T, T> Job<T> for F {
    type Owner = ();

    #[inline]
    fn split(self) -> (impl FnOnce() -> T, ()) {
        (self, ())
    }
}

/// A panic goes to the handler, a value is dropped.
impl Owner for () {
    #[inline]
    fn unjoined<T>(&self, outcome: Outcome<T>, origin: Origin) {
        match outcome {
            Outcome::Panicked(payload) => {
                guarded(move || panic::handle(&*payload, || origin.describe()))
            }
            outcome => drop(outcome),
        }
    }
}

/// A function of somebody's.
pub(crate) struct Owned<F, O>(pub(crate) F, pub(crate) O);

impl<F: FnOnce() -> T, O: Owner, T> Job<T> for Owned<F, O> {
    type Owner = O;

    fn split(self) -> (impl FnOnce() -> T, O) {
        (self.0, self.1)
    }
}
