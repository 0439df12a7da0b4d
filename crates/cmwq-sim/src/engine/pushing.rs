//! Pushing into the inbox of a saturated pool: some time after the queuer has found it saturated,
//! while other threads go on. What was true then may not be any more when the item is there.
//!
//! Only items that nobody else looks for meanwhile are late, and only on queues that stay: who
//! cancels an item that is on its way, or waits for it, tries again until it is there.

use cmwq_core::{Kick, LockFor};

use super::{Due, Engine};
use crate::agenda::Rank;
use crate::event::Queueing;
use crate::places::CpuPwq;
use crate::plan::{ItemId, Op, Plan};

/// An item that its queuer has claimed, on its way into an inbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct Push {
    pub(super) what: Queueing,
    pub(super) cpu_pwq: CpuPwq,
}

/// Those that are late, and whose may be.
#[derive(Debug, Default)]
pub(super) struct Pushing {
    /// By number, as `Due::Push` has it.
    late: Vec<Push>,
    /// By item; none where pushing takes no time.
    may_be_late: Vec<bool>,
}

impl Pushing {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut may_be_late = vec![true; plan.items.len()];
        let items = plan.items.iter().flat_map(|item| item.ops.iter());
        let owners = plan.owners.iter().flat_map(|owner| &owner.ops);
        for op in items.chain(plan.calls.iter().map(|call| &call.op)).chain(owners) {
            match *op {
                Op::FlushItem(item) | Op::FlushDelayed(item) => may_be_late[item] = false,
                Op::Cancel(item) | Op::CancelSync(item) => may_be_late[item] = false,
                Op::ModDelayed { item, .. } => may_be_late[item] = false,
                Op::DropQueue(queue) => {
                    let theirs = plan.items.iter().zip(&mut may_be_late);
                    theirs
                        .filter(|(item, _)| item.queue == queue)
                        .for_each(|(_, may)| *may = false);
                }
                _ => {}
            }
        }
        Self { late: Vec::new(), may_be_late }
    }

    fn may_be_late(&self, item: ItemId) -> bool {
        self.may_be_late.get(item).is_some_and(|may| *may)
    }
}

impl Engine<'_> {
    /// A queuer has found the pool saturated, and has claimed its item.
    pub(super) fn begin_push(&mut self, push: Push) {
        let at_most = self.config.costs.push;
        if !self.pushing.may_be_late(push.what.item) || self.rng.chance(500_000) {
            return self.push(push);
        }
        let at = self.now + self.rng.below(at_most + 1);
        self.agenda.add(at, Rank::Wake, Due::Push(self.pushing.late.len()));
        self.pushing.late.push(push);
    }

    pub(super) fn push_late(&mut self, number: usize) {
        self.push(self.pushing.late[number]);
    }

    fn push(&mut self, Push { what, cpu_pwq }: Push) {
        let inbox = &self.pools.list[cpu_pwq.pool].inbox;
        let is_enough = self.arena.push(inbox, cpu_pwq.pwq, what.item);
        self.nr_pushed += 1;
        self.note_queued(what, cpu_pwq);
        if !is_enough {
            self.pools.list[cpu_pwq.pool].lock(LockFor::Inbox);
            self.kick(cpu_pwq.pool, Kick::None);
        }
    }
}
