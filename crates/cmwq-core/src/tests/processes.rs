//! A worker that waits for a process counts as running while the process does.

use super::support::{Fixture, ItemPtr};
use crate::{Finding, Found, Kick, Nanos, Next, WorkerId};

/// A per-CPU pool whose worker `b` runs the first item and watches while the second waits.
fn watching() -> (Fixture, [WorkerId; 2], [ItemPtr; 2]) {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let items = [(); 2].map(|()| f.queue_new(pwq));
    assert_eq!(f.runs(b, items[0]), Kick::Watch);
    f.watches(b, true);
    (f, [a, b], items)
}

impl Fixture {
    fn watches(&mut self, id: WorkerId, watches: bool) {
        let (seq, now) = (self.seq(id), self.now);
        self.worker_stands_for_process(id, seq, watches, now);
        self.check();
    }

    /// Whether the worker begins on an alarm now.
    fn alarmed(&mut self, id: WorkerId) -> bool {
        let now = self.now;
        self.begins_on_alarm(id, || now)
    }

    /// An alarm lets the worker begin an item, which stands for a process.
    fn begins(&mut self, id: WorkerId) {
        assert!(self.alarmed(id));
        let _ = self.claim(id);
        self.watches(id, true);
    }

    /// The pool's last four processes waited soon.
    fn four_wait_soon(&mut self) {
        (0..4).for_each(|_| self.process_waited(Some(SOON)));
    }

    fn waits(&mut self, id: WorkerId) -> Kick {
        let seq = self.seq(id);
        let kick = self.worker_waits(id, seq);
        self.check();
        kick
    }
}

