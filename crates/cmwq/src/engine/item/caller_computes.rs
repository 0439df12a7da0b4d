//! Threads of the program that queue long items, and where those go: of threads that go on
//! computing, and of others.
//!
//! A thread of the program uses a CPU when it queues an item. Mostly the thread waits next, and its
//! own CPU is the best one for the item: that CPU is awake, and its caches have the item. But a
//! thread that goes on computing shares its CPU with the item and is preempted for it, while
//! another CPU may be idle. So the long items ([`long_items`](crate::engine::tools::long_items))
//! that such a thread queues on a managed queue go to another pod. While the thread computes, its
//! own pod is marked with `caller_computes`: no items of other pods are sent there, its idle
//! workers are not called to help other pods, and its workers that help return. The CPU's sentinel
//! takes the mark away: it gets the CPU when the thread waits after all, and then the pod's standby
//! looks for work of other pods.
//!
//! Very long items of threads that wait join one backlog of their cache ([`help::collects`]), if
//! their own pod has more than it may start.
//!
//! KERNEL: none of this. There the scheduler puts an unbound worker that wakes on an idle CPU; a
//! process can only pin its workers, or let them crowd.
//!
//! Why: docs/decisions/long-items-leave-the-caller.md, docs/decisions/one-backlog-per-cache.md

use std::cell::Cell;

use cmwq_core::help::{self, Habit, Length};

use crate::engine::pool::Pool;
use crate::engine::threads::current;
use crate::os::sense;

/// What is known of the calling thread.
struct Queuer {
    habit: Cell<Habit>,
    /// The pod that is marked because of this thread.
    marked: Cell<Option<&'static Pool>>,
    /// Spreads items over pods that are all busy.
    turn: Cell<usize>,
}

crate::os::sync::thread_local! {
    static QUEUER: Queuer = const {
        Queuer { habit: Cell::new(Habit::UNKNOWN), marked: Cell::new(None), turn: Cell::new(0) }
    };
}

/// The calling thread queues an item of that length, which is not short and may leave its CPU; it
/// usually goes to the pool `usual`. Returns the CPU whose pool is to have it instead.
pub(crate) fn other_cpu(usual: &'static Pool, length: Length) -> Option<u32> {
    let queuer = help::Queuer { is_worker: current::is_worker() };
    let is_told = usual.runtime.detect.has_sentinel() && usual.is_reported_idle();
    if !queuer.lets_go(usual.pod.is_some(), is_told) {
        return None;
    }
    let is_here = usual.is_here();
    let takes_cpu = |computes| queuer.takes_cpu(computes, is_here);
    match QUEUER.try_with(|queuer| queuer.queues(usual, takes_cpu)).ok()? {
        Some(turn) => usual.runtime.cpu_instead(usual, turn),
        None => usual.runtime.cpu_of_backlog(usual, length),
    }
}

impl Queuer {
    /// The thread queues an item. `Some`: the thread computes on the CPU of `usual`, which is
    /// marked with that; the number grows with each call. `takes_cpu`: whether it does if it
    /// computes.
    fn queues(&self, usual: &'static Pool, takes_cpu: impl FnOnce(bool) -> bool) -> Option<usize> {
        let mut habit = self.habit.get();
        habit.queues(sense::sched::current_sleeps);
        self.habit.set(habit);
        if !takes_cpu(habit.computes()) {
            self.unmark();
            return None;
        }
        if !self.marked.get().is_some_and(|pool| std::ptr::eq(pool, usual)) {
            self.unmark();
            self.marked.set(Some(usual));
        }
        usual.set_caller_computes(true);
        self.turn.set(self.turn.get().wrapping_add(1));
        Some(self.turn.get())
    }

    /// Removes the mark. Another thread that computes there marks the pod again with its next item.
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
