//! Connections that are kept for the next call.

use std::sync::{Mutex, PoisonError};

/// Idle connections. As many are made as are used at once, and the pool limits these: see
/// `Kind::at_once`.
#[derive(Debug)]
pub(super) struct Connections<C>(Mutex<Vec<C>>);

impl<C> Connections<C> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(super) fn take(&self) -> Option<C> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// For the next call. One that has failed is not given back.
    pub(super) fn give(&self, connection: C) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}
