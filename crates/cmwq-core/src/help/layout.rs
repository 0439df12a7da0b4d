//! Where each pod's bit is on a board.
//!
//! A word has the pods of one cache, or of several small caches of the same node, so that only pods
//! near each other write to the same word. The words of a node follow each other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// Pods of a word.
pub(super) const BITS: usize = 64;
/// Small caches share a word of at most so many pods.
const SHARED: usize = 16;
/// With more pods than this, words are filled up, so that there are few words.
const MANY: usize = 1024;

/// What a pod shares with others. Only the equality of numbers matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whereabouts {
    /// Its NUMA node.
    pub node: u32,
    /// Its last-level cache.
    pub cache: u32,
}

/// Where a pod's bit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// In which word.
    pub word: usize,
    /// Which bit.
    pub bit: u32,
    /// The bits of its cache in that word, its own included.
    pub(super) cache: u64,
}

impl Position {
    /// Its bit, in its word.
    #[inline]
    #[must_use]
    pub const fn mask(&self) -> u64 {
        1 << self.bit
    }
}

/// See the module header.
#[derive(Debug)]
pub struct Layout {
    /// By pod.
    positions: Box<[Position]>,
    /// The pods in the order of their bits.
    order: Box<[u32]>,
    words: Box<[Word]>,
}

#[derive(Clone, Debug)]
struct Word {
    /// Its pods, in `order`.
    pods: Range<usize>,
    /// The words of its node.
    node: Range<usize>,
}

impl Layout {
    /// The layout of pods that are there.
    #[must_use]
    pub fn new(pods: &[Whereabouts]) -> Self {
        let mut order: Vec<u32> = (0..pods.len() as u32).collect();
        order.sort_by_key(|&pod| (pods[pod as usize], pod));
        let at = |n: usize| pods[order[n] as usize];
        let mut words: Vec<Word> = Vec::new();
        let mut first = 0;
        while first < order.len() {
            let same_cache = (first..order.len()).take_while(|&n| at(n) == at(first)).count();
            let mut left = first..first + same_cache;
            first = left.end;
            while !left.is_empty() {
                let cache = left.start..left.end.min(left.start + BITS);
                left.start = cache.end;
                match words.last_mut() {
                    Some(word) if fits(word, &cache, pods.len(), at) => word.pods.end = cache.end,
                    _ => words.push(Word { pods: cache, node: 0..0 }),
                }
            }
        }
        let positions = positions(&words, &order, at);
        Self::with_nodes(positions, order, words, |n| pods[n as usize].node)
    }

    fn with_nodes(
        positions: Vec<Position>,
        order: Vec<u32>,
        mut words: Vec<Word>,
        node: impl Fn(u32) -> u32,
    ) -> Self {
        let nodes: Vec<u32> = words.iter().map(|word| node(order[word.pods.start])).collect();
        for (word, mine) in words.iter_mut().zip(&nodes) {
            let first = nodes.partition_point(|node| node < mine);
            word.node = first..nodes.partition_point(|node| node <= mine);
        }
        Self { positions: positions.into(), order: order.into(), words: words.into() }
    }

    /// How many pods there are.
    #[must_use]
    pub fn nr_pods(&self) -> usize {
        self.positions.len()
    }

    /// How many words a set of them takes.
    #[inline]
    #[must_use]
    pub fn nr_words(&self) -> usize {
        self.words.len()
    }

    /// How many words a summary of them takes.
    #[inline]
    #[must_use]
    pub fn nr_summaries(&self) -> usize {
        self.words.len().div_ceil(BITS)
    }

    /// Where a pod's bit is.
    #[inline]
    #[must_use]
    pub fn position(&self, pod: usize) -> Position {
        self.positions[pod]
    }

    /// The pod with this bit, which must be some pod's.
    pub(crate) fn pod(&self, word: usize, bit: u32) -> usize {
        self.order[self.words[word].pods.start + bit as usize] as usize
    }

    /// Which words of summary `at` are of the same node as `word`.
    pub(super) fn node(&self, word: usize, at: usize) -> u64 {
        let Range { start, end } = self.words[word].node;
        let below = |end: usize| match end.saturating_sub(at * BITS) {
            BITS.. => u64::MAX,
            bits => (1 << bits) - 1,
        };
        below(end) & !below(start)
    }
}

/// Whether the pods of `cache` can be in `word`, too. `at`: a pod's whereabouts, by its place in
/// the order.
fn fits(
    word: &Word,
    cache: &Range<usize>,
    nr_pods: usize,
    at: impl Fn(usize) -> Whereabouts,
) -> bool {
    let full = if nr_pods > MANY { BITS } else { SHARED };
    at(word.pods.start).node == at(cache.start).node && cache.end - word.pods.start <= full
}

fn positions(words: &[Word], order: &[u32], at: impl Fn(usize) -> Whereabouts) -> Vec<Position> {
    let mut positions = alloc::vec![Position { word: 0, bit: 0, cache: 0 }; order.len()];
    for (number, word) in words.iter().enumerate() {
        for n in word.pods.clone() {
            let shares = word.pods.clone().filter(|&other| at(other) == at(n));
            let cache = shares.fold(0, |bits, other| bits | 1_u64 << (other - word.pods.start));
            let bit = (n - word.pods.start) as u32;
            positions[order[n] as usize] = Position { word: number, bit, cache };
        }
    }
    positions
}
