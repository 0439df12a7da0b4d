//! Integration tests of the runtime, on real threads.
//!
//! One process has one runtime, so tests that need another environment (detection source,
//! parameters, user, limits, fewer CPUs) are *scenes*: this binary executes itself to play one; see
//! [`support::scene`].
//!
//! Nothing here sleeps to let things settle: a test waits for a condition, with a generous time
//! limit that fails with a message. Sleeps are what items do, as their subject.

mod attrs;
mod awaiting;
mod bh;
mod births;
mod bounded;
mod cancel;
mod closed_files;
mod closing;
mod closures;
mod config;
mod conformance;
mod control;
mod cpu_numbers;
mod deferrable;
mod degrade;
mod delayed;
mod drain;
mod drops;
mod ending;
mod flush;
mod fork;
mod freeze;
mod heart;
mod hogs;
mod hotplug;
mod idle;
mod inspect;
mod iterators;
mod kinds;
mod known_as;
mod legacy;
mod limits;
mod matrix;
mod max_workers;
mod names;
mod nesting;
mod nproc;
mod panics;
mod periodic;
mod placement;
mod pods;
mod privilege;
mod programs;
mod rcu;
mod reference;
mod rescue;
mod run_here;
mod scopes;
mod sharing;
mod show;
mod shutdown;
mod stats;
mod stress;
mod support;
mod sysfs;
mod taking_back;
mod trace;
mod watchdog;
mod work;

/// All scenes, by module.
const SCENES: &[&[support::scene::Scene]] = &[
    attrs::SCENES,
    bh::SCENES,
    births::SCENES,
    closed_files::SCENES,
    closing::SCENES,
    config::SCENES,
    conformance::SCENES,
    control::SCENES,
    degrade::SCENES,
    delayed::SCENES,
    drops::SCENES,
    ending::SCENES,
    fork::SCENES,
    freeze::SCENES,
    heart::SCENES,
    hogs::SCENES,
    hotplug::SCENES,
    idle::SCENES,
    inspect::SCENES,
    limits::SCENES,
    matrix::SCENES,
    max_workers::SCENES,
    names::SCENES,
    nesting::SCENES,
    nproc::SCENES,
    panics::SCENES,
    placement::SCENES,
    pods::SCENES,
    privilege::SCENES,
    programs::SCENES,
    rcu::SCENES,
    shutdown::SCENES,
    stats::SCENES,
    reference::SCENES,
    rescue::SCENES,
    run_here::SCENES,
    watchdog::SCENES,
    sysfs::SCENES,
    taking_back::SCENES,
    trace::SCENES,
];
