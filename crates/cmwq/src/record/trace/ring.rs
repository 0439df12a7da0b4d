//! A ring of events: written by one thread, read by one reader, which may be another process.
//!
//! `head` and `tail` count events from the beginning of time. The writer publishes `head` and keeps
//! a copy of its own, which alone it believes; the reader publishes `tail`. A full ring takes
//! nothing more until the reader comes: the writer counts what it drops and never waits. What the
//! reader's process may do to `tail` costs events, never memory: any value that is not between the
//! ring's ends says "full".
//!
//! Loom model: `models::loom::trace`.
//!
//! Why: docs/decisions/trace-rings.md

use super::event::WORDS;
use crate::os::sync::{AtomicU64, Ordering, acquire, release};

/// Where a ring lies.
pub(crate) trait Memory {
    /// Counts events written. Written by the writer.
    fn head(&self) -> &AtomicU64;
    /// Counts events read. Written by the reader.
    fn tail(&self) -> &AtomicU64;
    /// Events that fit: a power of two.
    fn capacity(&self) -> u64;
    /// Stores an event in the place of number `at`. By the writer, outside of what is published.
    fn write(&self, at: u64, words: &[u64; WORDS]);
    /// Loads the event in the place of number `at`. By the reader, inside of what is published.
    fn read(&self, at: u64) -> [u64; WORDS];
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Writer<M> {
    memory: M,
    head: u64,
    /// What `tail` was when it was last looked at.
    tail: u64,
}

impl<M: Memory> Writer<M> {
    /// The only writer of an empty ring.
    pub(crate) fn new(memory: M) -> Self {
        Self { memory, head: 0, tail: 0 }
    }

    /// Whether there is room for `count` events.
    #[inline]
    pub(crate) fn has_room(&mut self, count: u64) -> bool {
        let most = self.memory.capacity() - count;
        if self.head.wrapping_sub(self.tail) <= most {
            return true;
        }
        // ORDERING: Acquire pairs with the Release in `Reader::read_some`: the reader has done with
        // what is overwritten.
        self.tail = self.memory.tail().load(acquire("ring_room"));
        self.head.wrapping_sub(self.tail) <= most
    }

    /// Adds an event, for which there must be room.
    #[inline]
    pub(crate) fn push(&mut self, words: &[u64; WORDS]) {
        self.memory.write(self.head, words);
        self.head = self.head.wrapping_add(1);
        // ORDERING: Release pairs with the Acquire in `Reader::read_some`.
        self.memory.head().store(self.head, release("ring_push"));
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}

/// The reader's end.
#[derive(Debug)]
pub(crate) struct Reader<M> {
    memory: M,
    tail: u64,
}

impl<M: Memory> Reader<M> {
    /// A reader that goes on where the last one ended.
    pub(crate) fn new(memory: M) -> Self {
        // ORDERING: no pairing: only readers write it, one at a time.
        let tail = memory.tail().load(Ordering::Relaxed);
        Self { memory, tail }
    }

    /// Gives up what is in the ring.
    pub(crate) fn skip_all(&mut self) {
        // ORDERING: no pairing: nothing is read.
        self.tail = self.memory.head().load(Ordering::Relaxed);
        // ORDERING: Release as in `read_some`, where the order of this thread's looks matters as
        // well.
        self.memory.tail().store(self.tail, release("ring_read"));
    }

    /// Takes at most `most` events out; `true`: there were more.
    pub(crate) fn read_some(&mut self, most: u64, mut take: impl FnMut(&[u64; WORDS])) -> bool {
        // ORDERING: Acquire pairs with the Release in `Writer::push`.
        let head = self.memory.head().load(acquire("ring_read"));
        let mut count = head.wrapping_sub(self.tail);
        if count > self.memory.capacity() {
            // No writer of ours does that.
            self.tail = head;
            count = 0;
        }
        let taken = count.min(most);
        for _ in 0..taken {
            take(&self.memory.read(self.tail));
            self.tail = self.tail.wrapping_add(1);
        }
        // ORDERING: Release pairs with the Acquire in `Writer::has_room`.
        self.memory.tail().store(self.tail, release("ring_read"));
        count > taken
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}
