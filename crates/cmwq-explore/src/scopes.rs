//! The scopes that are searched. Items are named `a`, `b`, … in reports, in the order given here.

use crate::scope::{Faults, Op, Scope};

mod batches;
mod helping;
mod items;
mod larger;
mod moving;
mod workers;

pub use larger::long;

const NONE: Faults = Faults {
    false_reports: 0,
    spurious_wakes: 0,
    hogs: 0,
    failed_creations: 0,
    refusals: 0,
    culls: 0,
    maydays: None,
    visits: None,
    beliefs: 0,
    starvations: 0,
    outage: false,
    stray_reports: false,
    alarms: false,
    lending: false,
};

fn programs(all: &[&[Op]]) -> Vec<Vec<Op>> {
    all.iter().map(|program| program.to_vec()).collect()
}

/// Those of the gate: each takes seconds.
#[must_use]
pub fn gate() -> Vec<Scope> {
    vec![
        workers::reopen(),
        workers::reopen_while_failing(),
        workers::blocking(),
        workers::failing(),
        workers::refused(),
        workers::reports(),
        workers::alarms(),
        helping::alarms(),
        workers::hogs(),
        workers::hogs_managed(),
        workers::processes(),
        workers::processes_wait_soon(),
        items::limits(),
        items::cancelling(),
        items::inactive_barriers(),
        items::running_here(),
        items::running_here_in_batches(),
        items::disabling(),
        items::delayed(),
        items::expiring(),
        items::expiring_locked(),
        items::expiring_unbound(),
        items::shutting_down(),
        items::chained(),
        items::flushing(),
        items::flushing_items(),
        items::reentrance(),
        workers::hotplug(),
        workers::hotplug_managed(),
        workers::waiting_first(),
        workers::waiting_soon(),
        moving::attributes(),
        moving::ordered(),
        moving::ordered_taken_back(),
        moving::node(),
        moving::total(),
        moving::split(),
        moving::split_and_attributes(),
        moving::node_and_attributes(),
        helping::rescue(),
        helping::rescue_in_turn(),
        helping::rescue_and_attributes(),
        helping::lending(),
        helping::lending_woken(),
        helping::lending_again(),
        helping::lending_and_waiting(),
        helping::starving(),
        workers::outage(),
        items::slots_of_runs(),
        workers::reports_lost(),
        moving::retiring(),
        workers::culling(),
        batches::batches(),
        batches::listed(),
        batches::failing(),
        batches::reported(),
        batches::crowded(),
        batches::flushed(),
        batches::cancelled(),
        batches::limited(),
        batches::shared(),
        batches::helped(),
        batches::hotplug(),
    ]
}
