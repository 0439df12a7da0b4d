//! The queues and items of C programs: what `cmwq-capi` is made of. Not for other users; it may
//! change at any time.
//!
//! Everything here takes items by pointer and counts nothing: an item must stay where it is from
//! the call that queues it until its function is entered, as in the kernel. Nothing here touches an
//! item after that.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::time::Duration;

use cmwq_core::Closed;
pub use cmwq_core::{WorkFn, WorkItem, WorkWord};

mod call;
mod find;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
mod later;
mod look;
mod rcu;
mod softirq;
#[cfg(not(cmwq_loom))]
mod timers;

pub use crate::api::system::fallible as system;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use crate::engine::process::{Innermost, hold_during_forks};
pub use call::{
    Func, IndexedFunc, is_inside_of, queue_call, queue_call_delayed, queue_indexed_call,
};
#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
pub(crate) use find::find_in;
pub use find::{Whereabouts, find};
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use later::{call_rcu, free_rcu, rcu_barrier};
pub use look::{function_name, last_func, worker_comm, worker_info};
pub use rcu::{
    GracePeriods, RawRcu, RcuFunc, RcuHead, flush_rcu, queue_rcu, rcu_read_lock, rcu_read_unlock,
    set_grace_periods, synchronize_rcu,
};

#[cfg(not(cmwq_loom))]
pub use timers::{Arming, RawTimer, Running, When, arm as arm_timer, disarm as disarm_timer};

use crate::api::builder::Builder;
use crate::api::closure::JoinHandle;
use crate::api::refused::Refused;
use crate::api::try_queue::TryQueueError;
use crate::api::unstarted;
use crate::api::workqueue::Workqueue;
use crate::engine::item::delayed::DelayedItem;
use crate::engine::item::flush::{self, Purpose};
use crate::engine::item::grab::{self, Target};
use crate::engine::process::{self, watch_forks};
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::Runtime;
use crate::engine::runtime::claiming::{self, Claimed};
use crate::engine::threads::current;
use crate::engine::threads::invoke;
use crate::engine::wq::Queueing;
use crate::os::generation;
use crate::os::notice;
use crate::os::sense::stderr;
use crate::os::sync::OnceLock;
use crate::os::topo;
use crate::record::symbol;

/// `WORK_CPU_UNBOUND`.
pub const CPU_UNBOUND: u32 = crate::engine::item::delayed::CPU_UNBOUND;

/// `struct delayed_work`.
#[repr(transparent)]
#[derive(Debug)]
pub struct RawDelayed(DelayedItem);

impl RawDelayed {
    /// Where its timer lies.
    pub const TIMER_OFFSET: usize = DelayedItem::TIMER_OFFSET;

    /// An idle item (`INIT_DELAYED_WORK`), or one whose timer wakes nobody
    /// (`INIT_DEFERRABLE_WORK`).
    #[must_use]
    pub fn new(func: WorkFn, is_deferrable: bool) -> Self {
        Self(DelayedItem::uncounted(func, is_deferrable))
    }
}

/// As [`Workqueue::queue`], for a library's closure around one of its user's, `N`, by whose name
/// the item is known.
pub fn queue_as<N, F, T>(wq: &Workqueue, func: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    wq.queue_closure::<N, F, T>(None, func)
}

/// As [`Workqueue::try_queue`], for a library's closure as in [`queue_as`].
///
/// # Errors
/// As there.
pub fn try_queue_as<N, F, T>(wq: &Workqueue, func: F) -> Result<JoinHandle<T>, TryQueueError<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    wq.try_queue_for::<N, F, T>(None, func)
}

/// Drops a handle without waiting: if it is the last one, others take the queue down when its items
/// have ended. In a child that has not used the queue there is nothing to do, and nothing is made.
pub fn drop_later(wq: Workqueue) {
    wq.into_handle().drop_later();
}

