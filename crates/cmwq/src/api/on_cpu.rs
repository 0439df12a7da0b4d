//! Running a function on given CPUs, and waiting for it.

use crate::api::system;
use crate::engine::runtime::Runtime;

/// Runs `func` once on every CPU that the process may use, at the same time as far as the CPUs are
/// free, and waits for all of them.
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
/// run there. On a CPU that the process may not use it runs on another.
///
/// Blocks without a time limit. Called from a work function it counts as blocking at once.
///
/// KERNEL: `work_on_cpu` — same; on [`system::percpu`].
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
    system::percpu().scope(|scope| match scope.queue_on(cpu, func).join() {
        Ok(value) => value,
        Err(payload) => std::panic::resume_unwind(payload),
    })
}
