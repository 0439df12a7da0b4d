//! Running a function on given CPUs, or where it may block.

use crate::api::system;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;

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

/// Runs `func` once on every CPU that the process may use, at the same time as far as the CPUs are
/// free, and waits for all of them. Blocks without a time limit. Called from a work function it
/// counts as blocking at once.
///
/// KERNEL: `schedule_on_each_cpu` — same; on [`system::percpu`].
///
/// # Panics
/// If one of the calls panicked, when all have ended; if the system's queue was closed or the
/// library shut down; and on the process's first use of the library if its service thread cannot be
/// created.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let count = AtomicUsize::new(0);
/// cmwq::schedule_on_each_cpu(|| {
///     count.fetch_add(1, Ordering::Relaxed);
/// });
/// assert!(count.load(Ordering::Relaxed) >= 1);
/// ```
pub fn schedule_on_each_cpu<F: Fn() + Send + Sync>(func: F) {
    let wq = system::percpu();
    let cpus = Runtime::global().map(Runtime::usable_cpus).unwrap_or_default();
    wq.scope(|scope| {
        for cpu in cpus {
            scope.queue_for::<F, _, _>(Some(cpu), &func);
        }
    });
}

/// Runs `func` on CPU number `cpu` and returns its value. It waits its turn behind the items that
/// run there. For a CPU that the process may not use it runs on another, as
/// [`queue_on`](crate::Workqueue::queue_on) says.
///
/// Blocks without a time limit. Called from a work function it counts as blocking at once.
///
/// KERNEL: `work_on_cpu` — same; on [`system::percpu`]. What the kernel does for a CPU that is
/// offline is undefined.
///
/// # Panics
/// If `func` panics, with its payload. Also if the system's queue is being drained, was closed, or
/// the library was shut down; and on the process's first use of the library if its service thread
/// cannot be created.
///
/// ```
/// assert_eq!(cmwq::work_on_cpu(0, || 6 * 7), 42);
/// ```
pub fn work_on_cpu<T: Send>(cpu: u32, func: impl FnOnce() -> T + Send) -> T {
    system::percpu()
        .scope(|scope| scope.queue_on(cpu, func).outcome().unwrap_or_else(|error| error.raise()))
}
