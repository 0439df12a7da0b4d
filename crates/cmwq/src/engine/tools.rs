//! Tools and values, which know neither pools nor queues: settings, clocks, counters, threads.

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
