//! What features of the crate add: a program of its own, so that all other tests need not be
//! compiled again with them.

#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "usdt")]
mod probes;
mod rcu;
#[cfg(feature = "tracing")]
mod spans;
#[allow(dead_code, unused_imports, reason = "all tests share it")]
mod support;

/// All scenes, by module.
const SCENES: &[&[support::scene::Scene]] = &[
    #[cfg(feature = "metrics")]
    metrics::SCENES,
    rcu::SCENES,
    #[cfg(feature = "tracing")]
    spans::SCENES,
];
