//! Queuers that compute, and where their items go.
//!
//! What is queued from outside of the pools is queued from a CPU that the queuer is using. Mostly
//! it waits next, and its own CPU is the best place for the item: that is awake, and has the item's
//! memory. But a thread that goes on computing shares its CPU with the item then and is preempted
//! for it, while another CPU may be idle. So the long items (see
//! [`lengths`](crate::engine::lengths)) that such a thread queues on a managed queue go to another
//! pod. While it computes its own pod is marked with `caller_computes`: others' items are not sent
//! there, its idle workers are not called to help other pods, and those that help come back. The
//! CPU's sentinel ends that: it gets the CPU when the queuer waits after all, and the pod's standby
//! looks for work elsewhere.
//!
//! *Kernel*: none of this. There the scheduler puts an unbound worker that wakes on an idle CPU; a
//! process can only pin its workers, or let them crowd.

use std::cell::Cell;

use cmwq_core::help::Habit;

use crate::engine::current;
use crate::engine::pool::Pool;
use crate::os::sense;

/// What is known of the calling thread.
struct Queuer {
    habit: Cell<Habit>,
    /// The pod that is marked because of it.
    marked: Cell<Option<&'static Pool>>,
    /// Spreads items over pods that are all busy.
    turn: Cell<usize>,
}

crate::os::sync::thread_local! {
    static QUEUER: Queuer = const {
        Queuer { habit: Cell::new(Habit::UNKNOWN), marked: Cell::new(None), turn: Cell::new(0) }
    };
}

/// The calling thread queues a long item, for which `home` is the usual pool. The CPU whose pool is
/// to have it instead.
pub(crate) fn other_cpu(home: &'static Pool) -> Option<u32> {
    if current::is_worker() || home.pods.is_none() || !home.runtime.detect.has_sentinel() {
        return None;
    }
    let turn = QUEUER.try_with(|queuer| queuer.queues(home)).ok().flatten()?;
    home.runtime.cpu_instead(home, turn)
}

impl Queuer {
    /// `Some`: it computes, and `home` is marked; a number that is another one next time.
    fn queues(&self, home: &'static Pool) -> Option<usize> {
        let mut habit = self.habit.get();
        habit.queues(sense::sched::current_sleeps);
        self.habit.set(habit);
        if !habit.computes() {
            self.unmark();
            return None;
        }
        if !self.marked.get().is_some_and(|pool| std::ptr::eq(pool, home)) {
            self.unmark();
            self.marked.set(Some(home));
        }
        home.set_caller_computes(true);
        self.turn.set(self.turn.get().wrapping_add(1));
        Some(self.turn.get())
    }

    /// Another thread that computes there marks the pod again with its next item.
    fn unmark(&self) {
        if let Some(pool) = self.marked.take() {
            pool.set_caller_computes(false);
        }
    }
}

impl Drop for Queuer {
    fn drop(&mut self) {
        self.unmark();
    }
}
