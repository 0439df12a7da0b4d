//! A pool's last decisions, repeats counted.
//!
//! A pool under load decides the same again and again, or two or three things in turn. What is
//! decided like the last time is only counted, in memory of its own; what was decided a short time
//! ago goes to that entry's count. So the ring tells of phases, and the usual decision costs an
//! addition.

use super::{add, set};
use crate::os::clock;
use crate::os::sync::{AtomicU64, Ordering};
use crate::record::mapping::layout::{DECISION_WORDS, RING, RingRecord};
use crate::record::mapping::{Reason, seqlock};

/// How many entries back a decision is looked for.
const RECENT: u64 = 4;

/// See the module header. Lock: L.
#[derive(Debug)]
pub(crate) struct Ring {
    record: &'static RingRecord,
    last: Option<Reason>,
    /// Of the last one, not written down yet.
    repeats: u64,
    /// Its entry.
    entry: usize,
    next: u64,
}

impl Ring {
    pub(crate) fn new(record: &'static RingRecord) -> Self {
        Self { record, last: None, repeats: 0, entry: 0, next: 0 }
    }

    #[inline]
    pub(crate) fn decided(&mut self, reason: Reason) {
        if self.last == Some(reason) {
            self.repeats += 1;
        } else {
            self.change(reason);
        }
    }

    #[inline(never)]
    fn change(&mut self, reason: Reason) {
        let now = clock::coarse();
        self.publish(now);
        self.last = Some(reason);
        let recent = (self.next.saturating_sub(RECENT)..self.next).rev().map(place);
        let known = recent
            .into_iter()
            .find(|at| self.words(*at)[0].load(Ordering::Relaxed) == reason as u64);
        if let Some(known) = known {
            self.entry = known;
            self.count(1, now);
            return;
        }
        self.entry = place(self.next);
        self.next += 1;
        let words = self.words(self.entry);
        seqlock::write(&self.record.seq, || {
            for (word, value) in words.iter().zip([reason as u64, 1, now, now]) {
                set(word, value);
            }
            set(&self.record.next, self.next);
        });
    }

    /// Writes down what was only counted.
    pub(crate) fn publish(&mut self, now: u64) {
        if self.repeats > 0 {
            let repeats = std::mem::take(&mut self.repeats);
            self.count(repeats, now);
        }
    }

    fn count(&self, times: u64, now: u64) {
        let words = self.words(self.entry);
        seqlock::write(&self.record.seq, || {
            add(&words[1], times);
            set(&words[3], now);
        });
    }

    fn words(&self, entry: usize) -> &'static [AtomicU64] {
        &self.record.words[entry * DECISION_WORDS..(entry + 1) * DECISION_WORDS]
    }
}

fn place(number: u64) -> usize {
    (number % RING as u64) as usize
}