/// A handle of a queue as one pointer, which [`Borrowed`] looks at and [`destroy`] takes back.
#[must_use]
pub fn into_raw(wq: Workqueue) -> NonNull<()> {
    wq.into_handle().into_raw()
}

/// A queue of which somebody else has the handle.
#[derive(Debug)]
pub struct Borrowed(ManuallyDrop<Workqueue>);

impl Borrowed {
    /// # Safety
    /// `raw` must come from [`into_raw`], and what [`destroy`] leaves must be there until this is
    /// dropped.
    #[inline]
    #[must_use]
    pub unsafe fn new(raw: NonNull<()>) -> Self {
        // SAFETY: the caller's promise; the reference is not taken over, because it is never
        // dropped.
        Self(ManuallyDrop::new(Workqueue::of_handle(unsafe { Handle::from_raw(raw) })))
    }
}

impl Deref for Borrowed {
    type Target = Workqueue;

    #[inline]
    fn deref(&self) -> &Workqueue {
        &self.0
    }
}

/// Makes the process's runtime and queue if it is a child that has none yet: nothing that is done
/// with the queue then can fail for want of them.
///
/// # Errors
/// If a thread that they need cannot be created.
#[inline]
pub fn make_ready(wq: &Workqueue) -> Result<(), crate::Error> {
    wq.handle().make_ready()
}

/// Whether [`make_ready`] has nothing to make.
#[inline]
#[must_use]
pub fn is_ready(wq: &Workqueue) -> bool {
    wq.handle().is_ready()
}

/// Drains the queue and takes it down: now; or, from inside one of the queue's own items or a BH
/// item, when its items are done, and the call returns at once. What is left is a handle of a queue
/// that takes in nothing but what its items queue. It is to be kept as long as anybody may use
/// `raw`; the items themselves may until they are done.
///
/// KERNEL: `destroy_workqueue` — differs: it waits for whoever still waits for an item, where Linux
/// leaks the queue.
///
/// # Safety
/// `raw` must come from [`into_raw`], and be destroyed once.
pub unsafe fn destroy(raw: NonNull<()>) -> Workqueue {
    // SAFETY: the caller's promise.
    let handle = unsafe { Handle::from_raw(raw) };
    handle.destroy();
    Workqueue::of_handle(handle)
}

/// As [`destroy`], behind the timers that are armed for the queue: their items are let in when they
/// expire. Nobody arms another one, and others than the queue's items are refused as ever. Threads
/// may be about to queue there, and are refused as well, or let in before the end; but not where
/// the queue has a rescuer, or attributes that may be changed: it is taken down at once.
///
/// # Safety
/// As there.
pub unsafe fn destroy_behind_timers(raw: NonNull<()>) -> Workqueue {
    // SAFETY: the caller's promise.
    let handle = unsafe { Handle::from_raw(raw) };
    handle.destroy_behind_timers();
    Workqueue::of_handle(handle)
}

/// Why the queue takes nothing from the caller now; `None`: it does.
#[must_use]
pub fn refusal(wq: &Workqueue) -> Option<Refused> {
    wq.handle().closed_to_caller().map(Refused::of)
}

/// What the C interface says: also a refused item counts as queued.
fn as_in_c(queueing: Queueing) -> bool {
    queueing != Queueing::Not
}

/// KERNEL: `queue_work_on` — same.
///
/// # Safety
/// `item` must be valid, and stay so until its function is entered.
#[inline]
pub unsafe fn queue(wq: &Workqueue, cpu: Option<u32>, item: NonNull<WorkItem>) -> bool {
    // SAFETY: passed on to the caller.
    as_in_c(unsafe { wq.handle().queue_item(cpu, item) })
}

/// As [`queue`]; `false` also if the queue refused the item.
///
/// # Safety
/// As for [`queue`].
pub unsafe fn queue_unless_refused(
    wq: &Workqueue,
    cpu: Option<u32>,
    item: NonNull<WorkItem>,
) -> bool {
    // SAFETY: passed on to the caller.
    unsafe { wq.handle().queue_item(cpu, item) == Queueing::Queued }
}

