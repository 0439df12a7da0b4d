//! Feature `tracing`: the spans in which closures were queued, until they begin, so that they are
//! the parents of the spans of their runs; and names of functions, once found.

use std::collections::BTreeMap;

use cmwq_core::WorkItem;
use tracing::{Level, Span};

use crate::os::generation;
use crate::os::panic::guarded;
use crate::os::sync::{Arc, AtomicUsize, Ordering, PlainGuard, PlainMutex, lock_plain};
use crate::record::symbol;

type Shard = PlainMutex<BTreeMap<usize, Span>>;

/// By the addresses of items.
static CALLERS: [Shard; 64] = [const { PlainMutex::new(BTreeMap::new()) }; 64];
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// By the addresses of functions.
static NAMES: PlainMutex<BTreeMap<usize, Arc<str>>> = PlainMutex::new(BTreeMap::new());

/// In a child a thread of the parent's may have a lock for ever: done without then.
fn lock<T>(mutex: &'static PlainMutex<T>) -> Option<PlainGuard<'static, T>> {
    if generation::is_child() { mutex.try_lock().ok() } else { Some(lock_plain(mutex)) }
}

/// Items are 16 bytes apart at least.
fn shard(item: *const WorkItem) -> Option<PlainGuard<'static, BTreeMap<usize, Span>>> {
    lock(&CALLERS[item.addr() / 64 % CALLERS.len()])
}

/// A closure is about to be queued from here.
#[inline]
pub(crate) fn enter(item: *const WorkItem) {
    guarded(|| {
        if tracing::enabled!(target: "cmwq", Level::TRACE) {
            enter_span(item);
        }
    });
}

#[cold]
fn enter_span(item: *const WorkItem) {
    let span = Span::current();
    if span.is_none() {
        return;
    }
    let before = shard(item).map(|mut shard| {
        // ORDERING: no pairing: the closure begins after this, and finds it under the lock.
        COUNT.fetch_add(1, Ordering::Relaxed);
        shard.insert(item.addr(), span)
    });
    drop(before);
}

/// It never begins. The span may end with this, of which the subscriber is told.
pub(crate) fn forget(item: *const WorkItem) {
    guarded(|| drop(leave(item)));
}

/// It begins: the span from which it was queued.
#[inline]
pub(super) fn leave(item: *const WorkItem) -> Option<Span> {
    // ORDERING: no pairing: queueing an item orders it before its run.
    if COUNT.load(Ordering::Relaxed) == 0 { None } else { leave_span(item) }
}

#[cold]
fn leave_span(item: *const WorkItem) -> Option<Span> {
    let span = shard(item)?.remove(&item.addr());
    if span.is_some() {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
    span
}

/// The function's name, or its address.
pub(super) fn name_of(func: usize) -> Arc<str> {
    if let Some(known) = lock(&NAMES).and_then(|names| names.get(&func).cloned()) {
        return known;
    }
    let name: Arc<str> = symbol::short(func).into();
    if let Some(mut names) = lock(&NAMES) {
        names.insert(func, Arc::clone(&name));
    }
    name
}
