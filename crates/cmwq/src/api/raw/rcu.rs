//! `struct rcu_work` of C programs, their readers and their grace periods.

use std::ptr::NonNull;

use cmwq_core::WorkFn;

use super::as_in_c;
use crate::api::rcu::{self, RcuItem};
use crate::api::workqueue::Workqueue;
use crate::engine::process::sections;
use crate::engine::process::watch_forks;
use crate::engine::runtime::Runtime;
use crate::engine::threads::invoke;
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

/// Begins a section of [`rcu_read_lock`](crate::rcu_read_lock), of the calling thread.
pub fn rcu_read_lock() {
    if sections::depth() == 0 {
        watch_forks();
        invoke::check_after_functions();
    }
    sections::begin();
}

/// Ends the thread's innermost section. One that was never begun is said.
pub fn rcu_read_unlock() {
    if !sections::end() {
        watch_forks();
        notice::always("rcu_read_unlock without rcu_read_lock by this thread".to_owned());
    }
}

/// Waits until every section of `rcu_read_lock` that is open now has ended.
pub fn synchronize_rcu() {
    watch_forks();
    let _ = rcu::synchronize();
}
