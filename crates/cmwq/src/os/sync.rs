//! The only module that names `std::sync`, loom or shuttle, and the only one that says how strong
//! an ordering is.
//!
//! Everything else of the driver takes its locks, atomics, threads, futexes and naps from here, so
//! the same code runs on threads, under loom (single protocols, every interleaving, every value the
//! memory model permits) and under shuttle (the whole driver, random interleavings). What is *not*
//! modelled, because it guards nothing that two threads race for: [`Arc`], [`OnceLock`] and
//! [`PlainMutex`]. No lock of the other kind may be taken inside of those: a model checker's
//! threads are one thread to them.

#[cfg(any(cmwq_loom, not(cmwq_shuttle)))]
#[cfg_attr(cmwq_loom, allow(dead_code, unused_imports, reason = "only its model uses it there"))]
mod mutex;
mod order;
#[cfg_attr(any(cmwq_loom, cmwq_shuttle), path = "sync/model.rs")]
#[cfg_attr(not(any(cmwq_loom, cmwq_shuttle)), path = "sync/threads.rs")]
mod primitives;

pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::sync::{Arc, Mutex as PlainMutex, MutexGuard as PlainGuard, OnceLock, Weak};

#[cfg(all(test, cmwq_loom))]
pub(crate) use mutex::{Mutex as GuardedMutex, RawMutex};
#[cfg(all(test, cmwq_loom))]
pub(crate) use order::SITES as ORDERING_SITES;
pub(crate) use order::{
    acq_rel, acquire, acquire_fence, fenced_load, in_order, leaves_out, release, release_fence,
    seq_cst_fence, without,
};
pub(crate) use primitives::*;

/// The standard library's own, for what no model has: statics of the process, and signal handlers.
#[allow(unused_imports, reason = "models leave out much of what uses these")]
pub(crate) mod plain {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering,
    };
    pub(crate) use std::sync::mpsc::{Receiver, Sender, channel};
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
}

/// As [`lock_plain`], unless somebody else has it.
pub(crate) fn try_lock_plain<T>(mutex: &PlainMutex<T>) -> Option<PlainGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

/// Locks, whatever a panicking holder left behind: no user code runs under any lock of this crate,
/// so a poisoned one only says that one of our own assertions fired.
pub(crate) fn lock_plain<T>(mutex: &PlainMutex<T>) -> PlainGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
