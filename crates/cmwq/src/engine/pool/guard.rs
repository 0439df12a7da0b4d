//! A pool's lock while it is held, and how it is given back.

use std::ops::{Deref, DerefMut};
use std::thread;

use cmwq_core::Kick;

use super::Locked;
use crate::os::sync::MutexGuard;

/// A pool's lock, held. How it is given back:
///
/// | by | who | what follows |
/// |---|---|---|
/// | `unlock`, `unlock_as` | has listed, decided or changed something | whoever is demanded is woken; board, mapping, inbox and watchdog follow |
/// | `unlock_lent` | a worker, to help another pod | the same, and the pool is watched |
/// | `unlock_to_run` | a worker, to run what it has claimed | the same, but others tell the watchdog |
/// | `unlock_for_later` | holds a queue's lock | the same, but the caller acts, and tells the watchdog, once he holds none |
/// | `unlock_to_create` | creates a worker, or leaves that to others | rescuers are called if it takes long |
/// | `unlock_to_leave` | has asked whether an idle worker is to leave | that one is woken; the mapping follows |
/// | `unlock_quietly` | has changed numbers that nobody has to act on | the mapping follows |
/// | dropping it | has only asked, or comes back | nothing: the mapping follows when one of the others comes |
///
/// Only the first four rows act on what emptying the inbox has demanded. Where another one is used,
/// and somebody was to be woken for that, builds with debug assertions notice.
#[must_use]
pub(crate) struct PoolGuard<'a>(pub(super) MutexGuard<'a, Locked>);

impl Deref for PoolGuard<'_> {
    type Target = Locked;

    #[inline(always)]
    fn deref(&self) -> &Locked {
        &self.0
    }
}

impl DerefMut for PoolGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Locked {
        &mut self.0
    }
}

impl Drop for PoolGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // To watch, and to ask other pods, may be left to who drops the lock next.
        debug_assert!(
            matches!(self.pending_kick, Kick::None | Kick::Watch) || thread::panicking(),
            "a pool's lock is dropped, and {:?} is forgotten",
            self.pending_kick
        );
    }
}