/// KERNEL: `queue_work_node` — same.
///
/// # Safety
/// As for [`queue`].
pub unsafe fn queue_node(wq: &Workqueue, node: Option<u32>, item: NonNull<WorkItem>) -> bool {
    let cpu = wq.cpu_of_node(node.unwrap_or(u32::MAX));
    // SAFETY: passed on to the caller.
    unsafe { queue(wq, cpu, item) }
}

/// When a timer is to expire.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// From now; 0 queues at once.
    pub after: Duration,
    /// The same as a time in jiffies, for whoever reads it.
    pub expires: u64,
}

/// KERNEL: `queue_delayed_work_on` — same.
///
/// # Safety
/// As for [`queue`].
pub unsafe fn queue_delayed(
    wq: &Workqueue,
    cpu: Option<u32>,
    item: NonNull<RawDelayed>,
    delay: Delay,
) -> bool {
    // SAFETY: valid by the caller's promise.
    let delayed = unsafe { &item.as_ref().0 };
    if delay.after.is_zero() {
        // SAFETY: passed on to the caller.
        return unsafe { queue(wq, cpu, item.cast()) };
    }
    if claiming::claim(&delayed.item, || wq.handle().runtime) == Claimed::Not {
        return false;
    }
    // SAFETY: PENDING is ours; the rest is passed on to the caller.
    as_in_c(unsafe { arm(wq, cpu, item, delay) })
}

/// KERNEL: `mod_delayed_work_on` — same. A queue that is destroyed [behind its
/// timers](destroy_behind_timers) arms none, so an item that is pending stays as it is.
///
/// # Safety
/// As for [`queue`].
pub unsafe fn mod_delayed(
    wq: &Workqueue,
    cpu: Option<u32>,
    item: NonNull<RawDelayed>,
    delay: Delay,
) -> bool {
    // SAFETY: valid by the caller's promise.
    let delayed = unsafe { &item.as_ref().0 };
    if wq.handle().closed().is_for(Closed::BEHIND_TIMERS) && delayed.item.is_pending() {
        return true;
    }
    let was_pending = grab::grab(wq.handle().runtime, Target::Delayed(delayed));
    // SAFETY: PENDING is ours; the rest is passed on to the caller.
    let _ = unsafe { arm(wq, cpu, item, delay) };
    was_pending
}

/// # Safety
/// As for [`queue`], by the owner of PENDING.
unsafe fn arm(
    wq: &Workqueue,
    cpu: Option<u32>,
    item: NonNull<RawDelayed>,
    delay: Delay,
) -> Queueing {
    // SAFETY: valid by the caller's promise, and PENDING is the caller's.
    unsafe {
        item.as_ref().0.record_expires(delay.expires);
        DelayedItem::queue_unless_disabled(item.cast(), wq.handle(), cpu, delay.after)
    }
}

/// An item, or an item with its timer.
///
/// What takes one is unsafe, since it believes the item's word, which says on which list it is: the
/// item must be one that [`WorkItem::new`] made, or C's `INIT_WORK`, and that only this module's
/// functions were given. And it must stay valid until they have returned.
#[derive(Clone, Copy, Debug)]
pub enum Any<'a> {
    /// `struct work_struct`.
    Work(&'a WorkItem),
    /// `struct delayed_work`.
    Delayed(&'a RawDelayed),
}

impl<'a> Any<'a> {
    fn target(self) -> Target<'a> {
        match self {
            Self::Work(item) => Target::Work(item),
            Self::Delayed(delayed) => Target::Delayed(&delayed.0),
        }
    }

    fn item(self) -> &'a WorkItem {
        match self {
            Self::Work(item) => item,
            Self::Delayed(delayed) => &delayed.0.item,
        }
    }
}

