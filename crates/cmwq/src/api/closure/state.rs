//! What a closure's run and its handle agree on: one word, on which the handle may sleep.
//!
//! | bit | set | meaning |
//! |---|---|---|
//! | 0 `DONE` | by the run, once | it is over |
//! | 1 `PANICKED`, 2 `REFUSED` | by the run, with `DONE` | what came of it, if no value |
//! | 3 `SLEEPS` | by the handle before `DONE` | somebody may sleep on the word |
//! | 4 `POLLED` | by the handle before `DONE`, which may clear it, too | there is a waker in its cell |
//! | 5 `DETACHED` | by the handle before `DONE` | it has gone and nobody will join |
//! | 6 `RUN_LEFT`, 7 `HANDLE_LEFT` | after `DONE`, if somebody waited for it | that side does not touch the closure any more |
//!
//! Only one thread at a time acts for the handle; any may look whether the run is over. So `DONE`
//! finds the handle in one of three states, which both sides know from then on, and with it whose
//! everything is:
//!
//! | at `DONE` | the function's outcome | the waker's cell | the closure's memory |
//! |---|---|---|---|
//! | `DETACHED` | the run's | nobody's, empty | the run's |
//! | neither `SLEEPS` nor `POLLED` | the handle's | the handle's | the handle's |
//! | else | the handle's | the run's if `POLLED` | whose `leave` is the second |
//!
//! Before `DONE` the outcome's place is the run's, and the cell the handle's while `POLLED` is not
//! set.
//!
//! Why: docs/decisions/closure-in-56-bytes.md

use std::time::Duration;

use crate::os::sync::{Futex, Ordering, acq_rel, acquire, release};

const DONE: u32 = 1 << 0;
const PANICKED: u32 = 1 << 1;
const REFUSED: u32 = 1 << 2;
const SLEEPS: u32 = 1 << 3;
const POLLED: u32 = 1 << 4;
const DETACHED: u32 = 1 << 5;
const RUN_LEFT: u32 = 1 << 6;
const HANDLE_LEFT: u32 = 1 << 7;
/// The run has something to do after `DONE`.
const WAITS: u32 = SLEEPS | POLLED;

/// What came of a closure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum End {
    Value = 0,
    Panicked = PANICKED,
    Refused = REFUSED,
}

/// How the run found the handle at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has gone. Everything is the run's.
    Detached,
    /// Everything is the handle's, and is not to be touched any more.
    Handle,
    /// It waits: see to it, and then [`leave_run`](State::leave_run).
    Waiting { is_polled: bool },
}

/// See the module header.
pub(crate) struct State {
    futex: Futex,
}

impl State {
    pub(crate) fn new() -> Self {
        Self { futex: Futex::new(0) }
    }

    // ---- the handle's side

    /// What came of it, once that is the handle's.
    #[inline]
    pub(crate) fn end(&self) -> Option<End> {
        // ORDERING: Acquire pairs with the Release of `finish`: the outcome, and all that the run
        // did before.
        let word = self.futex.word.load(acquire("closure_end"));
        if word & DONE == 0 {
            return None;
        }
        Some(match word & (PANICKED | REFUSED) {
            PANICKED => End::Panicked,
            REFUSED => End::Refused,
            _ => End::Value,
        })
    }

    /// Whether the run is over.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.end().is_some()
    }

    /// Waits until the run is over, or, without a reason, for less. `false`: it is not.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        // ORDERING: no pairing: the bit alone is told, and who finds the run over looks with `end`.
        if let Some(word) = self.change(|word| word | SLEEPS, Ordering::Relaxed) {
            self.futex.wait(word, timeout);
        }
        self.is_done()
    }

    /// The waker's cell is the run's from now on, to be taken at its end. `false`: the run is over,
    /// and the cell the caller's as before.
    pub(crate) fn publish_waker(&self) -> bool {
        // ORDERING: Release pairs with the Acquire of `finish`: what is in the cell.
        self.change(|word| word | POLLED, release("closure_publish")).is_some()
    }

    /// Makes the waker's cell the caller's again, if it is not. `false`: the run is over, and the
    /// cell remains the run's.
    pub(crate) fn withdraw_waker(&self) -> bool {
        // ORDERING: no pairing: the bit is the handle's own.
        if self.futex.word.load(Ordering::Relaxed) & POLLED == 0 {
            return true;
        }
        // ORDERING: no pairing: the run does not touch the cell before its end.
        self.change(|word| word & !POLLED, Ordering::Relaxed).is_some()
    }

    /// The handle goes, and leaves everything to the run. `false`: the run is over, or there is a
    /// waker.
    #[inline]
    pub(crate) fn detach(&self) -> bool {
        // ORDERING: no pairing: checked by the exchange.
        let word = self.futex.word.load(Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire of `is_detached` and `finish`: what the handle
        // did with the closure, which the run will free.
        let order = release("closure_detach");
        word & (DONE | POLLED) == 0 && self.exchange(word, word | DETACHED, order)
    }

    /// The handle, after the end, has no more use for the closure. `true`: its memory is the
    /// caller's.
    #[inline]
    pub(crate) fn leave_handle(&self) -> bool {
        // ORDERING: no pairing: `end` has been called before, and the bits are the handle's own.
        if self.futex.word.load(Ordering::Relaxed) & WAITS == 0 {
            return true;
        }
        self.leave(HANDLE_LEFT, RUN_LEFT)
    }

    /// Changes the word, unless the run is over; how it is then.
    fn change(&self, how: impl Fn(u32) -> u32, order: Ordering) -> Option<u32> {
        // ORDERING: no pairing: checked by the exchange. Only the run's end can make that fail.
        let word = self.futex.word.load(Ordering::Relaxed);
        (word & DONE == 0 && self.exchange(word, how(word), order)).then(|| how(word))
    }

    #[inline]
    fn exchange(&self, old: u32, new: u32, order: Ordering) -> bool {
        // ORDERING: as the caller says; failing is no news of anything but itself.
        self.futex.word.compare_exchange(old, new, order, Ordering::Relaxed).is_ok()
    }

    // ---- the run's side

    /// Whether the handle has gone. Then it stays so, and everything is the run's.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        // ORDERING: Acquire pairs with the Release of `detach`.
        self.futex.word.load(acquire("closure_is_detached")) & DETACHED != 0
    }

    /// The run is over, and its outcome in its place.
    pub(crate) fn finish(&self, end: End) -> Found {
        // ORDERING: Release pairs with the Acquire of `end`; Acquire pairs with the Release of
        // `publish_waker` and of `detach`.
        let was = self.futex.word.fetch_or(DONE | end as u32, acq_rel("closure_finish"));
        match was {
            _ if was & DETACHED != 0 => Found::Detached,
            _ if was & WAITS == 0 => Found::Handle,
            _ => Found::Waiting { is_polled: was & POLLED != 0 },
        }
    }

    /// Wakes who sleeps until the end.
    pub(crate) fn wake(&self) {
        // ORDERING: no pairing: the bit does not change after the end.
        if self.futex.word.load(Ordering::Relaxed) & SLEEPS != 0 {
            self.futex.wake(1);
        }
    }

    /// The run, which somebody waited for, has no more use for the closure. `true`: its memory is
    /// the caller's.
    pub(crate) fn leave_run(&self) -> bool {
        self.leave(RUN_LEFT, HANDLE_LEFT)
    }

    fn leave(&self, mine: u32, others: u32) -> bool {
        // ORDERING: Release and Acquire pair with each other: the second frees what the first used.
        self.futex.word.fetch_or(mine, acq_rel("closure_leave")) & others != 0
    }
}
