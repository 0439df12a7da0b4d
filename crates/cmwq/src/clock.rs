//! The driver's clock: nanoseconds since its first use, monotonic.

use cmwq_core::Nanos;

#[cfg(not(any(loom, shuttle)))]
pub(crate) fn now() -> Nanos {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    // One tick ahead of zero, so that "never" and "at the start" differ.
    let since = START.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).saturating_add(cmwq_core::TICK_NS)
}

/// A model has no time: every look at the clock is a millisecond later than the last.
#[cfg(any(loom, shuttle))]
pub(crate) fn now() -> Nanos {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NOW: AtomicU64 = AtomicU64::new(1_000_000_000);
    NOW.fetch_add(1_000_000, Ordering::Relaxed)
}
