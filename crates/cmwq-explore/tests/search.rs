//! The search itself: that it goes through what it says, finds what it should, and repeats itself.

use cmwq_explore::{Limits, Rule, Scope, explain, scopes, search};

fn scope(name: &str) -> Scope {
    let found = scopes::gate().into_iter().find(|scope| scope.name == name);
    found.unwrap_or_else(|| panic!("there is no scope {name}"))
}

/// Those that take less than a second also in a build that is not optimised. The gate searches all.
const SMALL: &[&str] = &[
    "reopen",
    "cancelling",
    "inactive-barriers",
    "disabling",
    "delayed",
    "flushing",
    "flushing-items",
    "node",
    "rescue",
    "outage",
    "slots-of-runs",
    "ordered-taken-back",
];

#[test]
fn small_scopes_hold() {
    for name in SMALL {
        let scope = scope(name);
        let outcome = search(&scope, &Limits::default(), &mut |_| ());
        if let Some(violation) = &outcome.violation {
            panic!("{name}: {}\n{}", violation.what, explain(&scope, None, &violation.history));
        }
        assert!(outcome.is_complete, "{name} was cut off");
        assert!(outcome.states > 100 && outcome.depth > 10, "{name} goes nowhere: {outcome:?}");
    }
}

#[test]
fn what_is_found_does_not_depend_on_the_number_of_threads() {
    let scope = scope("slots-of-runs");
    let count = |threads| {
        let limits = Limits { threads, ..Limits::default() };
        let outcome = search(&scope, &limits, &mut |_| ());
        (outcome.states, outcome.transitions, outcome.depth)
    };
    assert_eq!(count(1), count(3));
}

#[test]
fn a_search_that_is_cut_off_says_so_and_complains_of_nothing() {
    let limits = Limits { states: 200, ..Limits::default() };
    let outcome = search(&scope("flushing"), &limits, &mut |_| ());
    assert!(!outcome.is_complete && outcome.violation.is_none());
    assert!(outcome.states >= 200 && outcome.states < 20_000);
}

/// The hang that made this crate: a pool was closed while its worker had just finished, and the
/// next queue's first item ran without a standby.
#[test]
fn a_pool_that_is_closed_without_a_standby_is_found() {
    let scope = scope("reopen");
    let limits = Limits { without: Some(Rule::ClosedKeepsStandby), ..Limits::default() };
    let outcome = search(&scope, &limits, &mut |_| ());
    let violation = outcome.violation.expect("it works alone, and nobody noticed");
    assert!(violation.what.contains("(standby)"), "{}", violation.what);
    let text = explain(&scope, limits.without, &violation.history);
    assert!(text.contains("client 0: Destroy(0)"), "{text}");
    assert!(text.contains("*** (standby)"), "{text}");
    // A history, not only a state: it is told event by event.
    assert_eq!(text.matches("pool0: running").count() + 1, violation.history.len(), "{text}");
}
