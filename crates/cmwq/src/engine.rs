//! Acts on what `cmwq-core` decides: queues, pools, workers, and the threads that serve them.
//!
//! Three levels, each of which knows those below it. What the lower levels call of the highest one
//! is handed in when a runtime starts: [`runtime::Upcalls`].
//!
//! Why: docs/decisions/engine-in-three-levels.md

// Tools and values, which know neither pools nor queues.
pub(crate) mod tools;

// What there is, with its locks. These know each other: a runtime has pools and queues, and each of
// those its runtime.
pub(crate) mod bh;
pub(crate) mod pool;
pub(crate) mod runtime;
pub(crate) mod service;
pub(crate) mod wq;

// What is done with it, by threads of the program and by ours.
pub(crate) mod item;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod threads;
