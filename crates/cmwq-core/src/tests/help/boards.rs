//! A board of plain numbers, that counts how often it is read.

use std::cell::{Cell, RefCell};
use std::vec;
use std::vec::Vec;

use crate::help::{Board, Layout, Set, Whereabouts};
use crate::tests::support::steps;

/// The largest machine that is tried: on larger ones Miri takes hours.
pub(super) const MOST_PODS: u32 = steps(4096, 300) as u32;

pub(super) struct Plain {
    layout: Layout,
    words: Vec<[u64; Set::COUNT]>,
    summaries: RefCell<Vec<[u64; 4]>>,
    pub(super) nr_reads: Cell<usize>,
    pub(super) nr_retired: Cell<usize>,
}

impl Plain {
    pub(super) fn new(pods: &[Whereabouts]) -> Self {
        let layout = Layout::new(pods);
        let (words, summaries) = (layout.nr_words(), layout.nr_summaries());
        Self {
            layout,
            words: vec![[0; Set::COUNT]; words],
            summaries: vec![[0; 4]; summaries].into(),
            nr_reads: Cell::new(0),
            nr_retired: Cell::new(0),
        }
    }

    /// A machine with so many pods per cache, and caches per node.
    pub(super) fn regular(pods: u32, cache: u32, caches: u32) -> Self {
        let at = |pod| Whereabouts { node: pod / (cache * caches), cache: pod / cache };
        Self::new(&(0..pods).map(at).collect::<Vec<_>>())
    }

    pub(super) fn put(&mut self, set: Set, pod: usize, is_in: bool) {
        let position = self.layout.position(pod);
        let word = &mut self.words[position.word][set as usize];
        *word = if is_in { *word | position.mask() } else { *word & !position.mask() };
        if is_in && (set as usize) < Set::SUMMED.len() {
            let summary = &mut self.summaries.get_mut()[position.word / 64][set as usize];
            *summary |= 1 << (position.word % 64);
        }
    }

    pub(super) fn has(&self, set: Set, pod: usize) -> bool {
        let position = self.layout.position(pod);
        self.words[position.word][set as usize] & position.mask() != 0
    }

    fn count(&self) {
        self.nr_reads.set(self.nr_reads.get() + 1);
    }
}

impl Board for Plain {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn word(&self, set: Set, word: usize) -> u64 {
        self.count();
        self.words[word][set as usize]
    }

    fn summary(&self, set: Set, at: usize) -> u64 {
        self.count();
        self.summaries.borrow()[at][set as usize]
    }

    fn retire(&self, set: Set, word: usize) -> u64 {
        self.nr_retired.set(self.nr_retired.get() + 1);
        self.summaries.borrow_mut()[word / 64][set as usize] &= !(1 << (word % 64));
        0
    }
}
