//! What C programs ask: of a worker by the id of its thread, and of an item by its address alone,
//! where there may be something else by now.

use cmwq_core::Kick;

use crate::engine::delayed::DelayedItem;
use crate::engine::runtime::Runtime;
use crate::observe::show;
use crate::record::symbol;

/// `Workqueue: NAME FUNCTION (DESC)` for a worker that runs an item, whose thread is `tid`.
#[must_use]
pub fn worker_info(tid: i32) -> Option<String> {
    let info = show::worker_info(tid)?;
    let mut text = format!("Workqueue: {} {}", info.wq, symbol::short(info.func));
    if let Some(desc) = info.desc.filter(|desc| *desc != info.wq) {
        text.push_str(&format!(" ({desc})"));
    }
    Some(text)
}

/// The name of the worker whose thread is `tid`, in full: `kworker/0:1+queue`.
#[must_use]
pub fn worker_comm(tid: i32) -> Option<String> {
    show::worker_comm(tid)
}

/// The function that the worker whose thread is `tid` ran last.
#[must_use]
pub fn last_func(tid: i32) -> Option<usize> {
    show::last_func(tid)
}

/// The name of a function, or its address.
#[must_use]
pub fn function_name(func: usize) -> String {
    symbol::name_of(func)
}

/// Where an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// On no list.
    Nowhere,
    /// Queued, or behind a limit, on the queue of this name.
    Queued(String),
    /// Its timer is armed.
    Armed,
}

/// Looks for an item everywhere, without touching what is at `item`. Takes all pools' locks, one
/// after the other, for as long as their lists are: for debugging.
#[must_use]
pub fn find(item: usize) -> Whereabouts {
    let Some(runtime) = Runtime::existing() else { return Whereabouts::Nowhere };
    let queued = runtime.pools().find_map(|pool| {
        let guard = pool.lock();
        let wq = guard.core.queue_of_item_at(item);
        pool.unlock(guard, Kick::None);
        wq
    });
    match queued {
        Some(wq) => Whereabouts::Queued(runtime.wq_name(wq).unwrap_or_default()),
        None if runtime.service.has_timer_at(item.wrapping_add(DelayedItem::TIMER_OFFSET)) => {
            Whereabouts::Armed
        }
        None => Whereabouts::Nowhere,
    }
}
