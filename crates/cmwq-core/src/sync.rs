//! The only module that names the atomics, and the only one that names orderings.
//!
//! Every ordering that correctness needs is a *site* with a name. Under `--cfg loom` the environment
//! variable `CMWQ_WEAKEN=<site>` turns that one site into `Relaxed`; the mutation test runs the loom models
//! once for each name in [`ORDERING_SITES`] and expects a failure each time, so an ordering that no model
//! needs, or that no model tests, cannot stay unnoticed.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

/// The names of all ordering sites of this crate.
pub const ORDERING_SITES: &[&str] =
    &["claim", "set_queued", "queue_from_idle", "start", "publish_idle"];

/// `AcqRel`, unless the site is being weakened by the mutation test.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn acq_rel(_site: &'static str) -> Ordering {
    Ordering::AcqRel
}

#[cfg(loom)]
pub(crate) fn acq_rel(site: &'static str) -> Ordering {
    debug_assert!(ORDERING_SITES.contains(&site));
    match std::env::var("CMWQ_WEAKEN") {
        Ok(weak) if weak == site => Ordering::Relaxed,
        _ => Ordering::AcqRel,
    }
}
