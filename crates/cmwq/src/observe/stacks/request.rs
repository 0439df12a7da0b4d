//! Asking one thread for a copy of its stack: who may write to the buffer, and when it may be read.
//!
//! | the asker | the thread, in its signal handler |
//! |---|---|
//! | 1. where its stack is, then *asked(tid)* | |
//! | 2. sends the signal | 3. *asked(me)* → *writing*, or it is none of its business |
//! | | 4. registers and stack, then *done* |
//! | 5. *done*: reads, then *empty* | |
//! | 5. out of patience: *asked* → *empty* | (a handler that comes now finds nothing) |
//!
//! The number of the thread is part of the state, so a handler that comes late, when another thread
//! is asked, cannot take that one's place.

use std::ops::Range;

use crate::os::sync::{AtomicU64, AtomicUsize, Ordering, acquire, release};

const EMPTY: u64 = 0;
const ASKED: u64 = 1;
const WRITING: u64 = 2;
const DONE: u64 = 3;
const PHASE: u64 = 3;
const TID_SHIFT: u32 = 2;

/// See the module header.
pub(crate) struct Request {
    /// The phase, and above it the number of the thread that is asked.
    state: AtomicU64,
    /// Where its stack is: nothing else is read.
    stack: [AtomicU64; 2],
    answer: Answer,
}

/// What a thread has answered.
pub(crate) struct Answer {
    /// Program counter, stack pointer, frame pointer, link register (or 0).
    registers: [AtomicU64; 4],
    /// The stack from the stack pointer upwards.
    words: Box<[AtomicU64]>,
    nr_words: AtomicUsize,
}

// ORDERING (all accesses but those of `state`): no pairing of their own: between the asker and the
// thread they are ordered by `state`.
impl Request {
    pub(crate) fn new(most_words: usize) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            state: zero(),
            stack: [zero(), zero()],
            answer: Answer {
                registers: std::array::from_fn(|_| zero()),
                words: std::iter::repeat_with(zero).take(most_words).collect(),
                nr_words: AtomicUsize::new(0),
            },
        }
    }

    /// The asker begins. `false`: somebody who was asked before is still writing.
    pub(crate) fn ask(&self, tid: u32, stack: Range<u64>) -> bool {
        // ORDERING: no pairing: only the thread that was asked changes it beside us, and as long as
        // it may we do not begin.
        if self.state.load(Ordering::Relaxed) & PHASE == WRITING {
            return false;
        }
        self.stack[0].store(stack.start, Ordering::Relaxed);
        self.stack[1].store(stack.end, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `claim`.
        self.state.store(u64::from(tid) << TID_SHIFT | ASKED, release("stack_ask"));
        true
    }

    /// By the thread. `Some(stack)`: it is asked, and may write until [`answer`](Self::answer).
    pub(crate) fn claim(&self, tid: u32) -> Option<Range<u64>> {
        let tid = u64::from(tid) << TID_SHIFT;
        // ORDERING: Acquire pairs with the Release in `ask`.
        let claimed = self.state.compare_exchange(
            tid | ASKED,
            tid | WRITING,
            acquire("stack_claim"),
            Ordering::Relaxed,
        );
        let [start, end] = &self.stack;
        claimed.ok().map(|_| start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed))
    }

    /// By the thread that has claimed: `words` are read from the stack, as many as there is room
    /// for.
    pub(crate) fn answer(&self, registers: [u64; 4], words: impl Iterator<Item = u64>) {
        for (to, register) in self.answer.registers.iter().zip(registers) {
            to.store(register, Ordering::Relaxed);
        }
        let mut nr_words = 0;
        for (to, word) in self.answer.words.iter().zip(words) {
            to.store(word, Ordering::Relaxed);
            nr_words += 1;
        }
        self.answer.nr_words.store(nr_words, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `has_answered`.
        self.state.store(DONE, release("stack_answer"));
    }

    /// Whether the thread has answered: the asker may read, and begin anew.
    pub(crate) fn has_answered(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `answer`.
        self.state.load(acquire("stack_answered")) == DONE
    }

    /// The asker is out of patience. `false`: the thread is writing at this moment, or has
    /// answered.
    pub(crate) fn withdraw(&self) -> bool {
        // ORDERING: no pairing: whoever finds it empty does nothing.
        let state = self.state.load(Ordering::Relaxed);
        state & PHASE == ASKED
            && self
                .state
                .compare_exchange(state, EMPTY, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Nobody is asked any more, and there is nobody who could answer.
    pub(crate) fn reset(&self) {
        self.state.store(EMPTY, Ordering::Relaxed);
    }

    /// To be called by the asker when the thread has answered.
    pub(crate) fn read(&self) -> &Answer {
        &self.answer
    }
}

impl Answer {
    pub(crate) fn registers(&self) -> [u64; 4] {
        std::array::from_fn(|n| self.registers[n].load(Ordering::Relaxed))
    }

    /// The word of the stack at `address`.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let sp = self.registers[1].load(Ordering::Relaxed);
        let index = usize::try_from(address.checked_sub(sp & !7)? / 8).ok()?;
        let is_there = index < self.nr_words.load(Ordering::Relaxed) && address.is_multiple_of(8);
        is_there.then(|| self.words[index].load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.load(Ordering::Relaxed);
        f.debug_struct("Request").field("state", &state).finish_non_exhaustive()
    }
}
