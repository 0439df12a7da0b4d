//! Waiting for somebody who is about to do something and may have lost its CPU, as long as the
//! core's [`cmwq_core::Backoff`] says.

use std::time::Duration;

use super::sync;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Backoff(cmwq_core::Backoff);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(cmwq_core::Backoff::new())
    }

    pub(crate) fn pause(&mut self) {
        match self.0.after_failure() {
            0 => sync::yield_now(),
            ns => sync::sleep(Duration::from_nanos(ns)),
        }
    }
}
