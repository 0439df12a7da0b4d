//! Queuers that compute, and where their items go.
//!
//! What is queued from outside of the pools is queued from a CPU that the queuer is using. Mostly it waits next, and its own CPU is
//! the best place for the item: that is awake, and has the item's memory. But a thread that goes on computing shares its CPU
//! with the item then and is preempted for it, while another CPU may be idle. So the long items (see [`lengths`](crate::lengths)) that
//! such a thread queues on a managed queue go to another pod. While it computes its own pod is *taken*: others' items are not sent there, its idle
//! workers are not called to help other pods, and those that help come home. The CPU's sentinel ends that: it gets the CPU when the
//! queuer waits after all, and the pod's standby looks for work elsewhere.
//!
//! *Kernel*: none of this. There the scheduler puts an unbound worker that wakes on an idle CPU; a process can only pin its workers, or let them
//! crowd.

use std::cell::Cell;

use crate::current;
use crate::pool::Pool;
use crate::sense;

/// Items from one look at the thread's sleeps to the next, while it computes.
const ITEMS: u32 = 8;
/// Who was taken for one that computes, and waits, is taken for one that waits for so many times more items than the last time. A worker that
/// preempts its queuer has often run the item before that can wait for it, which looks as if it never did.
const BACKOFF: u32 = 8;
/// LIMIT: of these items.
const ITEMS_MAX: u32 = ITEMS * BACKOFF * BACKOFF * BACKOFF;

/// Whether a thread computes or waits, by how often it sleeps: it computes if that is less often than after every other item that it queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Habit {
    computes: bool,
    /// Items until the next look.
    left: u32,
    /// Items between looks while it waits.
    rest: u32,
    /// How often it had slept at the last look.
    sleeps: Option<u64>,
}

impl Habit {
    const UNKNOWN: Self = Self { computes: false, left: 0, rest: ITEMS, sleeps: None };

    /// It queues an item.
    fn queues(&mut self, sleeps: impl FnOnce() -> u64) {
        if self.left == 0 {
            self.look(sleeps());
        }
        self.left -= 1;
    }

    fn look(&mut self, sleeps: u64) {
        let items = if self.computes { ITEMS } else { self.rest };
        // A forked child's count begins anew.
        let before = self.sleeps.replace(sleeps);
        let slept = before.and_then(|before| sleeps.checked_sub(before));
        let computes = slept.is_some_and(|slept| slept < u64::from(items / 2));
        self.rest = match (self.computes, computes) {
            (true, true) => ITEMS,
            (true, false) => (self.rest * BACKOFF).min(ITEMS_MAX),
            (false, _) => self.rest,
        };
        self.computes = computes;
        self.left = if computes { ITEMS } else { self.rest };
    }
}

/// What is known of the calling thread.
struct Queuer {
    habit: Cell<Habit>,
    /// The pod that is taken because of it.
    takes: Cell<Option<&'static Pool>>,
    /// Spreads items over pods that are all busy.
    turn: Cell<usize>,
}

crate::sync::thread_local! {
    static QUEUER: Queuer = const {
        Queuer { habit: Cell::new(Habit::UNKNOWN), takes: Cell::new(None), turn: Cell::new(0) }
    };
}

/// The calling thread queues a long item, for which `home` is the usual pool. The CPU whose pool is to have it instead.
pub(crate) fn other_cpu(home: &'static Pool) -> Option<u32> {
    if current::is_worker() || home.pods.is_none() || !home.runtime.detect.has_sentinel() {
        return None;
    }
    let turn = QUEUER.try_with(|queuer| queuer.queues(home)).ok().flatten()?;
    home.runtime.free_sibling(home, turn)
}

impl Queuer {
    /// `Some`: it computes, and takes `home`; a number that is another one next time.
    fn queues(&self, home: &'static Pool) -> Option<usize> {
        let mut habit = self.habit.get();
        habit.queues(sense::sched::current_sleeps);
        self.habit.set(habit);
        if !habit.computes {
            self.give_back();
            return None;
        }
        if !self.takes.get().is_some_and(|pool| std::ptr::eq(pool, home)) {
            self.give_back();
            self.takes.set(Some(home));
        }
        home.set_taken(true);
        self.turn.set(self.turn.get().wrapping_add(1));
        Some(self.turn.get())
    }

    /// Who else computes there takes it again with the next item.
    fn give_back(&self) {
        if let Some(pool) = self.takes.take() {
            pool.set_taken(false);
        }
    }
}

impl Drop for Queuer {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Items of `count` that were queued while the thread was taken for one that computes, if it sleeps as often as that says.
    fn away(
        habit: &mut Habit,
        count: u32,
        sleeps: &mut u64,
        sleeps_after: impl Fn(bool) -> bool,
    ) -> u32 {
        (0..count)
            .filter(|_| {
                habit.queues(|| *sleeps);
                *sleeps += u64::from(sleeps_after(habit.computes));
                habit.computes
            })
            .count() as u32
    }

    #[test]
    fn who_never_sleeps_computes_from_the_second_look() {
        let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
        assert_eq!(away(&mut habit, 100, &mut sleeps, |_| false), 92);
    }

    #[test]
    fn who_sleeps_after_each_item_never_computes() {
        let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
        assert_eq!(away(&mut habit, 10_000, &mut sleeps, |_| true), 0);
    }

    /// Its items are run before it can wait for them, unless they are run elsewhere.
    #[test]
    fn who_is_preempted_by_its_items_is_mistaken_ever_more_rarely() {
        let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
        // Eight items away after 8, 64, 512 and any 4,096 at home.
        assert_eq!(away(&mut habit, 8 + 8 + 64 + 8 + 512 + 8, &mut sleeps, |away| away), 24);
        assert_eq!(away(&mut habit, 3 * (4096 + 8), &mut sleeps, |away| away), 24);
    }

    #[test]
    fn a_new_habit_is_noticed() {
        let (mut habit, mut sleeps) = (Habit::UNKNOWN, 77);
        away(&mut habit, 1000, &mut sleeps, |_| false);
        assert!(habit.computes);
        assert!(away(&mut habit, 1000, &mut sleeps, |_| true) <= 16);
        assert_eq!(habit.rest, ITEMS * BACKOFF);
        assert!(away(&mut habit, 1000, &mut sleeps, |_| false) >= 900);
        assert_eq!(habit.rest, ITEMS, "errors of long ago count no more");
    }
}
