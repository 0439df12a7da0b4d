//! Where an item is, by its address alone: for memory that may hold something else by now.

use cmwq_core::Kick;

use crate::engine::delayed::DelayedItem;
use crate::engine::runtime::Runtime;

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
