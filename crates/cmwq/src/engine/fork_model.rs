//! Under a model checker nobody forks.

use cmwq_core::WorkItem;

use crate::engine::runtime::Runtime;

pub(crate) const fn take_over(_runtime: &Runtime, _item: &WorkItem) -> bool {
    false
}
