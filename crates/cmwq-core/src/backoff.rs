//! For how long somebody pauses who waits for what another thread is about to do, and asks again
//! and again.

use crate::ids::Nanos;

/// How long to pause each time. The other thread may only have lost its CPU: the first time it is
/// let run, and then the pauses become longer.
///
/// KERNEL: no twin. There `cpu_relax` or a wait queue, since who holds a spinlock keeps its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    next: Nanos,
}

impl Backoff {
    /// The first that is not only a chance for others to run.
    const FIRST: Nanos = 20_000;
    const LONGEST: Nanos = 1_000_000;

    /// Nothing was tried yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: 0 }
    }

    /// It was tried in vain: for how long to sleep before it is tried again. 0: not at all, but
    /// others are to run.
    #[must_use]
    pub const fn after_failure(&mut self) -> Nanos {
        let now = self.next;
        self.next = match now {
            0 => Self::FIRST,
            _ if 2 * now < Self::LONGEST => 2 * now,
            _ => Self::LONGEST,
        };
        now
    }
}
