//! No CPU is idle while a worker of a managed queue whose wait in an item is over waits for another
//! CPU. `stall` and `help` ask about items; this asks about workers.

use super::{Checker, Moment, World};
use crate::machine::{Place, WHOLE};

#[derive(Debug)]
pub(super) struct Idle;

impl Checker for Idle {
    fn end_moment(&mut self, moment: &Moment<'_>, world: &World<'_>) -> Result<(), String> {
        // A worker that nobody saw block stays where it is. And where caches matter, a CPU looks
        // around after a while only.
        if !world.config.detection_is_exact() || world.config.caches.is_some() {
            return Ok(());
        }
        let Some(tid) = world.machine.waiting_movable() else { return Ok(()) };
        let nr_idle = world.machine.nr_idle(Place::Domain(WHOLE));
        if nr_idle == 0 || moment.until == Some(moment.now) {
            return Ok(());
        }
        let cpu = world.machine.threads[tid].cpu;
        Err(format!("worker {} waits for CPU {cpu} while {nr_idle} CPUs are idle", tid + 1))
    }
}
