//! Winning PENDING of an item, wherever the item is (the kernel's `work_grab_pending`): cancelling,
//! disabling, enabling and re-timing begin with it.
//!
//! The caller of [`grab`] owns the item's PENDING, as if it had just won it, and must queue the
//! item, arm its timer or [`release`](WorkItem::release) it.
//!
//! KERNEL: `work_grab_pending`, `__cancel_work` and its callers — same results. Differs: another
//! owner of PENDING may have lost its CPU, so `grab` sleeps until it is done, in steps that grow
//! from some microseconds to a millisecond, where Linux spins.

use std::ptr::NonNull;

use cmwq_core::{Grab, Kick, LockFor, WorkItem, WorkWord, consts};

use crate::engine::item::delayed::DelayedItem;
use crate::engine::item::flush::{self, Purpose};
use crate::engine::process;
use crate::engine::runtime::Runtime;
use crate::engine::runtime::claiming::{Claimed, claim};
use crate::os::backoff::Backoff;
use crate::os::notice::{self, Notice};

/// What is to be grabbed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The item. If it has a timer that is armed, grabbing waits until the timer expires.
    Work(&'a WorkItem),
    /// The item or its timer.
    Delayed(&'a DelayedItem),
}

impl<'a> Target<'a> {
    fn item(self) -> &'a WorkItem {
        match self {
            Self::Work(item) => item,
            Self::Delayed(delayed) => &delayed.item,
        }
    }

    /// See [`DelayedItem::leave_parents_timer`].
    fn leave_parents_timer(self, runtime: &'static Runtime) {
        if let Self::Delayed(delayed) = self {
            delayed.leave_parents_timer(runtime);
        }
    }

    #[inline(always)]
    fn take_timer(self, runtime: &'static Runtime) -> bool {
        let Self::Delayed(delayed) = self else { return false };
        delayed.cancel_timer(runtime)
    }
}

/// Whether a one-shot item was queued, or its timer armed, by the parent of this forked process,
/// and had not ended before the fork. Then it never ends here.
#[cold]
pub(crate) fn is_lost(target: Target<'_>) -> bool {
    process::is_from_before(target.item().word())
}

/// The state in which an item was grabbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    /// Pending; that run will not happen.
    Pending,
    Idle,
    /// Pending in the parent of this forked process: it does not run here.
    Inherited,
}

/// Makes the caller the owner of an item's PENDING. `true`: the item was pending, and that run will
/// not happen.
pub(crate) fn grab(runtime: &'static Runtime, target: Target<'_>) -> bool {
    take(runtime, target) == Was::Pending
}

#[inline(always)]
fn take(runtime: &'static Runtime, target: Target<'_>) -> Was {
    if target.take_timer(runtime) { Was::Pending } else { take_without_timer(runtime, target) }
}

/// As [`take`], for an item that has just been seen without an armed timer.
#[inline(never)]
fn take_without_timer(runtime: &'static Runtime, target: Target<'_>) -> Was {
    let item = target.item();
    let mut backoff = Backoff::new();
    loop {
        match claim(item, || runtime) {
            Claimed::Idle => return Was::Idle,
            Claimed::Inherited => {
                target.leave_parents_timer(runtime);
                return Was::Inherited;
            }
            Claimed::Not => {}
        }
        if steal(runtime, item) {
            return Was::Pending;
        }
        // Another thread has claimed the item and not queued it yet, or its timer is armed.
        backoff.pause();
        if target.take_timer(runtime) {
            return Was::Pending;
        }
    }
}

/// Takes a queued item off its pool's lists.
fn steal(runtime: &'static Runtime, item: &WorkItem) -> bool {
    let Some(pool) = item.word().pool().and_then(|id| runtime.pool(id)) else { return false };
    let mut guard = pool.lock(LockFor::Find);
    // SAFETY: borrowed, hence valid.
    match unsafe { guard.core.try_grab(NonNull::from(item)) } {
        Grab::Taken(kick, effects) => {
            pool.unlock(guard, kick);
            pool.act_effects(effects);
            true
        }
        Grab::NotHere => {
            pool.unlock(guard, Kick::None);
            false
        }
    }
}

