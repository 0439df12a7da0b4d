//! Which CPU's pool an item goes to if its own CPU has gone. Asked for each item, so without a
//! lock.
//!
//! ORDERING (all of it): no pairing: while a CPU comes or leaves an item may go to either pool, and
//! both serve it.

use cmwq_core::place;

use super::{CpusInUse, Machine};
use crate::os::sync::{AtomicUsize, Ordering};
use crate::os::topo::CpuSet;

/// By CPU index.
#[derive(Debug)]
pub(super) struct StandIns {
    /// A present CPU: the CPU itself, or its stand-in.
    of: Box<[AtomicUsize]>,
    /// A CPU that managed queues use unasked: the CPU itself, or its stand-in.
    managed: Box<[AtomicUsize]>,
}

impl StandIns {
    pub(super) fn new(machine: &Machine, in_use: &CpusInUse) -> Self {
        let each = || machine.cpus.iter().map(|_| AtomicUsize::new(0)).collect();
        let stand_ins = Self { of: each(), managed: each() };
        stand_ins.set(machine, in_use);
        stand_ins
    }

    pub(super) fn set(&self, machine: &Machine, in_use: &CpusInUse) {
        set_stand_ins(&self.of, machine, &in_use.allowed);
        set_stand_ins(&self.managed, machine, &in_use.managed);
    }

    #[inline]
    pub(super) fn of(&self, index: usize) -> usize {
        self.of[index].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn managed(&self, index: usize) -> usize {
        self.managed[index].load(Ordering::Relaxed)
    }
}

fn set_stand_ins(stand_ins: &[AtomicUsize], machine: &Machine, cpus: &CpuSet) {
    let is_here = |index: usize| cpus.contains(machine.cpus[index]);
    let here: Vec<usize> = (0..machine.cpus.len()).filter(|&index| is_here(index)).collect();
    for (index, stand_in) in stand_ins.iter().enumerate() {
        let other = || place::stand_in(index, here.len()).map(|nth| here[nth]);
        let to = if is_here(index) { Some(index) } else { other() };
        stand_in.store(to.unwrap_or(index), Ordering::Relaxed);
    }
}
