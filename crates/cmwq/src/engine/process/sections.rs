//! The sections of C's `rcu_read_lock`, which are kept by no guard: those that a thread is in.
//!
//! They end with their thread, as in the kernel (`exit_rcu`), and those that a function has left
//! open with the function: the worker that called it stays, and nothing would ever come after a
//! grace period again.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use crate::engine::process::readers::{self, RcuReadGuard};
use crate::os::notice;

std::thread_local! {
    // Without destructors: these are there, too, in what a program has called when a thread ends
    // (`pthread_key_create`), which may be called after the destructors of thread-local values.
    /// How many sections the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The outermost of them, which ends last, and so stands for all.
    static OUTERMOST: Cell<ManuallyDrop<Option<RcuReadGuard>>> =
        const { Cell::new(ManuallyDrop::new(None)) };
    static AT_END: AtEnd = const { AtEnd };
}

/// Ends the thread's sections when the thread ends. KERNEL: `exit_rcu` — same.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        end_all();
    }
}

/// How many sections the calling thread is in.
pub(crate) fn depth() -> u32 {
    DEPTH.get()
}

/// Begins one. The caller sees to it that forks are noticed.
pub(crate) fn begin() {
    // If that has been dropped, nobody but the caller ends this section.
    let _ = AT_END.try_with(|_| ());
    if DEPTH.get() == 0 {
        // Its begin, too, may call what has sections of its own.
        let outermost = readers::enter();
        OUTERMOST.set(ManuallyDrop::new(Some(outermost)));
    }
    DEPTH.set(DEPTH.get() + 1);
}

/// Ends the innermost one. `false`: there is none.
pub(crate) fn end() -> bool {
    match DEPTH.get() {
        0 => return false,
        1 => end_all(),
        depth => DEPTH.set(depth - 1),
    }
    true
}

fn end_all() {
    DEPTH.set(0);
    // What waited for it may be called by its end, and may have sections of its own.
    drop(ManuallyDrop::into_inner(OUTERMOST.take()));
}

/// A function has returned that was called outside of sections: those that it has left open end.
/// `who` names it, and is said once.
pub(crate) fn end_left_open(who: impl FnOnce() -> String) {
    if DEPTH.get() == 0 {
        return;
    }
    end_all();
    notice::once_each(format!(
        "{} returned inside of rcu_read_lock, whose section ends there (a rcu_read_unlock is \
         missing)",
        who()
    ));
}
