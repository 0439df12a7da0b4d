//! Managed pods help each other: the board of [`cmwq_core::help`] for threads.
//!
//! The pods of a cache, or of a few small caches, share a cache line, which they write when a pod
//! has no CPU to spare any more, or has one again. A summary says which of these lines have a pod
//! in a set; it is written when a line's first pod comes. A search that finds a line empty takes it
//! out of the summary, and looks again. If one line has all pods, there is no summary.
//!
//! Nobody is missed: the order is that of [`cmwq_core::help::board`]. Each write is a
//! read-modify-write, and each read that follows is ordered as by a full fence (`board_put`,
//! `board_retire`, `board_look`). Of a pod that posts a backlog and one that becomes idle, one sees
//! the other, or a third one that has just retired the line sees both. If that third one does not
//! act ([`help::others_wait`](cmwq_core::help::others_wait)), the tick asks for help again.

use cmwq_core::help::board::Entry;
use cmwq_core::help::{Board, Layout, Set, Whereabouts};

use super::Pool;
use crate::os::published::Lasting;
use crate::os::sync::{AtomicU64, Ordering, fenced_load, in_order};

/// The board of the managed pods of one priority, and their pools.
#[derive(Debug)]
pub(crate) struct AtomicBoard {
    layout: Layout,
    words: Box<[Words]>,
    summaries: Box<[Summary]>,
    pools: Box<[Lasting<Pool>]>,
}

/// A pod of a board.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pod {
    pub(crate) board: &'static AtomicBoard,
    /// Which it is there.
    pub(crate) number: usize,
}

/// One word of each set.
#[repr(align(64))]
#[derive(Debug)]
struct Words([AtomicU64; Set::COUNT]);

/// 64 words of each set that has a summary.
#[repr(align(64))]
#[derive(Debug)]
struct Summary([AtomicU64; Set::SUMMED.len()]);

impl AtomicBoard {
    /// `is_open`: whether a pod has a CPU that managed queues use now.
    pub(crate) fn new(pods: &[Whereabouts], is_open: impl Fn(usize) -> bool) -> Self {
        let layout = Layout::new(pods);
        let words = || Words(std::array::from_fn(|_| AtomicU64::new(0)));
        let summary = || Summary(std::array::from_fn(|_| AtomicU64::new(0)));
        let board = Self {
            words: (0..layout.nr_words()).map(|_| words()).collect(),
            summaries: (0..layout.nr_summaries()).map(|_| summary()).collect(),
            pools: pods.iter().map(|_| Lasting::nothing()).collect(),
            layout,
        };
        (0..pods.len()).filter(|pod| is_open(*pod)).for_each(|pod| board.open(pod, true));
        board
    }

    pub(crate) fn len(&self) -> usize {
        self.pools.len()
    }

    /// The pool of a pod, if it was used yet.
    pub(crate) fn get(&self, pod: usize) -> Option<&'static Pool> {
        self.pools[pod].get()
    }

    pub(crate) fn add(&self, pod: usize, pool: &'static Pool) {
        self.pools[pod].set(pool);
    }

    /// The pod may help from now on, or no longer. A pod that may help and has no pool yet counts
    /// as idle.
    pub(crate) fn open(&self, pod: usize, is_open: bool) {
        self.put(Set::Open, pod, is_open);
        if self.get(pod).is_none() {
            self.put(Set::Spare, pod, is_open);
        }
    }

    #[inline]
    pub(crate) fn has(&self, set: Set, pod: usize) -> bool {
        let position = self.layout.position(pod);
        // ORDERING: no pairing: a hint.
        self.words[position.word].0[set as usize].load(Ordering::Relaxed) & position.mask() != 0
    }

    /// A pod's entry has changed.
    pub(crate) fn post(&self, pod: usize, before: Entry, entry: Entry) {
        entry.changes(before).for_each(|(set, is_in)| self.put(set, pod, is_in));
    }

    /// Puts a pod into a set that it is not in, or takes it out.
    pub(crate) fn put(&self, set: Set, pod: usize, is_in: bool) {
        let position = self.layout.position(pod);
        let word = &self.words[position.word].0[set as usize];
        if !is_in {
            word.fetch_and(!position.mask(), in_order());
            return;
        }
        // ORDERING: see the module header, here and below.
        word.fetch_or(position.mask(), in_order());
        let Some((summary, bit)) = self.above(set, position.word) else { return };
        if summary.load(fenced_load("board_put")) & bit == 0 {
            summary.fetch_or(bit, in_order());
        }
    }

    /// The summary of a word, and its bit in it.
    #[inline]
    fn above(&self, set: Set, word: usize) -> Option<(&AtomicU64, u64)> {
        let is_summed = self.words.len() > 1 && (set as usize) < Set::SUMMED.len();
        is_summed.then(|| (&self.summaries[word / 64].0[set as usize], 1 << (word % 64)))
    }
}

impl Board for AtomicBoard {
    #[inline]
    fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    fn word(&self, set: Set, word: usize) -> u64 {
        self.words[word].0[set as usize].load(fenced_load("board_look"))
    }

    #[inline]
    fn summary(&self, set: Set, at: usize) -> u64 {
        self.summaries[at].0[set as usize].load(fenced_load("board_look"))
    }

    #[cold]
    fn retire(&self, set: Set, word: usize) -> u64 {
        let Some((summary, bit)) = self.above(set, word) else { return 0 };
        summary.fetch_and(!bit, in_order());
        let bits = self.words[word].0[set as usize].load(fenced_load("board_retire"));
        if bits != 0 {
            // A pod that was put in meanwhile may have found the summary's bit still set.
            summary.fetch_or(bit, in_order());
        }
        bits
    }
}
