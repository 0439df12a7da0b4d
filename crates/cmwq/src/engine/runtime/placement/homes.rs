//! Which pool an item goes to that is queued from a CPU: asked for each item, so without a lock.
//!
//! ORDERING (all of it): no pairing: where an item goes while a CPU comes or leaves is anybody's
//! guess, and either pool serves it.

use super::{Machine, Placed};
use crate::os::sync::{AtomicUsize, Ordering};
use crate::os::topo::CpuSet;

/// By CPU index.
#[derive(Debug)]
pub(super) struct Homes {
    /// A CPU that is here: itself, or one that stands for it.
    of: Box<[AtomicUsize]>,
    /// One that managed queues use unasked.
    managed: Box<[AtomicUsize]>,
}

impl Homes {
    pub(super) fn new(machine: &Machine, placed: &Placed) -> Self {
        let each = || machine.cpus.iter().map(|_| AtomicUsize::new(0)).collect();
        let homes = Self { of: each(), managed: each() };
        homes.set(machine, placed);
        homes
    }

    pub(super) fn set(&self, machine: &Machine, placed: &Placed) {
        set_homes(&self.of, machine, &placed.allowed);
        set_homes(&self.managed, machine, &placed.managed);
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

fn set_homes(homes: &[AtomicUsize], machine: &Machine, cpus: &CpuSet) {
    let is_here = |index: usize| cpus.contains(machine.cpus[index]);
    let here: Vec<usize> = (0..machine.cpus.len()).filter(|&index| is_here(index)).collect();
    for (index, home) in homes.iter().enumerate() {
        // CPUs that are gone are spread over those that are left.
        let to =
            if is_here(index) { Some(index) } else { here.get(index % here.len().max(1)).copied() };
        home.store(to.unwrap_or(index), Ordering::Relaxed);
    }
}
