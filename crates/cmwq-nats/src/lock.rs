//! Locks that a panic of somebody who held them does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is guarded is left whole by whoever may panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
