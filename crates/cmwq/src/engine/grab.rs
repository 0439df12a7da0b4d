//! Taking an item into one's own hands, wherever it is: what cancelling, disabling, enabling and
//! re-timing begin with.
//!
//! Who [grabbed](grab) an item owns its PENDING, as if he had just won it, and must queue it, arm
//! its timer or [`release`](WorkItem::release) it.
//!
//! KERNEL: `work_grab_pending`, `__cancel_work` and its callers — same results. Differs: the owner
//! of PENDING that somebody else waits for may have lost its CPU, so waiting is sleeping, in steps
//! that grow from some microseconds to a millisecond, where Linux spins.

use std::ptr::NonNull;

use cmwq_core::{Grab, Kick, WorkItem, WorkWord, consts};

use crate::engine::delayed::DelayedItem;
use crate::engine::flushing::{self, Flusher};
use crate::engine::runtime::Runtime;
use crate::os::generation;
use crate::os::notice::{self, Notice};
use crate::os::rest::Rest;

/// What is to be grabbed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// The item. While its timer is armed, if it has one, grabbing waits for that to expire.
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

    /// Whether the process that this one is the child of had armed its timer, which is forgotten:
    /// nobody will queue it.
    fn forget_inherited(self, runtime: &'static Runtime) -> bool {
        matches!(self, Self::Delayed(delayed) if delayed.forget_inherited(runtime))
    }

    #[inline(always)]
    fn take_timer(self, runtime: &'static Runtime) -> bool {
        let Self::Delayed(delayed) = self else { return false };
        delayed.cancel_timer(runtime)
    }
}

/// Whether an item that is queued once was queued, or its timer armed, in the process that this one
/// is the child of, and had not ended there. Then it never ends here.
#[cold]
pub(crate) fn is_lost(target: Target<'_>) -> bool {
    Runtime::global().is_ok_and(|runtime| {
        runtime.is_of_parent(target.item().word())
            || matches!(target, Target::Delayed(item) if item.is_armed_by_parent(runtime))
    })
}

/// How an item was found that was grabbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    /// What it was pending for will not happen.
    Pending,
    Idle,
    /// Pending in the process that this one is the child of: it does not run here.
    Inherited,
}

/// Makes PENDING of an item the caller's. `true`: it was pending, and what it was pending for will
/// not happen.
pub(crate) fn grab(runtime: &'static Runtime, target: Target<'_>) -> bool {
    take(runtime, target) == Was::Pending
}

#[inline(always)]
fn take(runtime: &'static Runtime, target: Target<'_>) -> Was {
    if target.take_timer(runtime) { Was::Pending } else { take_without_timer(runtime, target) }
}

/// As [`take`], of an item that has just been seen without an armed timer.
#[inline(never)]
fn take_without_timer(runtime: &'static Runtime, target: Target<'_>) -> Was {
    let item = target.item();
    let mut rest = Rest::new();
    loop {
        if !item.claim().is_pending() {
            return Was::Idle;
        }
        if steal(runtime, item) {
            return Was::Pending;
        }
        if generation::is_child() && (runtime.take_over(item) || target.forget_inherited(runtime)) {
            return Was::Inherited;
        }
        // Somebody is between claiming the item and queueing it, or its timer has it.
        rest.rest();
        if target.take_timer(runtime) {
            return Was::Pending;
        }
    }
}

/// Takes a queued item off its pool's lists.
fn steal(runtime: &'static Runtime, item: &WorkItem) -> bool {
    let Some(pool) = item.word().pool().and_then(|id| runtime.pool(id)) else { return false };
    let mut guard = pool.lock();
    // SAFETY: borrowed, hence valid.
    match unsafe { guard.core.try_grab(NonNull::from(item)) } {
        Grab::Taken(effects) => {
            pool.unlock(guard, effects.kick);
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

/// As [`cancel`], of an item that is queued once: `true`, it will not run; also one that the parent
/// of this process had queued, and that does not run here.
pub(crate) fn take_back(runtime: &'static Runtime, target: Target<'_>) -> bool {
    let item = target.item();
    if !item.is_pending() {
        return false;
    }
    let was = take(runtime, target);
    item.release(item.word());
    was != Was::Idle
}

/// Cancels, and refuses to be queued from now on, as often as this was called more often than
/// [`enable`]. KERNEL: `disable_work`, `disable_delayed_work` — same.
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

/// Takes one [`disable`] back: `true`, the item can be queued again. KERNEL: `enable_work`,
/// `enable_delayed_work` — same, the timer is not touched; one too many takes a pending item off
/// its queue.
pub(crate) fn enable(runtime: &'static Runtime, item: &WorkItem) -> Enabled {
    let was_pending = grab(runtime, Target::Work(item));
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
    /// It was pending, and is not any more: it was not disabled.
    pub(crate) was_pending: bool,
}

/// As [`disable`], and waits for a run in progress. KERNEL: `disable_work_sync` and
/// `disable_delayed_work_sync` — same.
pub(crate) fn disable_sync(runtime: &'static Runtime, target: Target<'_>) -> bool {
    let was_pending = disable(runtime, target);
    flushing::flush_item(runtime, target.item(), Flusher::Canceller);
    was_pending
}

/// As [`cancel`], and waits for a run in progress; nobody can queue the item meanwhile, itself
/// included. KERNEL: `cancel_work_sync` and `cancel_delayed_work_sync` — same.
pub(crate) fn cancel_sync(runtime: &'static Runtime, target: Target<'_>) -> bool {
    let was_pending = disable_sync(runtime, target);
    let enabled = enable(runtime, target.item());
    debug_assert!(!enabled.was_pending, "a disabled item was queued");
    was_pending
}
