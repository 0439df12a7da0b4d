//! The system's clock.

use std::sync::OnceLock;
use std::time::Instant;

use cmwq_core::Nanos;

pub(crate) fn now() -> Nanos {
    static START: OnceLock<Instant> = OnceLock::new();
    // One tick ahead of zero, so that "never" and "at the start" differ.
    let since = START.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).saturating_add(cmwq_core::TICK_NS)
}
