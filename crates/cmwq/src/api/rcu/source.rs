//! Who says that a grace period is over.

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr::{self, NonNull};

use super::RcuItem;
use crate::engine::process::readers;
use crate::os::error::Error;
use crate::os::notice::{self, Notice};
use crate::os::sync::plain::{AtomicPtr, Ordering};
use crate::os::sync::{acquire, release};

/// What a source of grace periods calls when one is over.
pub type RcuFunc = unsafe extern "C" fn(*mut RcuHead);

/// What a source needs to remember what waits, in the item: two words, as `struct rcu_head` of the
/// kernel and of liburcu.
#[repr(C)]
#[doc(alias = "rcu_head")]
pub struct RcuHead {
    words: UnsafeCell<[*mut (); 2]>,
}

// SAFETY: whoever the head is lent to has it alone.
unsafe impl Send for RcuHead {}
// SAFETY: as above.
unsafe impl Sync for RcuHead {}

impl RcuHead {
    pub(crate) fn new() -> Self {
        Self { words: UnsafeCell::new([ptr::null_mut(); 2]) }
    }
}

impl RcuHead {
    /// Keeps a word until the source takes the head, or it is [read](Self::kept).
    ///
    /// # Safety
    /// The head must be the caller's.
    pub(crate) unsafe fn keep(&self, word: *mut ()) {
        // SAFETY: the caller's promise.
        unsafe { (*self.words.get())[1] = word };
    }

    /// # Safety
    /// As for [`keep`](Self::keep).
    pub(crate) unsafe fn kept(&self) -> *mut () {
        // SAFETY: the caller's promise.
        unsafe { (*self.words.get())[1] }
    }
}

impl fmt::Debug for RcuHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RcuHead").finish_non_exhaustive()
    }
}

/// A source of grace periods; see [`set_grace_periods`].
///
/// # Safety
/// [`call_rcu`](Self::call_rcu) must call `func(head)` once, from any thread, and not before all
/// read-side sections that the source knows and that were in progress at the call have ended;
/// until then `*head` is the source's. [`rcu_barrier`](Self::rcu_barrier) must not return before
/// all calls that were asked for before it have returned.
pub unsafe trait GracePeriods: Sync {
    /// Calls `func(head)` when a grace period is over. Called from whatever thread queues, and must
    /// not wait for readers.
    ///
    /// # Safety
    /// `head` must be valid until `func` is called with it, and `func` safe to be called with it,
    /// once, from any thread.
    unsafe fn call_rcu(&self, head: *mut RcuHead, func: RcuFunc);

    /// Waits for all calls of functions that were asked for before.
    fn rcu_barrier(&self);
}

/// A source, or the knowledge that there is none.
type Known = Option<&'static dyn GracePeriods>;

/// Null until that is known, then for ever the same. No cell that somebody may be about to set: a
/// child that is forked meanwhile would wait for him for ever.
static SOURCE: AtomicPtr<Known> = AtomicPtr::new(ptr::null_mut());

fn known() -> Option<Known> {
    // ORDERING: Acquire pairs with the Release of `set`.
    let known = SOURCE.load(acquire("published"));
    // SAFETY: null, or from a box that is never freed.
    unsafe { known.as_ref() }.copied()
}

/// `false`: it is known already.
fn set(source: Known) -> bool {
    let new = Box::into_raw(Box::new(source));
    let (null, publishing) = (ptr::null_mut(), release("publish"));
    // ORDERING: Release pairs with the Acquire of `known`; who comes too late reads nothing here.
    if SOURCE.compare_exchange(null, new, publishing, Ordering::Relaxed).is_ok() {
        return true;
    }
    // SAFETY: of the box above, and nobody has seen it.
    drop(unsafe { Box::from_raw(new) });
    false
}

