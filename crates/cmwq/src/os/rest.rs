//! Waiting for somebody who is about to do something and may have lost its CPU, by the core's
//! [`Pauses`].

use std::time::Duration;

use cmwq_core::Pauses;

use super::sync;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Rest(Pauses);

impl Rest {
    pub(crate) fn new() -> Self {
        Self(Pauses::new())
    }

    pub(crate) fn rest(&mut self) {
        match self.0.after_failure() {
            0 => sync::yield_now(),
            ns => sync::sleep(Duration::from_nanos(ns)),
        }
    }
}
