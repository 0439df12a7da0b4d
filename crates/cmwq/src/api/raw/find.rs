//! Where an item is, by its address alone: for memory that may hold something else by now.

use crate::engine::item::delayed::DelayedItem;
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
    Runtime::existing().map_or(Whereabouts::Nowhere, |runtime| find_in(runtime, item))
}

pub(crate) fn find_in(runtime: &'static Runtime, item: usize) -> Whereabouts {
    let queued = runtime.pools().find_map(|pool| pool.read(|core, _| core.queue_of_item_at(item)));
    match queued {
        Some(wq) => Whereabouts::Queued(runtime.wq_name(wq).unwrap_or_default()),
        None if runtime.service.has_timer_at(item.wrapping_add(DelayedItem::TIMER_OFFSET)) => {
            Whereabouts::Armed
        }
        None => Whereabouts::Nowhere,
    }
}
