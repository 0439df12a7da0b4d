//! Waiting for one item, and reports of waits that cannot end. Who takes part:
//! [README](flush/README.md).

use std::ptr::NonNull;

use cmwq_core::{FlushTarget, Kick, LockFor, PoolState, WorkItem, WqKey};

use crate::engine::item::delayed::DelayedItem;
use crate::engine::pool::{Holder, Pool, PoolKind};
use crate::engine::queue::flush::check_dependency;
use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::engine::tools::own_event::OwnEvent;
use crate::engine::tools::watchdog::WaitFor;
use crate::engine::wq::{Kind, Wq};
use crate::os::backoff::Backoff;
use crate::os::must_return::while_stack_is_shared;
use crate::os::notice;
use crate::os::park::Event;
use crate::os::sync::Arc;

/// Why a thread waits for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It wants the item done.
    Flush,
    /// It wants the item not to run any more.
    Cancel,
}

/// A barrier of `flush_work`, on the flusher's stack.
#[repr(C)]
struct Barrier {
    item: WorkItem,
    done: &'static Event,
}

unsafe extern "C" fn barrier_fn(item: *mut WorkItem) {
    // SAFETY: the item of a barrier is its first member, and the flusher waits for `set`.
    let done = unsafe { (*item.cast::<Barrier>()).done };
    done.set();
}

/// Wakes the thread that waits behind the barrier.
///
/// # Safety
/// The barrier must be of this module, and the core must have
/// [passed](cmwq_core::PoolState::pass_barrier) it just now.
pub(crate) unsafe fn pass(barrier: NonNull<WorkItem>) {
    // SAFETY: the caller's promise; it does not run otherwise.
    unsafe { barrier_fn(barrier.as_ptr()) };
}

/// Whether this is the function of barriers.
pub(crate) fn is_barrier(func: usize) -> bool {
    func == barrier_fn as *const () as usize
}

/// What a wait for an item found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The item was pending or running, and is done by now.
    Done,
    /// A run is done, and another queueing was in transit while it went on.
    Earlier,
    /// Nothing: the item is idle.
    Idle,
    /// PENDING is owned, but the item is not queued yet: another thread is about to queue it, or a
    /// timer is armed.
    InTransit,
    /// The item comes behind the caller, which runs inside of it, or of one that was at its
    /// address.
    Itself,
}

/// The caller's own run of an item that has the address and the function of the one it waits for:
/// that one, an earlier queueing of it, or one whose memory it was.
#[derive(Clone, Copy)]
struct OwnRun {
    pool: &'static Pool,
    /// The queue that the run is of, if that is an ordered one, which runs nothing else meanwhile,
    /// in whatever pool.
    ordered: Option<WqKey>,
}

impl OwnRun {
    fn of(item: &WorkItem) -> Option<Self> {
        let (pool, key) = current::run_of(item)?;
        let is_ordered = |wq: &Arc<Wq>| wq.spec.kind == Kind::Ordered;
        Some(Self { pool, ordered: pool.runtime.wq(key).filter(is_ordered).map(|_| key) })
    }

    /// Whether the item, which was last in `pool`, comes behind this run. KERNEL: where it does,
    /// `flush_work` does not return.
    fn is_before(self, item: &WorkItem, pool: &'static Pool, core: &PoolState) -> bool {
        // A pool never runs one address with one function twice at once.
        self.has(pool) || self.ordered.is_some() && core.wq_of(item) == self.ordered
    }

    /// Whether `pool` has it.
    fn has(self, pool: &'static Pool) -> bool {
        std::ptr::eq(self.pool, pool)
    }
}

/// Waits for the last queueing of `item`. `true`: there was something to wait for. KERNEL:
/// `flush_work` — same; a wait of an item for itself is reported and not begun.
pub(crate) fn flush_item(runtime: &'static Runtime, item: &WorkItem, why: Purpose) -> bool {
    matches!(wait_for(runtime, item, why), Found::Done | Found::Earlier)
}

