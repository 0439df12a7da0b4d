//! Running a function where it may block: here, or elsewhere.

use crate::api::system;
use crate::engine::current;

/// Where a function runs; see [`execute_in_process_context`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// It ran in the calling thread, and has returned (0 in the kernel).
    Inline,
    /// It was queued (1 in the kernel).
    Scheduled,
}

/// Runs `func` at once, unless the calling thread runs an item of a [BH queue](crate::Builder::bh),
/// where nothing may block: then it is queued on [`system::percpu`]. Says which. Does not wait for
/// what it queued.
///
/// KERNEL: `execute_in_process_context` — same; no storage is to be provided.
///
/// # Panics
/// If `func`, run inline, does. Queued, its panics go to the [panic
/// handler](crate::set_panic_handler). Also on the process's first use of the library if its
/// service thread cannot be created.
///
/// ```
/// use cmwq::{Execution, execute_in_process_context, system};
/// assert_eq!(execute_in_process_context(|| ()), Execution::Inline);
/// let in_bh = system::bh().queue(|| execute_in_process_context(|| ()));
/// assert_eq!(in_bh.join().unwrap(), Execution::Scheduled);
/// ```
pub fn execute_in_process_context(func: impl FnOnce() + Send + 'static) -> Execution {
    if current::in_bh() {
        drop(system::percpu().queue(func));
        Execution::Scheduled
    } else {
        func();
        Execution::Inline
    }
}
