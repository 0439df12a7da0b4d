//! Memory of a caller's stack while other threads use it.

use super::{IS_MODEL, notice};

/// Calls `what`, which returns when nobody uses memory of the caller's stack any more. If it
/// panicked that memory would go, and nobody can take it back: the process ends instead. Users'
/// functions are caught before; only an assertion of the library's own gets here.
#[inline(always)]
pub(crate) fn until_given_back<R>(what: impl FnOnce() -> R) -> R {
    let guard = Lent;
    let answer = what();
    std::mem::forget(guard);
    answer
}

struct Lent;

impl Drop for Lent {
    #[cold]
    fn drop(&mut self) {
        // Model checkers unwind whoever is left behind by a failure.
        if !IS_MODEL {
            notice::last_word("a panic while other threads use the stack of who waits for them");
            std::process::abort();
        }
    }
}
