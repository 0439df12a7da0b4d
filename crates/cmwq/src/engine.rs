//! Acts on what `cmwq-core` decides: queues, pools, workers, and the threads that serve them.

pub(crate) mod account;
pub(crate) mod attrs;
#[cfg(not(cmwq_loom))]
pub(crate) mod bare_timers;
pub(crate) mod bh;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod callbacks;
pub(crate) mod caller_computes;
pub(crate) mod comm;
pub(crate) mod current;
pub(crate) mod delayed;
pub(crate) mod detection;
pub(crate) mod draining;
pub(crate) mod flushing;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod fork;
pub(crate) mod freezing;
pub(crate) mod grab;
pub(crate) mod headcount;
pub(crate) mod histogram;
pub(crate) mod invoke;
pub(crate) mod lengths;
pub(crate) mod limit;
pub(crate) mod link;
pub(crate) mod meter;
pub(crate) mod observers;
pub(crate) mod params;
pub(crate) mod plan;
pub(crate) mod pods;
pub(crate) mod pool;
pub(crate) mod readers;
pub(crate) mod reclaim;
pub(crate) mod recorded;
pub(crate) mod rescuer;
pub(crate) mod runtime;
pub(crate) mod service;
pub(crate) mod table;
pub(crate) mod thread;
pub(crate) mod thread_hooks;
pub(crate) mod timers;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) mod totals;
pub(crate) mod watchdog;
pub(crate) mod worker;
pub(crate) mod wq;
