//! Under a model checker nobody forks.

use cmwq_core::WorkItem;

use crate::engine::runtime::Runtime;

pub(crate) const fn generation() -> u32 {
    0
}

pub(crate) const fn is_child() -> bool {
    false
}

pub(crate) const fn take_over(_runtime: &Runtime, _item: &WorkItem) -> bool {
    false
}