/// As [`flush_item`], for an item that never has a timer.
///
/// KERNEL: `flush_work` — differs: a queueing that is under way in another thread is waited for. In
/// the kernel it is over in an instant, with interrupts off; here that thread may lose its CPU, and
/// a caller whose own queueing was refused because of it would flush and find nothing.
#[inline(never)]
pub(crate) fn flush_work(runtime: &'static Runtime, item: &WorkItem) -> bool {
    flush_whole(runtime, item, || ())
}

/// Calls `wake_now` and waits, until the item is not in transit.
#[inline(always)]
pub(crate) fn flush_whole(
    runtime: &'static Runtime,
    item: &WorkItem,
    wake_now: impl FnMut(),
) -> bool {
    flush_until_done(runtime, item, wake_now) == Found::Done
}

/// As [`flush_whole`]: `Done`, `Idle` or `Itself`.
#[inline(always)]
pub(crate) fn flush_until_done(
    runtime: &'static Runtime,
    item: &WorkItem,
    mut wake_now: impl FnMut(),
) -> Found {
    wake_now();
    match wait_for(runtime, item, Purpose::Flush) {
        in_transit @ (Found::InTransit | Found::Earlier) => {
            flush_again(runtime, item, in_transit, wake_now)
        }
        found => found,
    }
}

/// The item was in transit, as was `found`.
#[cold]
fn flush_again(
    runtime: &'static Runtime,
    item: &WorkItem,
    mut found: Found,
    mut wake_now: impl FnMut(),
) -> Found {
    let mut backoff = Backoff::new();
    let mut has_waited = false;
    while let Found::InTransit | Found::Earlier = found {
        has_waited |= found == Found::Earlier;
        backoff.pause();
        wake_now();
        found = wait_for(runtime, item, Purpose::Flush);
    }
    if has_waited { Found::Done } else { found }
}

#[inline(always)]
fn wait_for(runtime: &'static Runtime, item: &WorkItem, why: Purpose) -> Found {
    let done = OwnEvent::take();
    if current::runs_nothing() {
        return wait_behind(runtime, item, None, false, &done, |_| done.wait(None));
    }
    wait_in_item(runtime, item, why, &done)
}

/// As [`wait_for`], in an item. Out of line, so that the usual way is short.
#[inline(never)]
fn wait_in_item(
    runtime: &'static Runtime,
    item: &WorkItem,
    why: Purpose,
    done: &OwnEvent,
) -> Found {
    let own = OwnRun::of(item);
    // Asked once, and not under the pool's lock: it takes the registry's.
    let has_rescuer = why == Purpose::Flush && current::current_is_mem_reclaim();
    let what = WaitFor::Item(std::ptr::from_ref(item) as usize);
    let wait = |pool: &Pool| {
        // KERNEL: `__flush_work` — same, but that it spins: a BH item may cancel another one.
        let is_bh = matches!(pool.kind, PoolKind::Bh(_));
        if why == Purpose::Cancel && is_bh && current::in_bh() {
            return done.wait(None);
        }
        current::waiting_for(what, || done.wait(None))
    };
    let found = wait_behind(runtime, item, own, has_rescuer, done, wait);
    if found == Found::Itself {
        say_waits_for_itself(runtime, why);
    }
    found
}

