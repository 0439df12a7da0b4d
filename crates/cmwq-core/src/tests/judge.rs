//! What a look makes of a worker.

use crate::detect::evidence::Seen;
use crate::detect::judge::{Look, Suspect};
use crate::{Finding, Found, WorkerId};

struct Worker {
    is_back: bool,
    seen: Seen,
    hogs: bool,
}

impl Suspect for Worker {
    fn is_back(&mut self) -> bool {
        self.is_back
    }

    fn state(&mut self) -> Seen {
        self.seen
    }

    fn hogs(&mut self) -> bool {
        self.hogs
    }
}

/// `None`: nothing is reported.
fn judge(look: &mut Look, expected: Found, is_hog: bool, mut worker: Worker) -> Option<Found> {
    let mut finding = Finding::new(WorkerId(0), 1, expected);
    look.judge(&mut finding, is_hog, &mut worker).then_some(finding.found)
}

#[test]
fn who_is_believed_blocked_can_only_be_back() {
    let mut look = Look::begin(1);
    for is_back in [false, true] {
        let worker = Worker { is_back, seen: Seen::Blocked, hogs: true };
        let found = judge(&mut look, Found::Back, false, worker);
        assert_eq!(found, is_back.then_some(Found::Back));
    }
    assert_eq!(look.nr_blocked, 0);
}

#[test]
fn who_is_believed_to_run_is_blocked_or_a_hog_if_there_is_room() {
    let mut look = Look::begin(1);
    let worker = |seen, hogs| Worker { is_back: true, seen, hogs };
    let mut of = |is_hog, seen, hogs| judge(&mut look, Found::Blocked, is_hog, worker(seen, hogs));
    assert_eq!(of(false, Seen::Blocked, true), Some(Found::Blocked));
    assert_eq!(of(false, Seen::Unknown, true), None);
    assert_eq!(of(false, Seen::Running, false), None);
    assert_eq!(of(true, Seen::Running, true), None, "that is known");
    assert_eq!(of(false, Seen::Running, true), Some(Found::Hog));
    assert_eq!(of(false, Seen::Running, true), None, "there is no room for another one");
    assert_eq!(look.nr_blocked, 1);
}
