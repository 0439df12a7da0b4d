//! Rates and states, of samples made for it.

use cmwq_observe::inspect::Reason;

use super::*;
use crate::top::fixture::{self, S, before, model, sample};

#[test]
fn rates_are_of_the_time_between_the_looks() {
    let model = model();
    let rows = model.queues();
    // 1,234 after 1,000, in one second; half a second of CPU time.
    assert_eq!((rows[0].rate, rows[0].in_flight, rows[0].cpu), (Some(234.0), 12, Some(50.0)));
    assert_eq!(rows[0].oldest_ns, Some(5 * S));
    assert_eq!((rows[1].rate, rows[1].oldest_ns), (Some(0.0), Some(83 * S)));
    assert_eq!(model.rate(), Some(234.0));
    let workers = model.workers();
    assert_eq!((workers[0].cpu, workers[0].wait), (Some(90.0), Some(5.0)));
    assert_eq!((workers[1].cpu, workers[1].wait), (Some(10.0), Some(90.0)));
}

#[test]
fn the_first_look_has_no_rates() {
    let model = Model::new(sample());
    assert!(model.queues().iter().all(|row| row.rate.is_none() && row.cpu.is_none()));
    assert!(model.decisions().iter().all(|row| row.more.is_none()));
    assert_eq!(model.rate(), None);
}

#[test]
fn longer_intervals_are_divided_by() {
    let mut old = before();
    old.taken_ns -= 3 * S;
    let mut model = Model::new(old);
    model.push(sample());
    assert_eq!(model.queues()[0].rate, Some(234.0 / 4.0));
}

#[test]
fn two_looks_at_one_instant_do_not_divide_by_zero() {
    let mut model = model();
    model.push(sample());
    assert_eq!(model.queues()[0].rate, Some(234.0), "of the last look that was earlier");
}

#[test]
fn a_number_given_out_again_has_no_rate_of_its_predecessor() {
    let mut old = before();
    old.queues[0].name = "another".to_owned();
    // And a count that went down is not a rate either.
    old.queues[1].started = 1_000;
    let mut model = Model::new(old);
    model.push(sample());
    assert_eq!((model.queues()[0].rate, model.queues()[1].rate), (None, None));
}

#[test]
fn states_come_of_the_thread_and_of_what_it_runs() {
    let model = model();
    let states: Vec<_> = model.workers().iter().map(|row| row.state).collect();
    use State::{Idle, NoThread, Preempted, Runs, Waits, WaitsHard};
    assert_eq!(states, [Runs, Preempted, Waits, WaitsHard, Idle, Runs, NoThread]);
}

#[test]
fn work_waits_since_the_last_item_was_started() {
    let model = model();
    let pools = model.pools();
    let waits: Vec<_> = pools.iter().map(|row| row.waits_ns).collect();
    assert_eq!(waits, [None, Some(S / 2), None, None]);
    assert_eq!(pools[1].last.map(|last| last.reason), Some(Reason::AtCapacity));
    assert_eq!(pools[3].last, None);
}

#[test]
fn decisions_tell_what_is_new() {
    let model = model();
    let rows = model.decisions();
    let new: Vec<_> = rows.iter().map(|row| (row.decision.reason, row.more)).collect();
    assert!(new.contains(&(Reason::AtCapacity, Some(100))), "{new:?}");
    assert!(new.contains(&(Reason::CreationFailed, Some(2))), "was not there before: {new:?}");
    assert!(new.contains(&(Reason::Created, Some(0))), "{new:?}");
}

#[test]
fn every_reason_has_words_and_a_sign() {
    let model = model();
    let reasons = [
        (Reason::WokeIdle, '+'),
        (Reason::AtCapacity, '='),
        (Reason::NoIdle, '='),
        (Reason::NoWorker, '+'),
        (Reason::MaxActive, '='),
        (Reason::Blocked, '~'),
        (Reason::Hog, '~'),
        (Reason::Created, '+'),
        (Reason::CreationFailed, '!'),
        (Reason::Culled, '-'),
        (Reason::Mayday, '!'),
        (Reason::Lent, '-'),
        (Reason::Unknown, '='),
    ];
    for (reason, sign) in reasons {
        assert_eq!(Effect::of(reason).sign(), sign, "{reason}");
        let decision = Decision { reason, count: 1, first_ns: 0, last_ns: 0 };
        let text = crate::top::why::because(&model, &model.now.pools[0], &decision);
        assert_eq!(text.contains("does not know"), reason == Reason::Unknown, "{reason}: {text}");
    }
}

#[test]
fn words_name_what_is_in_the_way() {
    let model = model();
    let why = |pool: usize| crate::top::why::pool(&model, &fixture::sample().pools[pool]);
    assert!(
        why(0).contains("max_active, and no worker may start them: render (4 of 4)"),
        "{}",
        why(0)
    );
    assert!(why(1).contains("2 run and 2 may"), "{}", why(1));
    assert!(why(2).contains("Resource temporarily unavailable"), "{}", why(2));
    assert!(why(3).contains("has decided nothing yet"), "{}", why(3));
}