/// KERNEL: `cancel_work`, `cancel_delayed_work` — same.
///
/// # Safety
/// As [`Any`] says.
#[must_use]
pub unsafe fn cancel(any: Any<'_>) -> bool {
    unstarted::runtime_of(any.item()).is_some_and(|runtime| grab::cancel(runtime, any.target()))
}

/// KERNEL: `cancel_work_sync`, `cancel_delayed_work_sync` — same.
///
/// # Safety
/// As [`Any`] says.
#[must_use]
pub unsafe fn cancel_sync(any: Any<'_>) -> bool {
    unstarted::runtime_of(any.item())
        .is_some_and(|runtime| grab::cancel_sync(runtime, any.target()).was_pending)
}

/// KERNEL: `disable_work`, `disable_delayed_work` — same.
///
/// # Safety
/// As [`Any`] says.
#[must_use]
pub unsafe fn disable(any: Any<'_>) -> bool {
    unstarted::disable(any.item()).is_some_and(|runtime| grab::disable(runtime, any.target()))
}

/// KERNEL: `disable_work_sync`, `disable_delayed_work_sync` — same.
///
/// # Safety
/// As [`Any`] says.
#[must_use]
pub unsafe fn disable_sync(any: Any<'_>) -> bool {
    unstarted::disable(any.item()).is_some_and(|runtime| grab::disable_sync(runtime, any.target()))
}

/// KERNEL: `enable_work`, `enable_delayed_work` — same; but one call too many takes an armed timer,
/// until whose end Linux spins.
///
/// # Safety
/// As [`Any`] says.
#[must_use]
pub unsafe fn enable(any: Any<'_>) -> bool {
    let by = |runtime| grab::enable(runtime, any.target()).is_enabled;
    unstarted::enable(any.item()).unwrap_or_else(|runtime| runtime.is_some_and(by))
}

/// KERNEL: `flush_work` — same.
///
/// # Safety
/// As [`Any`] says.
#[must_use]
pub unsafe fn flush(item: &WorkItem) -> bool {
    Runtime::existing().is_some_and(|runtime| flush::flush_item(runtime, item, Purpose::Flush))
}

/// KERNEL: `flush_delayed_work` — same.
///
/// # Safety
/// As for [`queue`].
pub unsafe fn flush_delayed(item: NonNull<RawDelayed>) -> bool {
    // SAFETY: passed on to the caller.
    Runtime::existing().is_some_and(|runtime| unsafe { flush::flush_delayed(runtime, item.cast()) })
}

/// Lets the timer of an item expire now, if it is armed: the item is queued where it was to go.
///
/// KERNEL: `delayed_work_timer_fn` — same, but that the timer need not have expired.
///
/// # Safety
/// `item` must be valid, and stay so until its function is entered.
pub unsafe fn expire(item: NonNull<RawDelayed>) {
    let Some(runtime) = Runtime::existing() else { return };
    // SAFETY: valid by the caller's promise.
    if let Some(target) = unsafe { item.as_ref() }.0.take_timer(runtime) {
        // SAFETY: taking the timer has made PENDING ours.
        unsafe { DelayedItem::go(item.cast(), target) };
    }
}

/// Makes the caller the owner of an idle item's PENDING, to queue or
/// [release](WorkItem::release) it; `false`: somebody else is.
#[must_use]
pub fn claim(item: &WorkItem) -> bool {
    unstarted::claim(item)
}

/// Whether no pool of this process has had an item, by its word: who has made it may have disabled
/// it since, or claimed it and given it up.
#[must_use]
pub fn was_never_queued(item: &WorkItem) -> bool {
    unstarted::names_no_pool(item)
}

/// KERNEL: `work_pending` — same, in this process: not what the parent of a fork had queued.
#[must_use]
pub fn is_pending(item: &WorkItem) -> bool {
    process::is_pending(item)
}

