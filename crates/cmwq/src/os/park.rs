//! How a worker sleeps and is woken: a word of *tokens*, and an event that happens once.
//!
//! A token says why one is woken. It stays until it is taken, so a wake-up that comes before the
//! sleep is not lost, and a second wake-up with the same token costs one atomic operation and no
//! system call.
//!
//! | bit | meaning |
//! |---|---|
//! | 0 [`WAKE`] | kicked: there may be work, or it is time to leave |
//! | 1 [`CHECK`] | the CPU went idle while work waits: verify who is blocked |
//! | 31 `PARKED` | the owner sleeps on the futex |
//!
//! Why: docs/decisions/no-spinning.md

use std::fmt;
use std::time::Duration;

use crate::os::sync::{Futex, Ordering, acquire, release};

/// Kicked.
pub(crate) const WAKE: u32 = 1 << 0;
/// Asked to verify which workers are blocked.
pub(crate) const CHECK: u32 = 1 << 1;
const TOKENS: u32 = WAKE | CHECK;
const PARKED: u32 = 1 << 31;

/// One sleeper, any number of wakers. Wakers may come at any time, also after the owner has gone:
/// parkers are recycled, never freed, so a late token wakes the next owner for nothing, which it
/// can bear.
#[derive(Debug)]
pub(crate) struct Parker {
    futex: Futex,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { futex: Futex::new(0) }
    }

    /// Takes the tokens that are there, without sleeping.
    pub(crate) fn take(&self) -> u32 {
        // ORDERING: Acquire pairs with the Release of `unpark`: what the waker did before is
        // visible.
        self.futex.word.swap(0, acquire("park_take")) & TOKENS
    }

    /// Whether there is a token, as far as can be seen without ordering.
    #[inline]
    pub(crate) fn has_token(&self) -> bool {
        // ORDERING: no pairing: a hint.
        self.futex.word.load(Ordering::Relaxed) & TOKENS != 0
    }

    /// Sleeps until there is a token, and takes it. 0: the time was up, or, where there is a time
    /// limit, a signal came: whoever has one looks at the clock again, and sleeps for the rest.
    pub(crate) fn park(&self, timeout: Option<Duration>) -> u32 {
        loop {
            // ORDERING: no pairing: entering the sleep publishes nothing; `take` acquires
            // afterwards.
            let empty =
                self.futex.word.compare_exchange(0, PARKED, Ordering::Relaxed, Ordering::Relaxed);
            let has_slept = empty.is_ok();
            if has_slept {
                self.futex.wait(PARKED, timeout);
            }
            let tokens = self.take();
            // Not for the whole time once more.
            if tokens != 0 || has_slept && timeout.is_some() {
                return tokens;
            }
        }
    }

    /// Leaves a token, and wakes the owner if it sleeps.
    pub(crate) fn unpark(&self, token: u32) {
        debug_assert!(token & TOKENS == token && token != 0);
        // ORDERING: Release pairs with the Acquire of `take`.
        let was = self.futex.word.fetch_or(token, release("unpark"));
        if was & TOKENS == 0 && was & PARKED != 0 {
            self.futex.wake(1);
        }
    }
}

/// Something that happens once, and that any number of threads may wait for.
pub(crate) struct Event {
    futex: Futex,
}

const HAPPENED: u32 = 1;
const WAITERS: u32 = 2;

impl Event {
    pub(crate) fn new() -> Self {
        Self { futex: Futex::new(0) }
    }

    /// It has not happened yet, as when it was new. By its only waiter, when everybody who was to
    /// set it has.
    pub(crate) fn renew(&self) {
        // ORDERING: no pairing: the waiter hands it to who sets it, and with it this.
        self.futex.word.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of `set`.
        self.futex.word.load(acquire("event_is_set")) & HAPPENED != 0
    }

    /// Lets all waiters go, now and later. The caller must keep the event alive during the call; it
    /// may be in use again before that is over.
    pub(crate) fn set(&self) {
        // ORDERING: Release pairs with the Acquire of `is_set` and `wait`.
        if self.futex.word.swap(HAPPENED, release("event_set")) & WAITERS != 0 {
            self.futex.wake(u32::MAX >> 1);
        }
    }

    /// Waits until [`set`](Self::set). `false`: the time was up, or, where there is a time limit, a
    /// signal came.
    #[inline(always)]
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        loop {
            // ORDERING: Acquire pairs with the Release of `set`.
            let was = self.futex.word.fetch_or(WAITERS, acquire("event_wait"));
            if was & HAPPENED != 0 {
                return true;
            }
            self.futex.wait(WAITERS, timeout);
            if self.is_set() {
                return true;
            }
            if timeout.is_some() {
                return false;
            }
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("set", &self.is_set()).finish()
    }
}
