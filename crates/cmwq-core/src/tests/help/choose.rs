//! Who is found on a board, and what that costs.

use std::vec::Vec;

use super::boards::{MOST_PODS, Plain};
use crate::help::board::Entry;
use crate::help::choose::to_help;
use crate::help::{
    Ask, Facts, Instead, Length, Set, any, asks, collects, instead_of, others_wait, to_ask,
    to_visit, to_watch, wants_help,
};
use crate::tests::support::{Rng, steps};

/// How far it is from one pod to another: cache, node, or farther.
fn distance(cache: u32, caches: u32, one: usize, other: usize) -> u32 {
    let (cache, node) = (cache as usize, (cache * caches) as usize);
    if one / cache == other / cache {
        0
    } else if one / node == other / node {
        1
    } else {
        2
    }
}

#[test]
fn the_nearest_pod_is_found() {
    let mut rng = Rng::new(7);
    let boards = [(2, 2, 1), (16, 4, 2), (64, 8, 4), (256, 8, 16), (4096, 16, 32)];
    for (pods, cache, caches) in boards.into_iter().filter(|board| board.0 <= MOST_PODS) {
        for _ in 0..steps(200, 10) {
            let mut board = Plain::regular(pods, cache, caches);
            let members: Vec<_> = (0..rng.below(6)).map(|_| rng.below(pods as usize)).collect();
            members.iter().for_each(|&pod| board.put(Set::Spare, pod, true));
            assert_eq!(any(&board, Set::Spare), !members.is_empty());
            let me = rng.below(pods as usize);
            let found = to_ask(&board, me).next();
            let distance = |pod: usize| distance(cache, caches, me, pod);
            let nearest = members.iter().filter(|&&pod| pod != me).map(|&pod| distance(pod)).min();
            match (found, nearest) {
                (Some(Ask::Now(pod)), Some(nearest)) => {
                    assert!(board.has(Set::Spare, pod) && pod != me);
                    assert_eq!(distance(pod), nearest, "{pod} for {me} of {members:?}");
                }
                (None, None) => {}
                _ => panic!("{found:?} for {me} of {members:?}"),
            }
        }
    }
}

#[test]
fn nobody_is_always_asked_first() {
    let mut board = Plain::regular(8, 8, 1);
    (0..8).for_each(|pod| board.put(Set::Backlog, pod, true));
    for me in 0..8 {
        let whom: Vec<_> = to_help(&board, me).collect();
        assert_eq!(whom, [(me + 1) % 8, (me + 2) % 8]);
    }
}

/// What is announced comes before what may be there.
#[test]
fn a_backlog_comes_before_a_full_pool() {
    let mut board = Plain::regular(64, 8, 4);
    board.put(Set::Saturated, 1, true);
    assert_eq!(to_help(&board, 0).collect::<Vec<_>>(), [1]);
    board.put(Set::Backlog, 63, true);
    assert_eq!(to_help(&board, 0).collect::<Vec<_>>(), [63, 1]);
}

#[test]
fn a_full_pool_is_worth_a_visit_only_if_something_was_pushed_there() {
    let mut board = Plain::regular(64, 8, 4);
    board.put(Set::Saturated, 1, true);
    board.put(Set::Backlog, 63, true);
    let visited = |none_at: usize, inbox_is_empty| {
        let pool = |pod| Some(pod).filter(|pod| *pod != none_at);
        to_visit(&board, 0, pool, |_| inbox_is_empty).collect::<Vec<_>>()
    };
    assert_eq!(visited(0, false), [63, 1]);
    assert_eq!(visited(0, true), [63], "it knows of work");
    assert_eq!(visited(63, false), [1], "it has no pool yet");
}

#[test]
fn who_computes_is_called_by_the_sentinel_if_nobody_else_can_come() {
    let mut board = Plain::regular(64, 8, 4);
    board.put(Set::Reserve, 1, true);
    assert_eq!(to_ask(&board, 0).collect::<Vec<_>>(), [Ask::WhenIdle(1)]);
    board.put(Set::Spare, 63, true);
    assert_eq!(to_ask(&board, 0).next(), Some(Ask::Now(63)));
}

/// Summaries may name words that are empty: each is found out once.
#[test]
fn empty_words_are_retired() {
    let mut board = Plain::regular(256, 16, 8);
    for pod in (0..256).step_by(16) {
        board.put(Set::Spare, pod, true);
        board.put(Set::Spare, pod, false);
    }
    assert!(any(&board, Set::Spare), "nobody has searched yet");
    assert_eq!(to_ask(&board, 3).count(), 0);
    assert_eq!(board.nr_retired.get(), 16);
    assert!(!any(&board, Set::Spare));
    board.put(Set::Spare, 200, true);
    assert_eq!(to_ask(&board, 3).next(), Some(Ask::Now(200)));
    assert_eq!(board.nr_retired.get(), 16);
}

