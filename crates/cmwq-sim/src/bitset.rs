//! A set of small numbers that finds its next member quickly: which of thousands of pods have
//! something to offer is asked at every sleep of a worker.

/// See the module header.
#[derive(Clone, Debug, Default)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    len: usize,
}

impl BitSet {
    /// Puts `number` in or takes it out. `true`: that changed something.
    pub(crate) fn set(&mut self, number: usize, is_in: bool) -> bool {
        let (word, bit) = (number / 64, 1_u64 << (number % 64));
        if self.words.len() <= word {
            if !is_in {
                return false;
            }
            self.words.resize(word + 1, 0);
        }
        if (self.words[word] & bit != 0) == is_in {
            return false;
        }
        self.words[word] ^= bit;
        if is_in {
            self.len += 1;
        } else {
            self.len -= 1;
        }
        true
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The lowest member that is `from` or higher.
    pub(crate) fn next_from(&self, from: usize) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let mut word = from / 64;
        let mut bits = self.words.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The member that follows `at` on the way round from `mine`: first come the members behind
    /// `mine`, then those before it, so that nobody is always asked first.
    pub(crate) fn other_after(&self, mine: usize, at: usize) -> Option<usize> {
        let is_before = |next: &usize| *next < mine;
        if at < mine {
            return self.next_from(at + 1).filter(is_before);
        }
        self.next_from(at + 1).or_else(|| self.next_from(0).filter(is_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn it_is_a_set() {
        let (mut set, mut naive) = (BitSet::default(), std::collections::BTreeSet::new());
        let mut rng = Rng::new(3);
        for _ in 0..5_000 {
            let number = rng.below(300) as usize;
            let is_in = rng.chance(400_000);
            let changed = if is_in { naive.insert(number) } else { naive.remove(&number) };
            assert_eq!(set.set(number, is_in), changed);
            let from = rng.below(330) as usize;
            assert_eq!(set.next_from(from), naive.range(from..).next().copied());
            assert_eq!((set.len, set.is_empty()), (naive.len(), naive.is_empty()));
            let next = |at: &usize| set.other_after(from, *at);
            let others: Vec<_> = std::iter::successors(next(&from), next).collect();
            let (before, after) = (naive.range(..from), naive.range(from + 1..));
            assert_eq!(others, after.chain(before).copied().collect::<Vec<_>>());
        }
    }
}