#[test]
fn waiting_for_a_process_that_runs_makes_no_room() {
    let (mut f, [_, b], _) = watching();
    assert_eq!(f.waits(b), Kick::None);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn a_process_that_blocks_makes_room_and_counts_again_when_it_runs() {
    let (mut f, [a, b], items) = watching();
    assert_eq!(f.blocks(b), Kick::Wake(a));
    assert_eq!(f.nr_running(), 0);
    f.resumes(b);
    assert_eq!(f.nr_running(), 1);
    assert!(f.sleeps(a), "the process runs again before anybody took its CPU");
    assert_eq!(f.blocks(b), Kick::Wake(a), "as often as it likes");
    f.manages(a);
    let c = f.worker_new();
    let _ = f.born(c, Some(a));
    let _ = f.runs(a, items[1]);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn who_does_not_watch_any_more_runs_and_its_waits_count() {
    let (mut f, [a, b], _) = watching();
    let _ = f.blocks(b);
    f.watches(b, false);
    assert_eq!(f.nr_running(), 1, "it said so itself, so it runs");
    assert!(f.sleeps(a));
    assert_eq!(f.waits(b), Kick::Wake(a));
}

#[test]
fn a_watch_ends_with_its_run() {
    let (mut f, [a, b], items) = watching();
    let _ = f.finish(b);
    let pwq = f.pwq(256);
    let _ = f.runs(b, items[1]);
    let _ = f.queue_new(pwq);
    assert_eq!(f.waits(b), Kick::Wake(a), "the next item stands for itself");
    let seq = f.seq(b);
    f.worker_stands_for_process(b, seq - 1, true, 0);
    assert!(!f.stands_for_process(b, seq), "of an earlier run nothing is heard");
}

/// Two CPUs, on which two workers run that stand for processes; the third stands by while more
/// items wait.
fn two_processes() -> (Fixture, WorkerId) {
    let (mut f, workers) = Fixture::new(2, 4);
    let pwq = f.pwq(256);
    for _ in 0..12 {
        f.queue_new(pwq);
    }
    for &id in &workers[..2] {
        let _ = f.claim(id);
        f.watches(id, true);
    }
    (f, workers[2])
}

const SOON: Nanos = 9_999_999;

#[test]
fn four_processes_that_waited_soon_make_an_alarm_enough() {
    let (mut f, standby) = two_processes();
    for _ in 0..3 {
        f.process_waited(Some(SOON));
        assert!(!f.alarmed(standby));
    }
    f.process_waited(Some(SOON));
    assert!(f.alarmed(standby));
    let _ = f.claim(standby);
    assert_eq!(f.nr_running(), 3, "one more than may run");
    f.watches(standby, true);
    let other = f.worker();
    for waited in [Some(SOON + 1), None] {
        f.four_wait_soon();
        assert!(f.alarmed(other), "{waited:?}");
        f.process_waited(waited);
        assert!(!f.alarmed(other), "{waited:?}");
    }
}

/// Whoever has run for 10 ms, and was not found waiting, computes.
#[test]
fn beside_a_process_that_goes_on_computing_an_alarm_looks() {
    let (mut f, standby) = two_processes();
    f.four_wait_soon();
    f.now += SOON;
    assert!(f.alarmed(standby));
    f.now += 1;
    assert!(!f.alarmed(standby));
}

/// It has waited soon, and what it does now is something else.
#[test]
fn beside_a_process_that_is_back_an_alarm_looks() {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    for _ in 0..4 {
        f.queue_new(pwq);
    }
    let _ = f.claim(b);
    f.watches(b, true);
    (0..3).for_each(|_| f.process_waited(Some(SOON)));
    // The look's finding is the fourth.
    let mut found = [Finding::new(b, f.seq(b), Found::Blocked)];
    f.now += SOON;
    let now = f.now;
    let _ = f.report_look(&mut found, None, || now);
    assert!(found[0].is_news);
    f.resumes(b);
    assert_eq!(f.nr_running(), 1);
    assert!(!f.alarmed(a));
    f.watches(b, false);
    f.watches(b, true);
    assert!(f.alarmed(a), "a new process has begun");
}

/// A second watch says nothing about the first one's process.
#[test]
fn of_several_processes_the_first_ones_start_counts() {
    let (mut f, standby) = two_processes();
    f.four_wait_soon();
    let busy = f.workers().find(|view| view.running).expect("two run").id;
    f.now += SOON + 1;
    f.watches(busy, true);
    assert!(!f.alarmed(standby));
}

/// The first one may create a standby, and get no CPU for the item meanwhile. Were the standby to
/// begin as well, it would create one, too, and so on.
#[test]
fn while_one_is_about_to_begin_no_other_does() {
    let (mut f, first) = two_processes();
    f.four_wait_soon();
    f.begins(first);
    let last = f.standby().expect("the fourth is idle");
    assert!(f.alarmed(last));
    f.manages(last);
    let new = f.worker_new();
    let _ = f.born(new, Some(last));
    assert!(!f.alarmed(new), "the fourth is on its way");
    let _ = f.claim(last);
    f.watches(last, true);
    assert!(f.alarmed(new));
}

/// Who is to leave takes no item.
#[test]
fn who_was_told_to_leave_does_not_begin_on_an_alarm() {
    let (mut f, standby) = two_processes();
    (0..6).for_each(|_| _ = f.worker());
    let long_after = f.now + 1_000_000_000_000;
    let leaves = f.cull_one(long_after).expect("six are too many");
    f.four_wait_soon();
    assert!(!f.alarmed(leaves));
    assert!(leaves == standby || f.alarmed(standby));
}

/// Its flag is used up with one item.
#[test]
fn who_begins_on_an_alarm_takes_one_item() {
    let (mut f, standby) = two_processes();
    f.four_wait_soon();
    f.begins(standby);
    f.watches(standby, false);
    f.four_wait_soon();
    let _ = f.finish(standby);
    assert!(matches!(f.next(standby), Next::Sleep { work_waits: true }));
}

/// Somebody who stands for nobody is cheap to look at.
#[test]
fn beside_a_worker_that_computes_itself_an_alarm_looks() {
    let (mut f, standby) = two_processes();
    f.four_wait_soon();
    assert!(f.alarmed(standby));
    let _ = f.claim(standby);
    let other = f.worker();
    assert!(!f.alarmed(other), "the third stands for nobody yet");
    f.watches(standby, true);
    assert!(f.alarmed(other));
}

#[test]
fn alarms_begin_items_beside_three_times_as_many_as_may_run_at_most() {
    let (mut f, standby) = two_processes();
    f.four_wait_soon();
    let mut next = standby;
    for running in 3..=6 {
        f.begins(next);
        assert_eq!(f.nr_running(), running);
        next = f.worker();
    }
    assert!(!f.alarmed(next), "somebody has to look now");
}