/// A summary that names words which are empty is not taken for a backlog.
#[test]
fn a_backlog_that_has_gone_is_not_waited_for() {
    for pods in [16, 256] {
        let mut board = Plain::regular(pods, 16, 8);
        let last = pods as usize - 1;
        assert!(!others_wait(&board, 0));
        board.put(Set::Backlog, last, true);
        assert!(others_wait(&board, 0));
        assert!(!others_wait(&board, last), "its own backlog");
        board.put(Set::Backlog, last, false);
        assert!(!others_wait(&board, 0), "{pods} pods");
        assert!(!any(&board, Set::Backlog), "who looked has put it right");
    }
}

/// However many pods there are, a search reads as many words.
#[test]
fn the_cost_does_not_depend_on_the_number_of_pods() {
    let boards = [(2, 1), (16, 1), (64, 4), (256, 4), (1024, 4), (4096, 5)];
    for (pods, most) in boards.into_iter().filter(|board| board.0 <= MOST_PODS) {
        let mut board = Plain::regular(pods, 16, 8);
        for pod in 0..pods as usize {
            board.put(Set::Open, pod, true);
        }
        let reads = |board: &Plain, search: &dyn Fn(&Plain)| {
            board.nr_reads.set(0);
            search(board);
            board.nr_reads.replace(0)
        };
        let nobody = reads(&board, &|board| assert_eq!(to_help(board, 0).count(), 0));
        assert!(nobody <= 2 * most, "{pods} pods: {nobody} words for nothing");
        let last = pods as usize - 1;
        board.put(Set::Backlog, last, true);
        let one = reads(&board, &|board| assert_eq!(to_help(board, 0).next(), Some(last)));
        // A look whether there is anybody, then the search.
        assert!(one <= 2 * most, "{pods} pods: {one} words for one");
        let instead = reads(&board, &|board| _ = instead_of(board, 0, 5));
        assert!(instead <= most + 4, "{pods} pods: {instead} words for an item");
        let joined = reads(&board, &|board| _ = collects(board, last, Length::VeryLong));
        assert!(joined <= 3, "{pods} pods: {joined} words for an item of a queuer that waits");
        let watched = reads(&board, &|board| assert!(to_watch(board, 0, 3).count() <= 8));
        assert!(watched <= 9, "{pods} pods: {watched} words for a tick");
    }
}

#[test]
fn an_item_goes_to_a_pod_on_whose_cpu_nobody_computes() {
    let mut board = Plain::regular(64, 8, 4);
    (0..64).for_each(|pod| board.put(Set::Open, pod, true));
    board.put(Set::CallerComputes, 0, true);
    board.put(Set::Spare, 40, true);
    assert_eq!(instead_of(&board, 0, 9), Instead::Pod(40), "it has a CPU to spare");
    board.put(Set::CallerComputes, 40, true);
    let near: Vec<_> = (0..7).map(|turn| instead_of(&board, 0, turn)).collect();
    assert_eq!(near, [1, 2, 3, 4, 5, 6, 7].map(Instead::Pod), "those of its cache, in turn");
    (0..64).for_each(|pod| board.put(Set::CallerComputes, pod, true));
    assert!(matches!(instead_of(&board, 0, 3), Instead::Home(Some(pod)) if pod != 0));
    (0..64).for_each(|pod| board.put(Set::Open, pod, pod == 0));
    assert_eq!(instead_of(&board, 0, 3), Instead::Home(None), "there is no other");
}

#[test]
fn very_long_items_of_full_pods_have_one_backlog_in_a_cache() {
    let mut board = Plain::regular(64, 8, 4);
    (0..64).for_each(|pod| board.put(Set::Open, pod, true));
    let collected = |board: &Plain, me| collects(board, me, Length::VeryLong);
    // Those of another cache, before and behind.
    board.put(Set::Backlog, 7, true);
    board.put(Set::Backlog, 16, true);
    board.put(Set::Saturated, 10, true);
    assert_eq!(collected(&board, 12), None, "it may start the item");
    board.put(Set::Backlog, 12, true);
    assert_eq!(collected(&board, 12), Some(10), "the first of its cache");
    assert_eq!(collected(&board, 10), None, "itself");
    for length in [Length::Short, Length::Long] {
        assert_eq!(collects(&board, 12, length), None, "they would meet at one lock too often");
    }
    board.put(Set::Open, 10, false);
    board.put(Set::Saturated, 14, true);
    assert_eq!(collected(&board, 12), None, "nobody named the CPU of a pod that is apart");
    assert_eq!(collected(&board, 14), Some(12), "the first that is not");
    board.put(Set::Open, 10, true);
    board.put(Set::Saturated, 10, false);
    assert_eq!(collected(&board, 12), None, "nobody else waits");
}

