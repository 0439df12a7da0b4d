//! The documented timelines of concurrency management, exact to the microsecond (and beyond).

use cmwq_sim::{Moment, named, run_scenario};

/// Runs a named scenario and compares `ms work what` lines. Within one moment the order of
/// different works is not documented, so lines are compared sorted by time, work and what.
#[track_caller]
fn check_timeline(name: &str, makespan_ms: u64, expected: &[(u64, usize, Moment)]) {
    let scenario = named::find(name).expect("a named scenario");
    let timeline = run_scenario(&scenario).expect("no complaint");
    let mut got: Vec<_> = timeline.events.iter().map(|e| (e.t, e.work, e.what)).collect();
    let mut expected: Vec<_> =
        expected.iter().map(|&(ms, work, what)| (ms * 1_000_000, work, what)).collect();
    got.sort_unstable();
    expected.sort_unstable();
    assert_eq!(got, expected, "{name}");
    assert_eq!(timeline.makespan, makespan_ms * 1_000_000, "{name}");
    assert!(timeline.events.iter().all(|e| e.cpu == 0));
}

use Moment::{Finish, Sleep, Start, Wake};

#[test]
fn w1_and_w2_run_while_w0_sleeps() {
    check_timeline(
        "doc-max3",
        25,
        &[
            (0, 0, Start),
            (5, 0, Sleep),
            (5, 1, Start),
            (10, 1, Sleep),
            (10, 2, Start),
            (15, 2, Sleep),
            (15, 0, Wake),
            (20, 0, Finish),
            (20, 1, Wake),
            (20, 1, Finish),
            (25, 2, Wake),
            (25, 2, Finish),
        ],
    );
}

#[test]
fn with_two_slots_w2_waits_for_one() {
    check_timeline(
        "doc-max2",
        35,
        &[
            (0, 0, Start),
            (5, 0, Sleep),
            (5, 1, Start),
            (10, 1, Sleep),
            (15, 0, Wake),
            (20, 0, Finish),
            (20, 1, Wake),
            (20, 1, Finish),
            (20, 2, Start),
            (25, 2, Sleep),
            (35, 2, Wake),
            (35, 2, Finish),
        ],
    );
}

#[test]
fn with_one_slot_it_is_a_single_thread() {
    check_timeline(
        "doc-max1",
        50,
        &[
            (0, 0, Start),
            (5, 0, Sleep),
            (15, 0, Wake),
            (20, 0, Finish),
            (20, 1, Start),
            (25, 1, Sleep),
            (35, 1, Wake),
            (35, 1, Finish),
            (35, 2, Start),
            (40, 2, Sleep),
            (50, 2, Wake),
            (50, 2, Finish),
        ],
    );
}

/// Both become runnable at 5; w2's worker gets the one CPU when w1 sleeps.
#[test]
fn intensive_items_do_not_hold_others_back() {
    check_timeline(
        "doc-intensive",
        25,
        &[
            (0, 0, Start),
            (5, 0, Sleep),
            (5, 1, Start),
            (10, 1, Sleep),
            (10, 2, Start),
            (15, 2, Sleep),
            (15, 0, Wake),
            (20, 0, Finish),
            (20, 1, Wake),
            (20, 1, Finish),
            (25, 2, Wake),
            (25, 2, Finish),
        ],
    );
}

#[test]
fn every_name_is_found_and_valid() {
    for (name, _) in named::NAMES {
        let scenario = named::find(name).expect(name);
        assert_eq!(scenario.validate(), Ok(()), "{name}");
    }
    assert!(named::find("doc-max4").is_none());
}
