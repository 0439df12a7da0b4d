//! Detection: which workers a look is about, and what it does with several, in whatever order it
//! finds them.

use std::vec::Vec;

use super::support::Fixture;
use crate::{Finding, Found, Kick, WorkerId};

/// A per-CPU pool with an idle worker, one that was found blocked, and one that runs, in this
/// order. An item waits.
fn three() -> (Fixture, [WorkerId; 3]) {
    let (mut f, w) = Fixture::new(1, 3);
    let pwq = f.pwq(256);
    let first = f.queue_new(pwq);
    let _ = f.runs(w[2], first);
    let _ = f.blocks(w[2]);
    let second = f.queue_new(pwq);
    let _ = f.runs(w[1], second);
    let _ = f.queue_new(pwq);
    (f, [w[0], w[2], w[1]])
}

impl Fixture {
    fn finds(&self, id: WorkerId, found: Found) -> Finding {
        Finding::new(id, self.seq(id), found)
    }

    fn reports<const N: usize>(
        &mut self,
        found: [Finding; N],
        me: Option<WorkerId>,
    ) -> Reported<N> {
        let mut found = found;
        let room = self.report_look(&mut found, me, || 0);
        self.check();
        (room, found.map(|one| one.is_news))
    }
}

type Reported<const N: usize> = (Option<Kick>, [bool; N]);

#[test]
fn those_that_are_back_have_the_cpu_of_those_that_are_blocked() {
    let (mut f, [_, blocked, runs]) = three();
    let found = [f.finds(runs, Found::Blocked), f.finds(blocked, Found::Back)];
    assert_eq!(f.reports(found, None), (Some(Kick::None), [true, true]));
    assert_eq!(f.nr_running(), 1);
    // One after the other they wake somebody, who finds nothing to do.
    let (mut f, [idle, blocked, runs]) = three();
    let one = [f.finds(runs, Found::Blocked)];
    assert_eq!(f.reports(one, None), (Some(Kick::Wake(idle)), [true]));
    let other = [f.finds(blocked, Found::Back)];
    assert_eq!(f.reports(other, None), (None, [true]), "nobody has left a CPU");
}

#[test]
fn one_worker_is_woken_for_all() {
    let (mut f, [idle, blocked, runs]) = three();
    f.resumes(blocked);
    assert_eq!(f.nr_running(), 2);
    let found = [f.finds(runs, Found::Blocked), f.finds(blocked, Found::Hog)];
    assert_eq!(f.reports(found, None), (Some(Kick::Wake(idle)), [true, true]));
    assert_eq!(f.nr_running(), 0);
}

#[test]
fn who_has_looked_itself_is_not_woken_and_nobody_comes_in_its_place() {
    let (mut f, [idle, _, runs]) = three();
    let found = [f.finds(runs, Found::Blocked)];
    assert_eq!(f.reports(found, Some(idle)), (None, [true]));
    let (mut f, [idle, blocked, runs]) = three();
    let found = [f.finds(runs, Found::Blocked)];
    assert_eq!(f.reports(found, Some(blocked)), (Some(Kick::Wake(idle)), [true]), "another one is");
}

#[test]
fn who_was_refused_a_worker_asks_for_one_when_the_only_one_is_found_blocked() {
    let (mut f, w) = Fixture::new(1, 1);
    let pwq = f.pwq(256);
    let first = f.queue_new(pwq);
    let (refused, now) = (f.worker_new(), f.now);
    f.create_refused(refused, None, now);
    let _ = f.runs(w[0], first);
    let refused = f.worker_new();
    f.create_refused(refused, None, now);
    let _ = f.queue_new(pwq);
    for found in [Found::Blocked, Found::Back, Found::Hog] {
        let findings = [f.finds(w[0], found)];
        let need = (found != Found::Back).then_some(Kick::NeedFirst);
        assert_eq!(f.reports(findings, None), (need, [true]), "{found:?}");
    }
}

#[test]
fn what_is_known_or_about_an_earlier_run_is_no_news() {
    let (mut f, [_, blocked, runs]) = three();
    let late = Finding { seq: f.seq(runs).wrapping_sub(1), ..f.finds(runs, Found::Blocked) };
    let found = [f.finds(runs, Found::Back), f.finds(blocked, Found::Blocked), late];
    assert_eq!(f.reports(found, None), (None, [false; 3]));
    let hogs = [f.finds(blocked, Found::Hog)];
    assert_eq!(f.reports(hogs, None), (None, [false]), "it sleeps");
}

fn suspects(f: &Fixture) -> Vec<(WorkerId, bool)> {
    let mut found = Vec::new();
    f.suspects(|view| found.push((view.id, view.sleeping)));
    found
}

#[test]
fn those_blocked_for_longest_come_first_then_all_that_run() {
    let (mut f, mut w) = Fixture::new(1, 12);
    let pwq = f.pwq(256);
    // The newest idle worker starts first.
    w.reverse();
    assert_eq!(suspects(&f), []);
    for &id in &w[..10] {
        let item = f.queue_new(pwq);
        let _ = f.runs(id, item);
        assert_eq!(suspects(&f).last(), Some(&(id, false)));
        let _ = f.blocks(id);
    }
    let last = f.queue_new(pwq);
    let _ = f.runs(w[10], last);
    let expected = |blocked: &[WorkerId], running: &[WorkerId]| -> Vec<_> {
        let blocked = blocked.iter().map(|&id| (id, true));
        blocked.chain(running.iter().map(|&id| (id, false))).collect()
    };
    assert_eq!(suspects(&f), expected(&w[..8], &[w[10]]));

    // Who is back and waits again is the last one.
    f.resumes(w[0]);
    assert_eq!(suspects(&f), expected(&w[1..9], &[w[10], w[0]]));
    let _ = f.blocks(w[0]);
    assert_eq!(suspects(&f), expected(&w[1..9], &[w[10]]));
    // Nobody looks at those that have ended.
    for &id in &w[1..=10] {
        let _ = f.finish(id);
        assert!(!f.sleeps(id));
    }
    assert_eq!(suspects(&f), expected(&w[..1], &[]));
    let _ = f.finish(w[0]);
}
