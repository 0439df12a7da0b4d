//! Counters of pwqs.

use super::support::Fixture;
use crate::policy::UNMANAGED;
use crate::{FlushTarget, PwqId, PwqStats, PwqWaiting};

#[test]
fn time_is_charged_to_the_pwq_that_used_it() {
    let (mut f, pwq, _) = Fixture::per_cpu();
    let other = f.pwq(1);
    f.charge(pwq, 7);
    f.charge(pwq, 5);
    f.charge(other, 1);
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cpu_time, 12);
    assert_eq!(f.pwq_stats(other).expect("the pwq").cpu_time, 1);
    f.charge(PwqId(99), 3);
    assert_eq!(f.remove_pwq(pwq).expect("it is idle").cpu_time, 12);
    f.charge(pwq, 3);
    assert_eq!(f.pwq_stats(pwq), None);
}

#[test]
fn counters_of_several_pwqs_are_added_up() {
    let one = PwqStats {
        started: 1,
        completed: 2,
        cm_wakeup: 3,
        cpu_time: 4,
        cpu_intensive: 5,
        repatriated: 6,
        mayday: 7,
        rescued: 8,
        cancelled: 9,
    };
    let mut sum = one;
    sum += one;
    sum += PwqStats::default();
    let twice = PwqStats {
        started: 2,
        completed: 4,
        cm_wakeup: 6,
        cpu_time: 8,
        cpu_intensive: 10,
        repatriated: 12,
        mayday: 14,
        rescued: 16,
        cancelled: 18,
    };
    assert_eq!(sum, twice);
}

#[test]
fn a_claim_names_its_pwq() {
    let (mut f, first, [_, b]) = Fixture::per_cpu();
    let second = f.pwq(10);
    for pwq in [second, first] {
        let _ = f.queue_new(pwq);
        assert_eq!(f.claim(b).pwq, pwq);
        let _ = f.finish(b);
    }
}

/// Items that run do not wait, and what waits for an item is none.
#[test]
fn what_waits_is_told_from_what_runs() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let (a, b) = (w[3], w[2]);
    let pwq = f.pwq(2);
    let waits = |queued, for_limit| Some(PwqWaiting { queued, for_limit });
    assert_eq!(f.look().waiting(pwq), waits(0, 0));
    assert_eq!(f.look().waiting(PwqId(99)), None);
    let [first, _, third] = [(); 3].map(|()| f.queue_new(pwq));
    assert_eq!(f.look().waiting(pwq), waits(3, 1));
    let barriers = [(); 2].map(|()| f.item());
    assert_eq!(f.barrier(third, barriers[0]), FlushTarget::Queued);
    assert_eq!(f.look().waiting(pwq), waits(3, 1));
    let _ = f.runs(a, first);
    assert_eq!(f.look().waiting(pwq), waits(2, 1));
    assert_eq!(f.barrier(first, barriers[1]), FlushTarget::Running(a));
    assert_eq!(f.look().waiting(pwq), waits(2, 1));
    let _ = f.finish(a);
    assert_eq!(f.look().waiting(pwq), waits(2, 0), "the third has the slot");
    let _ = f.runs(a, barriers[1]);
    assert_eq!(f.look().waiting(pwq), waits(2, 0));
    let _ = f.finish(a);
    for _ in 0..2 {
        let _ = f.claim(b);
        let _ = f.finish(b);
    }
    assert_eq!(f.look().waiting(pwq), waits(0, 0), "also with a barrier left");
    let _ = f.runs(b, barriers[0]);
    let _ = f.finish(b);
    assert_eq!(f.look().waiting(pwq), waits(0, 0));
}
