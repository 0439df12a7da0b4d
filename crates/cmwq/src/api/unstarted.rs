//! Items in a process that has no runtime yet.
//!
//! Nothing is queued, armed or running there, so an item is idle, and is disabled and enabled by
//! its word alone. No runtime is made for that: afterwards a program could not say any more how
//! threads begin, and where none can be had a disabling would be lost.
//!
//! A forked child needs a runtime to claim an item, which its parent may have queued:
//! [`claiming`].

use cmwq_core::{WorkItem, consts};

use crate::engine::process::watch_forks;
use crate::engine::runtime::Runtime;
use crate::engine::runtime::claiming::{self, Claimed};
use crate::os::backoff::Backoff;
use crate::os::generation;
use crate::os::notice;
use crate::record::symbol;

/// The runtime in which an item may be pending or running. `None`: the item is idle, or that cannot
/// be made, which was said.
pub(crate) fn runtime_of(item: &WorkItem) -> Option<&'static Runtime> {
    match Runtime::existing() {
        // By the word that the parent has left, which is to be taken over.
        None if generation::is_child() && item.is_pending() => make_for(item, "cancelled"),
        existing => existing,
    }
}

/// `None`: that cannot be made, which is said.
#[cold]
fn make_for(item: &WorkItem, what: &str) -> Option<&'static Runtime> {
    let say = |error: &crate::Error| {
        let func = symbol::name_of(item.func() as *const () as usize);
        notice::always(format!(
            "work item {item:p} ({func}) cannot be {what}: {error}: nothing is done"
        ));
    };
    Runtime::global().inspect_err(say).ok()
}

/// Disables an item; the runtime that is to do it, if any.
pub(crate) fn disable(item: &WorkItem) -> Option<&'static Runtime> {
    let deeper = |depth| (depth < consts::WORK_DISABLE_MAX).then_some(depth + 1);
    change_depth(item, "disabled", deeper).err().flatten()
}

/// Enables an item: whether it can be queued then. An error: the runtime that is to do it, if any.
pub(crate) fn enable(item: &WorkItem) -> Result<bool, Option<&'static Runtime>> {
    change_depth(item, "enabled", |depth| depth.checked_sub(1)).map(|depth| depth == 1)
}

/// Changes how often an item is disabled by its word alone, and returns how often it was. An error:
/// a runtime is to do it, or, if there is none, that was said. So where `change` has no answer: the
/// runtime says what is wrong.
fn change_depth(
    item: &WorkItem,
    what: &str,
    change: impl Fn(u32) -> Option<u32>,
) -> Result<u32, Option<&'static Runtime>> {
    // A child that is forked while we have PENDING must know that it is one.
    watch_forks();
    let mut backoff = Backoff::new();
    loop {
        if let Some(runtime) = Runtime::existing() {
            return Err(Some(runtime));
        }
        if generation::is_child() {
            return Err(make_for(item, what));
        }
        let word = item.claim();
        if word.is_pending() {
            // Another thread is here, too, or has made a runtime meanwhile and queues the item.
            backoff.pause();
            continue;
        }
        let depth = word.disable_depth();
        let changed = change(depth);
        item.release(changed.map_or(word, |depth| word.with_disable_depth(depth)));
        return if changed.is_some() { Ok(depth) } else { Err(make_for(item, what)) };
    }
}

/// Whether an item's word names no pool. In a child that was claimed there it names one that is
/// [nowhere](claiming).
pub(crate) fn names_no_pool(item: &WorkItem) -> bool {
    let word = item.word();
    let is_nowhere = |pool| {
        let has_none = |runtime: &'static Runtime| runtime.pool(pool).is_none();
        generation::is_child() && Runtime::existing().is_none_or(has_none)
    };
    !word.is_queued() && word.last_pool().is_none_or(is_nowhere)
}

/// Makes the caller the owner of an idle item's PENDING; `false`: somebody else is, or a child has
/// no thread to make its runtime with.
pub(crate) fn claim(item: &WorkItem) -> bool {
    if !generation::is_child() {
        watch_forks();
        return !item.claim().is_pending();
    }
    let claim = |runtime| claiming::claim(item, || runtime) != Claimed::Not;
    Runtime::global().is_ok_and(claim)
}
