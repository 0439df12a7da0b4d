//! Delayed items: one timing wheel for the machine.

use cmwq_core::FIRE_BATCH;
use cmwq_core::delayed::{self, Destination, Hold};

use super::{Due, Engine};
use crate::Nanos;
use crate::agenda::Rank;
use crate::arena::Arena;
use crate::config::Sabotage;
use crate::event::{Queueing, What};
use crate::places::Kind;
use crate::plan::{ItemId, QueueId};

impl Engine<'_> {
    /// Queues an item after a delay; without one, at once.
    pub(super) fn queue_delayed(
        &mut self,
        item: ItemId,
        cpu: Option<u32>,
        delay: Nanos,
        here: u32,
    ) {
        if delay == 0 {
            self.queue(item, cpu, here);
            return;
        }
        if !self.arena.claim(item).is_pending() {
            self.arm(item, cpu, delay);
        }
    }

    /// Arms the timer of an item whose `PENDING` the caller owns.
    fn arm(&mut self, item: ItemId, cpu: Option<u32>, delay: Nanos) {
        let ticket = self.new_ticket(item);
        let due = self.now + delay;
        self.items[item].cpu = cpu;
        let queue = self.plan.items[item].queue;
        self.note(What::Armed(Queueing { item, ticket, queue }, due));
        let early = if self.config.sabotage == Some(Sabotage::FireEarly) { delay / 2 } else { 0 };
        self.arena.arm(&mut self.wheel, item, due - early);
        self.queues[queue].nr_timers += 1;
        self.plan_wheel();
    }

    /// Times an item anew, wherever it waits. Its `PENDING` is owned meanwhile, so it goes into no
    /// inbox. Unless its queue lets it in (`is_let`), it is only taken back. KERNEL:
    /// `mod_delayed_work_on` — same.
    pub(super) fn mod_delayed(
        &mut self,
        item: ItemId,
        cpu: Option<u32>,
        delay: Nanos,
        here: u32,
        is_let: bool,
    ) {
        if !is_let {
            self.cancel(item);
            return;
        }
        self.note(What::Retimed(item, self.now + delay));
        let is_kept = self.config.sabotage == Some(Sabotage::KeepDelay)
            && self.arena.is_armed(&self.wheel, item);
        if is_kept {
            return;
        }
        self.cancel(item);
        let _ = self.arena.claim(item);
        if delay > 0 {
            return self.arm(item, cpu, delay);
        }
        self.new_ticket(item);
        self.queue_claimed(item, cpu, here);
    }

    /// Queues an item at once if its timer is armed. KERNEL: `flush_delayed_work` — same; then it
    /// waits. `from`: by an item of this queue.
    pub(super) fn hurry(&mut self, item: ItemId, here: u32, from: Option<QueueId>) {
        if !self.arena.is_armed(&self.wheel, item) {
            return;
        }
        self.note(What::Retimed(item, self.now));
        if self.config.sabotage != Some(Sabotage::FlushLeavesTimer) {
            self.arena.disarm(&mut self.wheel, item);
            self.go(item, here, from);
        }
    }

    /// An item goes from its timer to its queue, which may be closed by now.
    fn go(&mut self, item: ItemId, here: u32, from: Option<QueueId>) {
        if self.lets_in(item, from) {
            self.queue_claimed(item, self.items[item].cpu, here);
        } else {
            self.cancelled(item, self.arena.word(item));
        }
        self.timer_is_off(item);
    }

    fn plan_wheel(&mut self) {
        let Some(at) = self.wheel.next_deadline() else { return };
        if self.wheel_planned.is_none_or(|planned| at < planned) {
            self.wheel_planned = Some(at);
            self.agenda.add(at.max(self.now), Rank::Wake, Due::Wheel);
        }
    }

    /// Queues the items whose time has come, by as many as the runtime takes off the wheel at once.
    pub(super) fn turn_wheel(&mut self) {
        self.wheel_planned = None;
        loop {
            let mut budget = FIRE_BATCH;
            let next = || Arena::expire_some(&mut self.wheel, self.now, &mut budget);
            let due: Vec<_> = std::iter::from_fn(next).collect();
            if due.is_empty() && budget > 0 {
                break;
            }
            let goes = |&item: &ItemId| {
                let (queue, cpu) = (self.plan.items[item].queue, self.items[item].cpu);
                Destination { queue, cpu, is_held: true }
            };
            let ways: Vec<_> =
                delayed::going_together(&due, goes).map(|items| (goes(&items[0]), items)).collect();
            for (Destination { queue, cpu, .. }, items) in ways {
                self.go_together(queue, cpu, items);
            }
        }
        self.plan_wheel();
    }

    /// Items go from their timers to their queue, all the same way.
    fn go_together(&mut self, queue: QueueId, cpu: Option<u32>, items: &[ItemId]) {
        let here = self.caller_cpu();
        if self.lets_in(items[0], None) {
            let cpu_pwq = self.cpu_pwq(queue, cpu.unwrap_or(here), cpu.is_some());
            let chosen = self.pools.list[cpu_pwq.pool].read().id();
            let words: Vec<_> = items.iter().map(|&item| (item, self.arena.word(item))).collect();
            let is_ordered = self.queues[queue].kind == Kind::Ordered;
            for (hold, run) in delayed::holds(&words, chosen, is_ordered, |&(_, word)| word) {
                let run = run.iter().map(|&(item, _)| item);
                match hold {
                    Hold::One => self.queue_together(cpu_pwq, run),
                    Hold::Each => run.for_each(|item| self.queue_claimed(item, cpu, here)),
                }
            }
        } else {
            items.iter().for_each(|&item| self.cancelled(item, self.arena.word(item)));
        }
        items.iter().for_each(|&item| self.timer_is_off(item));
    }
}
