//! A pod posts a backlog while another one goes idle: one of them sees the other.

use cmwq_core::help::{Set, Whereabouts, any, to_ask, to_visit};
use loom::thread;

use super::{check, check_three};
use crate::engine::pool::board::AtomicBoard;

/// Pods of these nodes, none of which may help yet.
fn board(nodes: &[u32]) -> &'static AtomicBoard {
    let pods: Vec<_> = nodes.iter().map(|&node| Whereabouts { node, cache: node }).collect();
    Box::leak(Box::new(AtomicBoard::new(&pods, |_| false)))
}

/// The pod has a backlog, and asks somebody if it finds anybody.
fn post(pods: &AtomicBoard, pod: usize) -> bool {
    pods.put(Set::Backlog, pod, true);
    to_ask(pods, pod).next().is_some()
}

/// The pod goes idle, unless it finds somebody to help.
fn idle(pods: &AtomicBoard, pod: usize) -> bool {
    pods.put(Set::Spare, pod, true);
    to_visit(pods, pod, Some, |_| false).next().is_some()
}

fn meet(pods: &'static AtomicBoard) {
    let poster = thread::spawn(move || post(pods, 0));
    let is_seen = idle(pods, 1);
    assert!(poster.join().unwrap() || is_seen, "work waits, and a CPU is idle");
}

#[test]
fn pods_of_a_word_meet() {
    check(|| meet(board(&[0, 0])));
}

/// Each finds the other by a summary.
#[test]
fn pods_of_different_words_meet() {
    check(|| meet(board(&[0, 1])));
}

/// One pod of a word was idle, and is no longer, but the summary still says so.
fn stale(nodes: &[u32], pod: usize) -> &'static AtomicBoard {
    let pods = board(nodes);
    pods.put(Set::Spare, pod, true);
    pods.put(Set::Spare, pod, false);
    pods
}

#[test]
fn a_word_that_is_not_empty_stays_in_the_summary() {
    check(|| {
        let pods = stale(&[0, 1, 1], 2);
        let searcher = thread::spawn(move || to_ask(pods, 0).next().is_some());
        pods.put(Set::Spare, 1, true);
        searcher.join().unwrap();
        assert!(any(pods, Set::Spare) && to_ask(pods, 0).next().is_some());
    });
}

/// For a moment the summary does not name the word of the idle pod. Whoever did that finds it
/// himself.
#[test]
fn who_is_missed_while_a_word_is_retired_is_found_by_the_searcher() {
    check_three(|| {
        let pods = stale(&[0, 0, 1, 1], 3);
        let searcher = thread::spawn(move || to_ask(pods, 1).next().is_some());
        let poster = thread::spawn(move || post(pods, 0));
        let is_seen = idle(pods, 2);
        let has_called = [searcher, poster].map(|thread| thread.join().unwrap());
        assert!(is_seen || has_called.contains(&true), "work waits, and a CPU is idle");
    });
}

#[test]
fn who_comes_first_to_an_empty_word_is_named() {
    check(|| {
        let pods = board(&[0, 1, 1]);
        let other = thread::spawn(move || pods.put(Set::Spare, 1, true));
        pods.put(Set::Spare, 2, true);
        other.join().unwrap();
        assert_eq!(to_ask(pods, 0).count(), 2);
    });
}
