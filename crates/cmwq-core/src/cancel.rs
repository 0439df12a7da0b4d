//! Taking an item back.

use core::ptr::NonNull;

use crate::list;
use crate::pool::{Effects, Kick, Left, PoolState, Rule};
use crate::word::WorkWord;
use crate::work::WorkItem;

/// What an attempt to take an item off this pool's lists did.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grab {
    /// The item was queued here; now the caller owns its `PENDING`, and must publish or queue it.
    /// Its slot may start another.
    Taken(Kick, Effects),
    /// The item is not queued here.
    NotHere,
}

impl PoolState {
    /// Steals a queued item, active or not, scheduled or not. Its barriers stay and run without it.
    ///
    /// KERNEL: `try_to_grab_pending` under the pool's lock — same, except that it kicks: Linux
    /// wakes no worker for the item that the freed slot activates, which was seen to cost seconds.
    ///
    /// # Safety
    /// `item` must be valid.
    pub unsafe fn try_grab(&mut self, item: NonNull<WorkItem>) -> Grab {
        self.assert_caught_up();
        // SAFETY: the caller promises validity.
        let item_ref = unsafe { item.as_ref() };
        let word = item_ref.word();
        let Some(at) = word.pwq().filter(|at| at.pool == self.id()) else { return Grab::NotHere };
        let node = WorkItem::node(item);
        let is_alone = !self.keeps(Rule::BarriersOutliveTheirItem);
        if word.is_inactive() && word.is_linked() && !is_alone {
            // The barriers must not wait for a slot that a cancelled item will never take.
            // SAFETY: (queued): the item is linked here and so is what is linked to it.
            unsafe {
                if let Some(barrier) = self.worklist_after(node) {
                    self.move_chain_to_worklist(barrier);
                }
            }
        }
        // SAFETY: (queued), (locked).
        unsafe { list::unlink(node) };
        self.fix_cursors();
        let idle = WorkWord::off_queue(self.id(), self.config().is_bh());
        item_ref.publish_idle(idle.with_pending(true));
        self.pwq_count_cancelled(at.pwq);
        let effects = self.dec_in_flight(at.pwq, word.color(), word.is_inactive(), Left::Cancelled);
        let kick = if self.keeps(Rule::GrabKicks) { self.kick() } else { Kick::None };
        Grab::Taken(kick, effects)
    }
}