/// All that are busy are asked at some time, and none that is idle.
#[test]
fn every_busy_pod_is_watched_in_turn() {
    for pods in [2, 9, 64, 256] {
        let mut board = Plain::regular(pods, 16, 8);
        for pod in 0..pods as usize {
            board.put(Set::Open, pod, true);
            board.put(Set::Spare, pod, pod % 5 == 4);
        }
        let mut watched: Vec<_> = (0..256).flat_map(|turn| to_watch(&board, 0, turn)).collect();
        watched.sort_unstable();
        watched.dedup();
        let busy: Vec<_> = (1..pods as usize).filter(|pod| pod % 5 != 4).collect();
        assert_eq!(watched, busy, "of {pods} pods");
    }
    // As long as they are few, at each tick.
    let mut board = Plain::regular(9, 9, 1);
    (0..9).for_each(|pod| board.put(Set::Open, pod, true));
    assert!((0..9).all(|turn| to_watch(&board, 0, turn).count() == 8));
    // No turn is for a word without busy pods: of eight nodes of a pod each, a busy one comes when
    // its turn is, or that of the idle one before it.
    let mut board = Plain::regular(8, 1, 1);
    [0, 2, 5].into_iter().for_each(|pod| board.put(Set::Open, pod, true));
    let turns =
        |pod| (0..8).filter(|&turn| to_watch(&board, 0, turn).eq([pod])).collect::<Vec<_>>();
    assert_eq!(turns(2), [1, 2]);
    assert_eq!(turns(5), [4, 5]);
}

#[test]
fn who_has_a_backlog_wants_help_and_asks_if_anybody_can_come() {
    let mut board = Plain::regular(9, 9, 1);
    board.put(Set::Spare, 3, true);
    assert!(!wants_help(&board, 2) && !asks(&board, 2));
    board.put(Set::Backlog, 1, true);
    assert!(!wants_help(&board, 2) && wants_help(&board, 1) && asks(&board, 1));
    board.put(Set::Spare, 3, false);
    assert!(wants_help(&board, 1) && !asks(&board, 1));
    board.put(Set::Reserve, 3, true);
    assert!(asks(&board, 1));
}

const IDLE: Facts = Facts {
    work_waits: false,
    is_at_capacity: false,
    is_starved: false,
    has_short_items: false,
    is_saturated: false,
    is_asked_to_help: false,
    is_closed: false,
    caller_computes: false,
    is_watched: false,
};

#[test]
fn a_pod_says_what_it_has() {
    let sets = |facts: Facts| -> Vec<_> {
        let entry = facts.entry();
        Set::SUMMED.into_iter().filter(|set| entry.has(*set)).collect()
    };
    let busy = Facts { work_waits: true, is_at_capacity: true, ..IDLE };
    assert_eq!(sets(IDLE), [Set::Spare]);
    assert_eq!(IDLE.entry(), Entry::UNMADE);
    assert_eq!(sets(Facts { is_asked_to_help: true, ..IDLE }), []);
    assert_eq!(sets(Facts { is_closed: true, ..IDLE }), []);
    assert_eq!(sets(Facts { caller_computes: true, ..IDLE }), [Set::Reserve]);
    assert_eq!(sets(Facts { caller_computes: true, is_watched: true, ..IDLE }), []);
    assert_eq!(sets(Facts { work_waits: true, ..IDLE }), [], "its own workers come");
    assert_eq!(sets(busy), [Set::Backlog]);
    assert_eq!(sets(Facts { has_short_items: true, ..busy }), []);
    let starved = Facts { work_waits: true, is_starved: true, has_short_items: true, ..IDLE };
    assert_eq!(sets(starved), [Set::Backlog], "nobody runs them, however short they are");
    let full = Facts { work_waits: false, is_saturated: true, ..busy };
    assert_eq!(sets(full), [Set::Saturated]);
    let changes: Vec<_> = busy.entry().changes(IDLE.entry()).collect();
    assert_eq!(changes, [(Set::Spare, false), (Set::Backlog, true)]);
}