/// Makes `source` say when grace periods are over, for all [`RcuWork`](crate::RcuWork) of the
/// process. Sections of [`rcu_read_lock`](crate::rcu_read_lock) are waited for besides.
///
/// Without it, the first item that is queued decides: with the crate's feature `liburcu`, for
/// liburcu's flavour "memb", if `liburcu-memb.so.8` can be loaded (threads that queue should be
/// registered with it, as it asks of whoever calls `call_rcu`); else for the sections of
/// `rcu_read_lock` alone. That nothing else is waited for is logged once, unless the program has
/// used those.
///
/// After a fork the child has the same source. An item that was in one of its grace periods at the
/// fork is the parent's, and cannot be queued in the child before the source has called its
/// function there, as liburcu does if it is told of forks; that call queues nothing.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): there is a source already, or an item has
/// been queued.
///
/// ```standalone_crate
/// use cmwq::{GracePeriods, RcuFunc, RcuHead};
///
/// /// For a program without readers.
/// struct Nobody;
///
/// // SAFETY: there are no readers to wait for, so a grace period is over at once.
/// unsafe impl GracePeriods for Nobody {
///     unsafe fn call_rcu(&self, head: *mut RcuHead, func: RcuFunc) {
///         // SAFETY: the caller's promise.
///         unsafe { func(head) }
///     }
///     fn rcu_barrier(&self) {}
/// }
///
/// cmwq::set_grace_periods(&Nobody)?;
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn set_grace_periods(source: &'static dyn GracePeriods) -> Result<(), Error> {
    if set(Some(source)) {
        return Ok(());
    }
    Err(Error::invalid(
        "grace periods have a source already: it can be set once, before the first RcuWork is \
         queued",
    ))
}

/// The source, if the program has set one or one was found for an item.
pub(crate) fn given() -> Option<&'static dyn GracePeriods> {
    known().flatten()
}

/// The program's source, if it has one.
fn source() -> Option<&'static dyn GracePeriods> {
    if let Some(source) = known() {
        return source;
    }
    // If another thread is first, what it has found holds.
    set(without_a_source());
    given()
}

#[cold]
fn without_a_source() -> Option<&'static dyn GracePeriods> {
    #[cfg(feature = "liburcu")]
    match super::liburcu::load() {
        Ok(source) => return Some(Box::leak(Box::new(source))),
        Err(why) => notice::once(Notice::Liburcu, || {
            format!(
                "liburcu cannot be used ({why}; install liburcu 0.13 or later): RcuWork waits for \
                 readers inside of \
                 cmwq::rcu_read_lock only"
            )
        }),
    }
    if cfg!(not(feature = "liburcu")) && !readers::were_any() {
        notice::once(Notice::GracePeriods, || {
            "nobody tells of grace periods: RcuWork waits for readers inside of \
             cmwq::rcu_read_lock only (others: \
             cmwq::set_grace_periods, or the feature liburcu)"
                .to_owned()
        });
    }
    None
}

/// Queues the item when a grace period is over.
///
/// # Safety
/// As for [`RcuItem::go`], until it is queued.
pub(super) unsafe fn call(item: NonNull<RcuItem>) {
    match source() {
        // SAFETY: the head is valid as the item is, and the function is for it.
        Some(source) => unsafe { source.call_rcu(RcuItem::head(item).as_ptr(), is_over) },
        // SAFETY: passed on to the caller.
        None => unsafe { readers::wait_for_readers(item.cast(), RcuItem::go) },
    }
}

/// The source's grace period is over; now for our own readers.
///
/// # Safety
/// As `call` handed it over.
unsafe extern "C" fn is_over(head: *mut RcuHead) {
    let head = NonNull::new(head).expect("a source lost the head it was given");
    // SAFETY: `call` gave it, and the source gives the item back with it.
    unsafe { readers::wait_for_readers(RcuItem::of_head(head).cast(), RcuItem::go) };
}

/// Waits until all items whose grace period had begun are queued. Decides nothing: who has queued
/// one has found its source, and the program may still set one if nobody has.
pub(crate) fn barrier() {
    if let Some(source) = given() {
        crate::engine::threads::current::blocking(|| source.rcu_barrier());
    }
    readers::barrier();
}
