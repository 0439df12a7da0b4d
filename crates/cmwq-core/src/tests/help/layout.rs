//! Where pods' bits are.

use std::collections::BTreeSet;
use std::vec::Vec;

use super::boards::MOST_PODS;
use crate::help::{Layout, Whereabouts};

fn layout(pods: u32, cache: u32, caches: u32) -> (Vec<Whereabouts>, Layout) {
    let at = |pod| Whereabouts { node: pod / (cache * caches), cache: pod / cache };
    let pods: Vec<_> = (0..pods).map(at).collect();
    let layout = Layout::new(&pods);
    (pods, layout)
}

#[test]
fn every_pod_has_a_bit_of_its_own_in_a_word_of_its_node() {
    let boards = [
        (1, 1, 1),
        (2, 2, 1),
        (64, 64, 1),
        (256, 8, 16),
        (256, 1, 256),
        (300, 100, 1),
        (4096, 9, 9),
    ];
    for (pods, cache, caches) in boards.into_iter().filter(|board| board.0 <= MOST_PODS) {
        let (at, layout) = layout(pods, cache, caches);
        let mut taken = BTreeSet::new();
        for pod in 0..at.len() {
            let position = layout.position(pod);
            assert!(taken.insert((position.word, position.bit)), "{pods} {cache}: {pod}");
            assert_eq!(layout.pod(position.word, position.bit), pod);
            let same = (0..at.len()).filter(|&other| layout.position(other).word == position.word);
            assert!(same.into_iter().all(|other| at[other].node == at[pod].node));
        }
        let nodes: BTreeSet<_> = at.iter().map(|at| at.node).collect();
        let full = if pods > 1024 { 64 } else { 16 };
        let most =
            nodes.len() + 2 * (pods as usize).div_ceil((full + 1 - cache.min(full)) as usize);
        assert!(layout.nr_words() <= most, "{} words for {pods}", layout.nr_words());
    }
}

#[test]
fn small_machines_have_one_word() {
    for (pods, cache) in [(2, 2), (4, 2), (16, 4), (64, 64)] {
        assert_eq!(layout(pods, cache, 100).1.nr_words(), 1, "{pods} pods");
    }
    assert_eq!(layout(128, 8, 16).1.nr_words(), 8);
    assert_eq!(layout(256, 8, 16).1.nr_words(), 16);
}

#[test]
fn cpus_numbered_across_nodes_are_sorted() {
    let at = |pod: u32| Whereabouts { node: pod % 2, cache: pod % 4 };
    let layout = Layout::new(&(0..64).map(at).collect::<Vec<_>>());
    assert_eq!(layout.nr_words(), 4);
    assert!((0..64).all(|pod| layout.position(pod).word % 2 == layout.position(pod % 4).word % 2));
    assert_eq!(layout.position(0).word, layout.position(4).word);
}
