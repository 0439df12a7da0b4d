//! `CMWQ_DEBUG=objects`: the lives of items, from their initialisation to the end of their memory,
//! so that what would corrupt a pool's lists is said, and prevented, before it does.
//!
//! What an item is doing is not followed but looked up when there is a question: an item that is
//! known lies in memory that holds an item still, or else somebody failed to say that it does not.
//!
//! KERNEL: `work_debug_descr` of debugobjects — same: initialising or freeing what is queued is
//! said and the item is cancelled first; an item that was never initialised is not queued (there it
//! is, after the warning).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

use cmwq::raw::{self, Any, RawDelayed, Whereabouts, WorkItem};

use crate::fork::Lock;
use crate::item::{func, is_fresh, work};

/// What is known of an item, by its address.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    is_on_stack: bool,
    is_rcu: bool,
}

pub(crate) static OBJECTS: Lock<Objects> = Lock::new(BTreeMap::new());
pub(crate) type Objects = BTreeMap<usize, Object>;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether the environment says so. One load.
#[inline]
pub(super) fn are_followed() -> bool {
    // ORDERING: no pairing: it is a constant of the process.
    match STATE.load(Ordering::Relaxed) {
        UNKNOWN => read_environment(),
        state => state == ON,
    }
}

#[cold]
fn read_environment() -> bool {
    let wanted = raw::var("CMWQ_DEBUG").unwrap_or_default();
    let is_on = wanted.split([',', ' ']).any(|what| what == "objects");
    // ORDERING: as above; who writes at the same time writes the same.
    STATE.store(if is_on { ON } else { OFF }, Ordering::Relaxed);
    is_on
}

std::thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does `what`, unless the thread is here already: what is freed here may be told of by a wrapper
/// of `free`.
fn once<R>(otherwise: R, what: impl FnOnce() -> R) -> R {
    if IS_INSIDE.replace(true) {
        return otherwise;
    }
    let result = what();
    IS_INSIDE.set(false);
    result
}

/// `None`: in the middle of a fork nothing is looked up.
fn objects<R>(what: impl FnOnce(&mut Objects) -> R) -> Option<R> {
    OBJECTS.lock().map(|mut known| what(&mut known))
}

/// The memory is about to become an item, and is then known.
#[cold]
pub(super) fn init(item: *mut WorkItem, is_on_stack: bool, is_rcu: bool) {
    once((), || {
        if objects(|known| known.contains_key(&item.addr())) == Some(true) {
            end_of(item, "it is initialised again");
        }
        objects(|known| known.insert(item.addr(), Object { is_on_stack, is_rcu }));
    });
}

/// Whether it was initialised. What a declaration initialised is known from its first queueing on.
#[cold]
pub(super) fn may_be_queued(item: *mut WorkItem) -> bool {
    once(true, || {
        // In one step: who queues it at the same time finds it known, or as it was declared.
        let is_known = objects(|known| {
            let is_known = known.contains_key(&item.addr());
            // SAFETY: valid, and its function is there: our caller has looked.
            if is_known || !unsafe { is_fresh(item) } {
                return is_known;
            }
            known.insert(item.addr(), Object { is_on_stack: false, is_rcu: false });
            true
        });
        let may_be_queued = is_known.unwrap_or(true);
        if !may_be_queued {
            raw::say(format!(
                "work item {item:p} is queued and was not initialised, or its memory was freed \
                 since: it is not queued"
            ));
        }
        may_be_queued
    })
}

/// The memory ends, for the reason `why`; what lies in it is known no more.
#[cold]
pub(super) fn end(address: usize, size: usize, why: &str) {
    let last = address.saturating_add(size.max(1) - 1);
    once((), || {
        let within = |known: &mut Objects| known.range(address..=last).next().map(|(&at, _)| at);
        while let Some(at) = objects(within).flatten() {
            end_of(std::ptr::with_exposed_provenance_mut(at), why);
            objects(|known| known.remove(&at));
        }
    });
}

/// Says it if the item is queued or armed, and takes it back.
fn end_of(item: *mut WorkItem, why: &str) {
    let Some(object) = objects(|known| known.get(&item.addr()).copied()).flatten() else {
        return;
    };
    // SAFETY: it is known, so its memory held an item, and can be read still.
    let this = unsafe { work(item) };
    if !raw::is_pending(this) {
        return;
    }
    let found = raw::find(item.addr());
    let doing = match &found {
        Whereabouts::Queued(name) => {
            format!("it is queued on workqueue '{name}'; it is cancelled first")
        }
        Whereabouts::Armed => "its timer is armed; it is cancelled first".to_owned(),
        Whereabouts::Nowhere if object.is_rcu => {
            "it waits for a grace period, which cannot be cancelled".to_owned()
        }
        Whereabouts::Nowhere => return,
    };
    let kind = if object.is_on_stack { "work item on a stack" } else { "work item" };
    let func = raw::function_name(func(this));
    raw::say(format!("{kind} {item:p} ({func}): {why} while {doing}"));
    let _ = match found {
        // SAFETY: it was found where it was queued.
        Whereabouts::Queued(_) => unsafe { raw::cancel(Any::Work(this)) },
        // SAFETY: what has a timer that is armed is an item with a timer.
        Whereabouts::Armed => unsafe { raw::cancel(Any::Delayed(&*item.cast::<RawDelayed>())) },
        Whereabouts::Nowhere => false,
    };
}
