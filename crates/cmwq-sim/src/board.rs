//! The board of managed pods ([`cmwq_core::help`]), in plain numbers, and what using it costs.
//!
//! A pod is a domain of the machine: that is its number on the board, whether a pool was made for
//! it yet or not.

use std::cell::Cell;

use cmwq_core::help::board::Entry;
use cmwq_core::help::{Layout, Set, Whereabouts};

use crate::machine::Domains;
use crate::topology::Scope;

/// See the module header. One for each priority.
#[derive(Debug)]
pub(crate) struct Board {
    layout: Layout,
    words: Vec<[u64; Set::COUNT]>,
    summaries: Vec<[Cell<u64>; Set::SUMMED.len()]>,
    nr_reads: Cell<u64>,
    nr_writes: Cell<u64>,
}

impl Board {
    /// The board of the pods of all scopes.
    pub(crate) fn new(domains: &Domains) -> Self {
        let whereabouts = |domain| {
            let first = domains.cpus(domain).start;
            Whereabouts {
                node: domains.node_of(domain).unwrap_or(u32::MAX),
                cache: domains.pod(Scope::Cache, first),
            }
        };
        let layout = Layout::new(&(0..domains.len()).map(whereabouts).collect::<Vec<_>>());
        Self {
            words: vec![[0; Set::COUNT]; layout.nr_words()],
            summaries: (0..layout.nr_summaries()).map(|_| Default::default()).collect(),
            layout,
            nr_reads: Cell::new(0),
            nr_writes: Cell::new(0),
        }
    }

    /// How many words a set takes.
    pub(crate) fn nr_words(&self) -> usize {
        self.words.len()
    }

    pub(crate) fn has(&self, set: Set, pod: u32) -> bool {
        let position = self.layout.position(pod as usize);
        self.words[position.word][set as usize] & position.mask() != 0
    }

    /// Puts a pod into a set or takes it out.
    pub(crate) fn put(&mut self, set: Set, pod: u32, is_in: bool) {
        if self.has(set, pod) == is_in {
            return;
        }
        let position = self.layout.position(pod as usize);
        let word = &mut self.words[position.word][set as usize];
        *word ^= position.mask();
        self.count_write();
        let Some(summary) = self.summaries[position.word / 64].get(set as usize) else { return };
        let bit = 1 << (position.word % 64);
        if is_in && self.words.len() > 1 && summary.get() & bit == 0 {
            summary.set(summary.get() | bit);
            self.count_write();
        }
    }

    /// What a pod says of itself now.
    pub(crate) fn post(&mut self, pod: u32, entry: Entry) {
        for set in Set::SUMMED {
            self.put(set, pod, entry.has(set));
        }
    }

    /// The pod may help from now on, or no longer.
    pub(crate) fn open(&mut self, pod: u32, is_open: bool, is_made: bool) {
        self.put(Set::Open, pod, is_open);
        if !is_made {
            self.put(Set::Spare, pod, is_open);
        }
    }

    /// So many words had been written before CPUs left or came: what that costs is for the machine,
    /// and not for an item.
    pub(crate) fn set_writes(&self, nr_writes: u64) {
        self.nr_writes.set(nr_writes);
    }

    /// Words that were read, and written, by pools.
    pub(crate) fn cost(&self) -> (u64, u64) {
        (self.nr_reads.get(), self.nr_writes.get())
    }

    fn count_write(&self) {
        self.nr_writes.set(self.nr_writes.get() + 1);
    }

    fn count_read(&self) {
        self.nr_reads.set(self.nr_reads.get() + 1);
    }
}

impl cmwq_core::help::Board for Board {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn word(&self, set: Set, word: usize) -> u64 {
        self.count_read();
        self.words[word][set as usize]
    }

    fn summary(&self, set: Set, at: usize) -> u64 {
        self.count_read();
        self.summaries[at][set as usize].get()
    }

    fn retire(&self, set: Set, word: usize) -> u64 {
        self.count_write();
        let summary = &self.summaries[word / 64][set as usize];
        summary.set(summary.get() & !(1 << (word % 64)));
        0
    }
}
