//! Which process this is, as far as forks go: how many there were since the library was first used.
//!
//! Who keeps something of a process's own (a mapping, a runtime, a table) keeps the number with it,
//! and compares the two before use: a child has inherited the memory, but not the thing.

use crate::os::sync::plain::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many forks this process is the child of, since the library was first used.
#[inline]
pub(crate) fn current() -> u32 {
    // ORDERING: no pairing: it changes while there is one thread.
    if super::IS_MODEL { 0 } else { GENERATION.load(Ordering::Relaxed) }
}

/// Whether this process has inherited anything.
#[inline]
pub(crate) fn is_child() -> bool {
    current() != 0
}

/// This process is a child that was just forked, and has one thread.
pub(crate) fn begin() {
    // ORDERING: no pairing: the child has one thread.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
