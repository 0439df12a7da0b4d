//! A record that one writes while others read: a count that is odd while it changes, and words.
//!
//! Writers of one record take turns by some lock or are one thread. A reader is in another process,
//! has only read access, and the writer may have been stopped in the middle, so nobody waits: a
//! copy is whole or it is thrown away and made again.
//!
//! | writer | reader |
//! |---|---|
//! | 1. make the count odd | 1. read the count; odd: later |
//! | 2. release fence | 2. read the words |
//! | 3. write the words | 3. acquire fence |
//! | 4. make it even, Release | 4. read the count; another one: again |
//!
//! If a reader saw a word of step 3, its fence and the writer's make it see at least the odd count.
//! If it saw the even count of step 4 first, it sees all words.

use crate::os::sync::{AtomicU64, Ordering, acquire, acquire_fence, release, release_fence};

/// Changes the words of a record whose count is `seq`.
#[inline]
pub(crate) fn write<R>(seq: &AtomicU64, change: impl FnOnce() -> R) -> R {
    let before = begin(seq);
    let done = change();
    end(seq, before);
    done
}

/// The last step, of a change that began at the count `before`.
#[inline]
pub(crate) fn end(seq: &AtomicU64, before: u64) {
    // ORDERING: Release pairs with the Acquire in `copy`.
    seq.store(before.wrapping_add(2), release("record_end"));
}

#[inline]
fn begin(seq: &AtomicU64) -> u64 {
    // ORDERING: no pairing: written by one at a time. A writer that died in the middle left it odd.
    let before = seq.load(Ordering::Relaxed) & !1;
    seq.store(before | 1, Ordering::Relaxed);
    // ORDERING: the fence pairs with the one in `copy`.
    release_fence("record_begin");
    before
}

/// Copies the words behind the count. `false`: the record was changing.
pub fn copy(seq: &AtomicU64, words: &[AtomicU64], to: &mut [u64]) -> bool {
    // ORDERING: Acquire pairs with the Release in `write`.
    let before = seq.load(acquire("record_copy"));
    if before & 1 != 0 {
        return false;
    }
    for (to, word) in to.iter_mut().zip(words) {
        *to = word.load(Ordering::Relaxed);
    }
    // ORDERING: the fence pairs with the one in `begin`.
    acquire_fence("record_copy");
    seq.load(Ordering::Relaxed) == before
}
