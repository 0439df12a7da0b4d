//! Which readers a grace period waits for. A value: no lock, no clock; see [`Epochs`].

use std::collections::VecDeque;

/// Readers by the generation in which they entered, and the waiters.
///
/// A generation ends when a waiter comes: the waiter waits for the readers of that generation and
/// of earlier ones, and for none that enter later. So waiters become ready in the order in which
/// they came, and a stream of readers delays none for ever.
#[derive(Debug)]
pub(super) struct Epochs<T> {
    /// The number of the oldest generation.
    first: u64,
    /// Generations that have ended, oldest first.
    ended: VecDeque<Generation<T>>,
    /// Readers of the present generation.
    readers: u64,
    /// Readers of generations before this one count as readers of it: see
    /// [`leave_behind`](Self::leave_behind).
    inherited: u64,
}

#[derive(Debug)]
struct Generation<T> {
    readers: u64,
    waiting: VecDeque<T>,
}

impl<T> Epochs<T> {
    pub(super) const fn new() -> Self {
        Self { first: 0, ended: VecDeque::new(), readers: 0, inherited: 0 }
    }

    fn current(&self) -> u64 {
        self.first + self.ended.len() as u64
    }

    /// A reader enters. Returns its generation, for [`leave`](Self::leave).
    pub(super) fn enter(&mut self) -> u64 {
        self.readers += 1;
        self.current()
    }

    /// A reader of this generation leaves.
    pub(super) fn leave(&mut self, generation: u64) {
        let generation = generation.max(self.inherited);
        if generation == self.current() {
            self.readers -= 1;
        } else {
            self.ended[(generation - self.first) as usize].readers -= 1;
        }
    }

    /// Begins anew with so many of the readers inside, whatever their generations. Returns the
    /// waiters.
    pub(super) fn leave_behind(&mut self, readers: u64) -> Vec<T> {
        let first = self.current() + 1;
        let ended = std::mem::take(&mut self.ended);
        *self = Self { first, ended: VecDeque::new(), readers, inherited: first };
        ended.into_iter().flat_map(|generation| generation.waiting).collect()
    }

    /// `thing` begins to wait for the readers that are inside now.
    pub(super) fn wait(&mut self, thing: T) {
        // If no reader has entered since, the readers inside are those that the last waiter waits
        // for.
        if self.readers > 0 || self.ended.is_empty() {
            let readers = std::mem::take(&mut self.readers);
            self.ended.push_back(Generation { readers, waiting: VecDeque::new() });
        }
        if let Some(last) = self.ended.back_mut() {
            last.waiting.push_back(thing);
        }
    }

    /// Takes the oldest waiter, if its readers have left.
    pub(super) fn next(&mut self) -> Option<T> {
        loop {
            let oldest = self.ended.front_mut()?;
            if oldest.readers > 0 {
                return None;
            }
            if let Some(thing) = oldest.waiting.pop_front() {
                return Some(thing);
            }
            self.ended.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::Epochs;

    #[test]
    fn who_came_later_is_not_waited_for() {
        let mut epochs = Epochs::new();
        let early = epochs.enter();
        epochs.wait('a');
        let late = epochs.enter();
        assert_eq!(epochs.next(), None, "the early reader is inside");
        epochs.leave(early);
        assert_eq!(epochs.next(), Some('a'));
        assert_eq!(epochs.next(), None);
        epochs.leave(late);
        epochs.wait('b');
        assert_eq!(epochs.next(), Some('b'), "nobody is inside");
    }

    #[test]
    fn readers_that_are_taken_along_are_waited_for_and_no_others() {
        let mut epochs = Epochs::new();
        let (own, _gone) = (epochs.enter(), epochs.enter());
        epochs.wait('a');
        let own_too = epochs.enter();
        assert_eq!(epochs.leave_behind(2), ['a']);
        epochs.wait('b');
        epochs.leave(own);
        assert_eq!(epochs.next(), None, "one of them is inside");
        epochs.leave(own_too);
        assert_eq!(epochs.next(), Some('b'));
        let later = epochs.enter();
        epochs.wait('c');
        assert_eq!(epochs.next(), None);
        epochs.leave(later);
        assert_eq!(epochs.next(), Some('c'));
    }

    /// Against a model in which everything that waits keeps a set of readers.
    #[test]
    fn random_histories_agree_with_sets_of_readers() {
        for seed in 1..=200_u64 {
            let mut random = seed;
            let mut below = |n: usize| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) as usize % n
            };
            let mut epochs = Epochs::new();
            let mut inside: Vec<(usize, u64)> = Vec::new();
            let mut waiting: VecDeque<(usize, BTreeSet<usize>)> = VecDeque::new();
            for step in 0..400 {
                match below(4) {
                    0 => inside.push((step, epochs.enter())),
                    1 if !inside.is_empty() => {
                        let (reader, generation) = inside.swap_remove(below(inside.len()));
                        epochs.leave(generation);
                        for (_, readers) in &mut waiting {
                            readers.remove(&reader);
                        }
                    }
                    2 => {
                        epochs.wait(step);
                        waiting
                            .push_back((step, inside.iter().map(|(reader, _)| *reader).collect()));
                    }
                    // Not always: things that are ready may be left for a while.
                    _ => {
                        let ready = waiting.front().is_some_and(|(_, readers)| readers.is_empty());
                        let expected = if ready { waiting.pop_front() } else { None };
                        assert_eq!(
                            epochs.next(),
                            expected.map(|(at, _)| at),
                            "seed {seed}, {step}"
                        );
                    }
                }
            }
            let bound = inside.len() + waiting.len() + 1;
            while epochs.next().is_some() {}
            assert!(epochs.ended.len() <= bound, "seed {seed}: empty generations are kept");
        }
    }
}
