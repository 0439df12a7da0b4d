//! `struct rcu_work` of C programs, their readers and their grace periods.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use cmwq_core::WorkFn;

use super::as_in_c;
use crate::api::rcu::{self, RcuItem};
use crate::api::workqueue::Workqueue;
use crate::engine::process::watch_forks;
use crate::engine::readers::RcuReadGuard;
use crate::engine::runtime::Runtime;
use crate::os::notice;

pub use crate::api::rcu::{GracePeriods, RcuFunc, RcuHead, set_grace_periods};

/// `struct rcu_work`.
#[repr(transparent)]
#[derive(Debug)]
pub struct RawRcu(RcuItem);

impl RawRcu {
    /// An idle item (`INIT_RCU_WORK`).
    #[must_use]
    pub fn new(func: WorkFn) -> Self {
        Self(RcuItem::uncounted(func))
    }
}

/// KERNEL: `queue_rcu_work` — same.
///
/// # Safety
/// As for [`queue`](super::queue).
pub unsafe fn queue_rcu(wq: &Workqueue, item: NonNull<RawRcu>) -> bool {
    // SAFETY: passed on to the caller; the types have one layout.
    as_in_c(unsafe { RcuItem::queue(item.cast(), wq.handle()) })
}

/// KERNEL: `flush_rcu_work` — same.
///
/// # Safety
/// `item` must be valid until this returns.
pub unsafe fn flush_rcu(item: NonNull<RawRcu>) -> bool {
    // SAFETY: valid by the caller's promise; the work item comes first.
    let item = unsafe { item.cast().as_ref() };
    Runtime::existing().is_some_and(|runtime| rcu::flush_rcu(runtime, item))
}

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

fn end_all() {
    DEPTH.set(0);
    // What waited for it may be called by its end, and may have sections of its own.
    drop(ManuallyDrop::into_inner(OUTERMOST.take()));
}

/// Begins a section of [`rcu_read_lock`](crate::rcu_read_lock), of the calling thread.
pub fn rcu_read_lock() {
    // If that has been dropped, nobody but the caller ends this section.
    let _ = AT_END.try_with(|_| ());
    if DEPTH.get() == 0 {
        // Its begin, too, may call what has sections of its own.
        let outermost = crate::rcu_read_lock();
        OUTERMOST.set(ManuallyDrop::new(Some(outermost)));
    }
    DEPTH.set(DEPTH.get() + 1);
}

/// Ends the thread's innermost section. One that was never begun is said.
pub fn rcu_read_unlock() {
    match DEPTH.get() {
        0 => {
            watch_forks();
            notice::always("rcu_read_unlock without rcu_read_lock by this thread".to_owned());
        }
        1 => end_all(),
        depth => DEPTH.set(depth - 1),
    }
}

/// Waits until every section of `rcu_read_lock` that is open now has ended.
pub fn synchronize_rcu() {
    watch_forks();
    let _ = rcu::synchronize();
}
