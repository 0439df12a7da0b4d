//! Calls that have to return: where one unwinds, or ends its thread, the process ends with a word.

use std::mem::forget;
use std::process::abort;

use super::{IS_MODEL, notice};

/// Calls `what`, which calls a foreign function; `who` names that function.
#[inline(always)]
pub(crate) fn must_return<R>(who: impl Fn() -> String, what: impl FnOnce() -> R) -> R {
    Guard(|| did_not_return(&who())).around(what)
}

/// Calls `what`, which returns when no other thread uses memory of the caller's stack any more;
/// `who` names the caller. Users' panics are caught before: only an assertion of the library's own
/// unwinds here, and nobody can take that memory back.
#[inline(always)]
pub(crate) fn while_stack_is_shared<R>(who: &'static str, what: impl FnOnce() -> R) -> R {
    Guard(|| panicked(who)).around(what)
}

/// Ends the process when it is dropped.
struct Guard<F: Fn()>(F);

impl<F: Fn()> Guard<F> {
    #[inline(always)]
    fn around<R>(self, what: impl FnOnce() -> R) -> R {
        let answer = what();
        forget(self);
        answer
    }
}

impl<F: Fn()> Drop for Guard<F> {
    #[cold]
    fn drop(&mut self) {
        // Model checkers unwind whoever is left behind by a failure.
        if !IS_MODEL {
            (self.0)();
        }
    }
}

/// Ends the process for a function that has not returned.
#[cold]
pub(crate) fn did_not_return(who: &str) -> ! {
    notice::last_word(&format!(
        "{who} did not return: it ended its thread (pthread_exit, pthread_cancel) or let an \
         exception out, and the thread that called it is needed; the process ends"
    ));
    abort()
}

#[cold]
fn panicked(who: &str) -> ! {
    notice::last_word(&format!(
        "{who} panicked while other threads use its stack, which is a bug in cmwq; the process ends"
    ));
    abort()
}