/// KERNEL: `work_busy` — same: whether it is pending, and whether it is running.
#[must_use]
pub fn busy(item: &WorkItem) -> (bool, bool) {
    let runtime = Runtime::existing();
    let busy = runtime.map(|runtime| flush::busy(runtime, item)).unwrap_or_default();
    (busy.pending, busy.running)
}

/// KERNEL: `current_work` — same. Only the address means anything.
#[must_use]
pub fn current_work() -> Option<NonNull<WorkItem>> {
    current::current_item().and_then(|item| NonNull::new(item.cast_mut()))
}

/// The function of the item that the calling thread runs, a BH item included; 0: none.
///
/// KERNEL: `current_func` of the worker — same.
#[must_use]
pub fn current_func() -> usize {
    current::running().map_or(0, |(_, func)| func)
}

/// Whether the caller runs an item of a BH queue. KERNEL: `in_interrupt` — same, as far as items
/// go.
#[must_use]
pub fn in_bh() -> bool {
    current::in_bh()
}

/// The first half of [`blocking`](crate::blocking).
pub fn begin_blocking() {
    current::begin_blocking();
}

/// The second half, by the thread that did the first.
pub fn end_blocking() {
    current::end_blocking();
}

/// The CPUs that the process may use now: never none.
#[must_use]
pub fn usable_cpus() -> Vec<u32> {
    // Who only asks starts nothing.
    Runtime::existing().map_or_else(|| topo::allowed_cpus().iter().collect(), Runtime::usable_cpus)
}

/// Makes the process's runtime now, in place of the first use of a queue.
///
/// # Errors
/// If its service thread cannot be created.
pub fn start() -> Result<(), crate::Error> {
    Runtime::global().map(drop)
}

/// KERNEL: `wq_watchdog_touch` — same: a negative `cpu` is none.
pub fn touch_watchdog(cpu: i32) {
    crate::observe::watchdog::touch(u32::try_from(cpu).ok());
}

/// The statistics of queues and pools in the text format that Prometheus reads; empty before the
/// library was used.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
#[must_use]
pub fn metrics_text() -> String {
    crate::observe::totals::text()
}

/// A variable of the environment; `None` in a program with privileges of its own (setuid).
#[must_use]
pub fn var(name: &str) -> Option<String> {
    crate::os::environment::var(name)
}

/// Calls a work function here and now, which has to return as in [`must_return`].
///
/// # Safety
/// As for the function itself.
pub unsafe fn call(func: WorkFn, item: NonNull<WorkItem>) {
    // SAFETY: passed on to the caller; made ready by `must_return`.
    must_return(func as usize, || unsafe { invoke::may_escape(func)(item.as_ptr()) });
}

/// Calls `what`, which calls the function at address `func` that has to return: if it ends its
/// thread or lets an exception out, the process ends with a word about it.
pub fn must_return<R>(func: usize, what: impl FnOnce() -> R) -> R {
    crate::os::must_return::must_return(|| format!("function {}", symbol::name_of(func)), what)
}

/// Says `text` on standard error, also in a silent process, and ends the process.
#[cold]
pub fn die(text: &str) -> ! {
    notice::last_word(text);
    std::process::abort()
}

/// As the functions of [`system`], for queues of the C library's.
///
/// # Errors
/// As there.
pub fn get_or_build(
    queue: &'static OnceLock<Workqueue>,
    name: &str,
    build: fn(Builder) -> Builder,
) -> Result<&'static Workqueue, crate::Error> {
    crate::api::system::get_or_build(queue, name, build)
}

/// A number of this process, which its children do not have. Forks count from the first use of the
/// library on.
#[must_use]
pub fn generation() -> u32 {
    generation::current()
}

/// Says `text` on standard error, as what the library has to say itself.
#[track_caller]
pub fn say(text: String) {
    watch_forks();
    notice::always(text);
}

/// Writes `text` to standard error as it is.
pub fn print(text: &str) {
    stderr::write(text);
}