/// Puts a barrier behind the item, if the item is queued or running, and waits for the barrier:
/// `wait` waits for `done`, and is told of the item's pool. Not behind `own`.
///
/// KERNEL: `start_flush_work` — same; differs: a run that began on a pool which the item's ordered
/// queue had before, while the item was queued again, is found, too.
#[inline(always)]
fn wait_behind(
    runtime: &'static Runtime,
    item: &WorkItem,
    own: Option<OwnRun>,
    has_rescuer: bool,
    done: &OwnEvent,
    wait: impl FnOnce(&Pool) -> bool,
) -> Found {
    let barrier = Barrier { item: WorkItem::new(barrier_fn), done: done.event() };
    let target = NonNull::from(item);
    loop {
        let word = item.word();
        if runtime.is_inherited(word) {
            return Found::Idle;
        }
        let Some(pool) = word.pool().and_then(|id| runtime.pool(id)) else {
            return if word.is_pending() { Found::InTransit } else { Found::Idle };
        };
        let mut guard = pool.lock(LockFor::Find);
        let word = item.word();
        if word.pool() != Some(pool.id) {
            pool.unlock(guard, Kick::None);
            continue;
        }
        if own.is_some_and(|own| own.is_before(item, pool, &guard.core)) {
            pool.unlock(guard, Kick::None);
            return Found::Itself;
        }
        let wq = has_rescuer.then(|| guard.core.wq_of(item)).flatten();
        // SAFETY: the target is borrowed; the barrier stays on this stack until `done`.
        let insert = |core: &mut PoolState| unsafe {
            core.insert_barrier(target, NonNull::from(&barrier).cast()) != FlushTarget::Idle
        };
        let was_found = while_stack_is_shared("a flush of an item", || {
            let is_here = insert(&mut guard.core);
            pool.unlock_as(guard, Kick::None, Holder::Other);
            let is_elsewhere = || {
                let is_other = |pool: &&'static Pool| own.is_none_or(|own| !own.has(pool));
                runtime.pools_besides(pool).filter(is_other).any(|other| {
                    let mut guard = other.lock(LockFor::Counts);
                    let is_there = insert(&mut guard.core);
                    other.unlock(guard, Kick::None);
                    is_there
                })
            };
            if !is_here && !is_elsewhere() {
                return false;
            }
            if let Some(wq) = wq.and_then(|key| runtime.wq(key)) {
                check_dependency(&wq);
            }
            wait(pool);
            true
        });
        if !was_found {
            return if word.is_pending() { Found::InTransit } else { Found::Idle };
        }
        let was_in_transit = word.is_pending() && !word.is_queued();
        return if was_in_transit { Found::Earlier } else { Found::Done };
    }
}

/// Queues the item at once if its timer is armed, and waits for its last queueing. KERNEL:
/// `flush_delayed_work` — same: a timer that is just coming is waited for, too.
///
/// # Safety
/// As for [`DelayedItem::queue`].
pub(crate) unsafe fn flush_delayed(runtime: &'static Runtime, this: NonNull<DelayedItem>) -> bool {
    // SAFETY: valid by the caller's promise.
    let delayed = unsafe { this.as_ref() };
    flush_whole(runtime, &delayed.item, || {
        if let Some(target) = delayed.take_timer(runtime) {
            // SAFETY: valid, and PENDING is owned.
            unsafe { DelayedItem::go(this, target) };
        }
    })
}

/// What an item is doing; see [`Work::busy`](crate::Work::busy).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// Queued, or its timer armed (`WORK_BUSY_PENDING`).
    pub pending: bool,
    /// Its function is being run for the queue of its last queueing (`WORK_BUSY_RUNNING`).
    pub running: bool,
}

impl Busy {
    /// Neither pending nor running.
    #[must_use]
    pub fn is_idle(self) -> bool {
        self == Self::default()
    }
}

/// Whether an item is pending, and whether it is run by the pool of its last queueing, or by a pool
/// that its ordered queue had before. KERNEL: `work_busy` — same, but in the kernel neither that
/// nor `cancel_work_sync` finds a run on an earlier pool.
pub(crate) fn busy(runtime: &'static Runtime, item: &WorkItem) -> Busy {
    let word = item.word();
    if runtime.is_inherited(word) {
        return Busy::default();
    }
    let Some(pool) = word.pool().and_then(|id| runtime.pool(id)) else {
        return Busy { pending: word.is_pending(), running: false };
    };
    // Takes the batch back: its worker would begin the item without the lock between the two looks.
    let look = |pool: &'static Pool| {
        let guard = pool.lock(LockFor::Counts);
        (item.is_pending(), guard.core.reading(&pool.inbox).is_executing(item))
    };
    let (pending, running) = look(pool);
    Busy { pending, running: running || runtime.pools_besides(pool).any(|other| look(other).1) }
}

#[cold]
fn say_waits_for_itself(runtime: &'static Runtime, why: Purpose) {
    let wq = current::own_wq().and_then(|key| runtime.wq_name(key)).unwrap_or_default();
    let what = match why {
        Purpose::Flush => "is flushed",
        Purpose::Cancel => "is cancelled or disabled, with waiting,",
    };
    notice::always(format!(
        "a work item of workqueue '{wq}' {what} from inside its own function ({}) and would wait \
         for itself for \
         ever; the call returns without waiting",
        current::describe_item()
    ));
}
