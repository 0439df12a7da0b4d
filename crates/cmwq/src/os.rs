//! The operating system, and what stands in for it under model checkers: clocks, futexes, CPUs, the
//! environment, and the primitives that are made of them. Imports no layer above it.
//!
//! Why: docs/decisions/cfg-of-models.md

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod countdown;
pub(crate) mod environment;
pub(crate) mod error;
#[doc(hidden)]
pub mod foreign;
pub(crate) mod generation;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod loaded;
pub(crate) mod must_return;
pub(crate) mod notice;
pub(crate) mod panic;
pub(crate) mod park;
pub(crate) mod published;
pub(crate) mod recycled;
pub(crate) mod sense;
pub(crate) mod sync;
pub(crate) mod text;
pub(crate) mod thread_group;
pub(crate) mod topo;

/// Whether this is built for a model checker, whose threads have no CPU time and no `/proc`, and
/// where no watchdog looks.
pub(crate) const IS_MODEL: bool = cfg!(any(cmwq_loom, cmwq_shuttle));