/// `true`: it was pending and will not run. A run in progress goes on. KERNEL: `cancel_work`,
/// `cancel_delayed_work` — same.
#[inline(always)]
pub(crate) fn cancel(runtime: &'static Runtime, target: Target<'_>) -> bool {
    let item = target.item();
    if !item.is_pending() {
        return false;
    }
    let was_pending = take(runtime, target) == Was::Pending;
    item.release(item.word());
    was_pending
}

/// As [`cancel`], for a one-shot item. `true`: it will not run. Also for an item that the parent of
/// this forked process had queued.
pub(crate) fn take_back(runtime: &'static Runtime, target: Target<'_>) -> bool {
    let item = target.item();
    if !item.is_pending() {
        return false;
    }
    let was = take(runtime, target);
    item.release(item.word());
    was != Was::Idle
}

/// Cancels the item, which then cannot be queued until [`enable`] was called as often as this.
/// KERNEL: `disable_work`, `disable_delayed_work` — same.
pub(crate) fn disable(runtime: &'static Runtime, target: Target<'_>) -> bool {
    let was_pending = grab(runtime, target);
    let item = target.item();
    item.release(deeper(item.word()));
    was_pending
}

fn deeper(word: WorkWord) -> WorkWord {
    let depth = word.disable_depth();
    if depth == consts::WORK_DISABLE_MAX {
        notice::once(Notice::DisableDepth, || {
            format!(
                "a work item was disabled more than {depth} times; enabling it will come too early"
            )
        });
        return word;
    }
    word.with_disable_depth(depth + 1)
}

/// Undoes one [`disable`]. One call too many takes a pending item off its queue, or its timer: a
/// disabled item has none that is armed. KERNEL: `enable_work`, `enable_delayed_work` — same, but
/// for an armed timer, until whose end Linux spins.
pub(crate) fn enable(runtime: &'static Runtime, target: Target<'_>) -> Enabled {
    let was_pending = grab(runtime, target);
    let item = target.item();
    let word = item.word();
    let depth = word.disable_depth();
    if depth == 0 {
        notice::once(Notice::EnableDepth, || {
            "a work item was enabled more often than it was disabled".to_owned()
        });
    }
    item.release(word.with_disable_depth(depth.saturating_sub(1)));
    Enabled { is_enabled: depth <= 1, was_pending }
}

/// What enabling an item did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enabled {
    /// It can be queued.
    pub(crate) is_enabled: bool,
    /// The item was not disabled, but pending; it is not any more.
    pub(crate) was_pending: bool,
}

/// As [`disable`], and waits for a run in progress. KERNEL: `disable_work_sync` and
/// `disable_delayed_work_sync` — same.
pub(crate) fn disable_sync(runtime: &'static Runtime, target: Target<'_>) -> bool {
    let was_pending = disable(runtime, target);
    flush::flush_item(runtime, target.item(), Purpose::Cancel);
    was_pending
}

/// As [`cancel`], and waits for a run in progress. Meanwhile the item cannot be queued, not even by
/// itself. KERNEL: `cancel_work_sync` and `cancel_delayed_work_sync` — same.
pub(crate) fn cancel_sync(runtime: &'static Runtime, target: Target<'_>) -> Cancelled {
    let was_pending = disable_sync(runtime, target);
    let was_queued_again = enable(runtime, target).was_pending;
    Cancelled { was_pending, was_queued_again }
}

/// What cancelling with waiting did. Each of the two is a run that will not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled {
    /// The item was pending.
    pub(crate) was_pending: bool,
    /// Meanwhile somebody enabled it once too often, and it was queued; it is not any more.
    pub(crate) was_queued_again: bool,
}
