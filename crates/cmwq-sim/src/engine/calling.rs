//! What threads outside of the pools do: calls at given times, and the steps of owners.

use super::{Due, Engine, Waiter};
use crate::agenda::Rank;
use crate::plan::Op;

impl Engine<'_> {
    pub(super) fn call(&mut self, index: usize) {
        self.calls_left -= 1;
        if let Some(next) = self.plan.calls.get(index + 1) {
            self.agenda.add(next.at.max(self.now), Rank::Wake, Due::Call(index + 1));
        }
        self.do_from_outside(self.plan.calls[index].op, Waiter::Caller);
    }

    /// A step of `who`, who is no worker. `true`: it has to wait.
    pub(super) fn do_from_outside(&mut self, op: Op, who: Waiter) -> bool {
        match op {
            Op::Queue { item, cpu } => {
                let here = self.queuer_cpu();
                _ = self.queue_from_outside(item, cpu, here);
            }
            Op::QueueDelayed { item, cpu, delay } => {
                if self.lets_arm(item, delay, None) {
                    self.queue_delayed(item, cpu, delay, self.caller_cpu());
                }
            }
            Op::ModDelayed { item, cpu, delay } => {
                let is_let = self.lets_arm(item, delay, None);
                self.mod_delayed(item, cpu, delay, self.caller_cpu(), is_let);
            }
            Op::Offline(cpu) => _ = self.cpu_leaves(cpu),
            Op::Online(cpu) => self.cpu_returns(cpu),
            Op::SetFrozen { queue, is_frozen } => self.set_frozen(queue, is_frozen),
            Op::SetAttrs { queue, attrs } => self.set_attrs(queue, attrs),
            Op::DropQueue(queue) => return self.drop_queue(queue, who),
            Op::MakeQueue(queue) => self.make_queue(queue),
            Op::Report(one, other) => self.report_as_told(one, other),
            Op::Count => self.count_running(),
            Op::Burn(_) | Op::BurnUntil(_) | Op::Sleep(_) | Op::Announced(_) | Op::Process(_) => {
                debug_assert!(false, "a caller from outside has no CPU and no time");
            }
            _ => return self.do_as_anybody(op, who),
        }
        false
    }

    /// A step that items have as well as threads outside of the pools. `true`: `who` has to wait.
    pub(super) fn do_as_anybody(&mut self, op: Op, who: Waiter) -> bool {
        match op {
            Op::FlushItem(item) => return self.flush_item(item, who),
            Op::FlushDelayed(item) => {
                let (here, from) = match who {
                    Waiter::Worker(tid) => (self.machine.threads[tid].cpu, self.queue_of(tid)),
                    _ => (self.caller_cpu(), None),
                };
                self.hurry(item, here, from);
                return self.flush_item(item, who);
            }
            Op::FlushQueue(queue) => return self.flush_queue(queue, who),
            Op::Cancel(item) => _ = self.cancel(item),
            Op::CancelSync(item) => {
                // Simpler than the library's, which refuses what is queued meanwhile.
                self.cancel(item);
                return self.flush_item(item, who);
            }
            Op::SetMaxActive { queue, max_active } => self.set_max_active(queue, max_active),
            Op::SetMinActive { queue, min_active } => self.set_min_active(queue, min_active),
            _ => debug_assert!(false, "{op:?} is for the others"),
        }
        false
    }
}
