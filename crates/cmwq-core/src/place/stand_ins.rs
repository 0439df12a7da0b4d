//! Which CPU stands in for one that has gone.

/// Which of the `nr_here` CPUs that are here, counted from 0, stands in for the one that is number
/// `index` of all and has gone: where items go that are queued for it on a managed queue, and those
/// of a caller that is there. They are spread, so that not all go to the same one. `None`: none is
/// here.
///
/// KERNEL: differs: a per-CPU pool whose CPU has gone serves on, disassociated; so do ours of
/// per-CPU queues for who names the CPU. Managed pods have no twin.
#[must_use]
pub const fn stand_in(index: usize, nr_here: usize) -> Option<usize> {
    index.checked_rem(nr_here)
}
