//! Which workers a look is for.

use std::vec::Vec;

use super::support::Fixture;
use crate::WorkerId;

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
