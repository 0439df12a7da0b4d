//! Acts on what `cmwq-core` decides: queues, pools, workers, and the threads that serve them.
//!
//! Three levels, each of which knows those below it. What the lower levels call of the highest one
//! is handed in when a runtime starts: [`runtime::Upcalls`].
//!
//! Why: docs/decisions/engine-in-three-levels.md

// Tools and values, which know neither pools nor queues.
pub(crate) mod account;
pub(crate) mod attrs;
pub(crate) mod comm;
pub(crate) mod headcount;
pub(crate) mod histogram;
pub(crate) mod limit;
pub(crate) mod long_items;
pub(crate) mod meter;
pub(crate) mod own_event;
pub(crate) mod params;
pub(crate) mod plan;
pub(crate) mod reclaim;
pub(crate) mod table;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod watchdog;

// What there is, with its locks. These know each other: a runtime has pools and queues, and each of
// those its runtime.
pub(crate) mod bh;
pub(crate) mod pool;
pub(crate) mod runtime;
pub(crate) mod service;
pub(crate) mod wq;

// What is done with it, by threads of the program and by ours.
#[cfg(not(cmwq_loom))]
pub(crate) mod bare_timers;
pub(crate) mod bh_thread;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod callbacks;
pub(crate) mod caller_computes;
pub(crate) mod creator;
pub(crate) mod current;
pub(crate) mod delayed;
pub(crate) mod detection;
pub(crate) mod draining;
pub(crate) mod effects;
pub(crate) mod freezing;
pub(crate) mod grab;
pub(crate) mod handle;
pub(crate) mod invoke;
pub(crate) mod item_flush;
pub(crate) mod observers;
pub(crate) mod process;
pub(crate) mod queue_flush;
pub(crate) mod queueing;
pub(crate) mod readers;
pub(crate) mod reaper;
pub(crate) mod rescuing;
pub(crate) mod run_here;
pub(crate) mod running;
pub(crate) mod sections;
pub(crate) mod service_thread;
pub(crate) mod shutdown;
pub(crate) mod thread_hooks;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod totals;
pub(crate) mod worker;
