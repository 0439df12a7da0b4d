//! Flush colours: how `flush_workqueue` waits for everything queued before it and for nothing else.
//!
//! Owns [`FlushState`], which the kernel keeps under `wq->mutex` (WQ). Items carry the queue's
//! *work colour*. A flush advances that colour, so that later items have another one, and waits
//! until no pwq has items of the old colour in flight. Colours are a ring of sixteen, one of which
//! is always free: fifteen flushes can be outstanding, further ones wait in `overflow` until the
//! first finishes.
//!
//! One flusher is *first*: it alone waits for pwqs. The others wait in `queue` until the first
//! hands over. The first flusher, when woken, runs [`FlushState::cascade`].

use alloc::collections::VecDeque;

use crate::consts::WORK_NR_COLORS;

mod pwqs;

pub use pwqs::{PwqsToFlush, prep_pwqs};

/// The colour after `color`.
#[must_use]
pub const fn next_color(color: u8) -> u8 {
    (color + 1) % WORK_NR_COLORS
}

/// Arms the pwqs: `(flush, work_color)`. With `flush`, every pwq that has items of that colour in
/// flight will report when it has none; with `work_color`, all pwqs take that colour for what is
/// queued from now on. Returns whether any pwq will report.
pub type Prep<'a> = &'a mut dyn FnMut(Option<u8>, Option<u8>) -> bool;

/// What a flusher has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing was in flight.
    Done,
    /// Wait to be completed; then, and only then, ask [`FlushState::is_first`] and cascade.
    Wait,
}

/// A set of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colors(u16);

const _: () = assert!(WORK_NR_COLORS as u32 == u16::BITS, "one bit for each colour");

impl Colors {
    /// All of them.
    pub const ALL: Self = Self(u16::MAX);
    /// None of them.
    pub const NONE: Self = Self(0);

    /// From one colour of the ring to another, both included.
    #[must_use]
    pub fn from_to(first: u8, last: u8) -> Self {
        let mut set = 1 << last;
        let mut color = first;
        while color != last {
            set |= 1 << color;
            color = next_color(color);
        }
        Self(set)
    }

    /// Whether this colour is one of them.
    #[must_use]
    pub const fn has(self, color: u8) -> bool {
        self.0 >> color & 1 == 1
    }
}

/// The flush state of one workqueue. `F` names a waiting flusher. Lock: WQ.
#[derive(Debug)]
pub struct FlushState<F> {
    work_color: u8,
    flush_color: u8,
    first: Option<F>,
    queue: VecDeque<(F, u8)>,
    overflow: VecDeque<F>,
}

impl<F: Copy + PartialEq> Default for FlushState<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Copy + PartialEq> FlushState<F> {
    /// Nothing was ever flushed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            work_color: 0,
            flush_color: 0,
            first: None,
            queue: VecDeque::new(),
            overflow: VecDeque::new(),
        }
    }

    /// The colour of what is queued now; a new pwq starts with it.
    #[must_use]
    pub const fn work_color(&self) -> u8 {
        self.work_color
    }

    /// Starts a flush. KERNEL: `__flush_workqueue` up to the wait — same.
    pub fn start(&mut self, me: F, prep: Prep<'_>) -> Start {
        let next = next_color(self.work_color);
        if next == self.flush_color {
            self.overflow.push_back(me);
            return Start::Wait;
        }
        let mine = self.work_color;
        self.work_color = next;
        if self.first.is_some() {
            self.queue.push_back((me, mine));
            prep(None, Some(self.work_color));
            return Start::Wait;
        }
        debug_assert_eq!(self.flush_color, mine, "no first flusher, so nothing is outstanding");
        self.first = Some(me);
        if prep(Some(self.flush_color), Some(self.work_color)) {
            return Start::Wait;
        }
        self.flush_color = next;
        self.first = None;
        Start::Done
    }

    /// Whether the woken flusher is the one that must [`cascade`](Self::cascade).
    #[must_use]
    pub fn is_first(&self, me: F) -> bool {
        self.first == Some(me)
    }

    /// The flusher that the pwqs report to.
    #[must_use]
    pub const fn first(&self) -> Option<F> {
        self.first
    }

    /// The colours of the items that a flusher waits for; of those in flight, no younger one has
    /// any of these. Without a colour yet, it waits for all. None, if it has been completed.
    ///
    /// KERNEL: none.
    #[must_use]
    pub fn awaited(&self, me: F) -> Colors {
        if self.overflow.contains(&me) {
            return Colors::ALL;
        }
        let behind = self.queue.iter().find(|(flusher, _)| *flusher == me);
        let first = self.first.filter(|first| *first == me).map(|_| self.flush_color);
        let mine = first.or(behind.map(|(_, color)| *color));
        mine.map_or(Colors::NONE, |mine| Colors::from_to(self.flush_color, mine))
    }

    /// The first flusher's colour is empty: complete those that waited for it too, admit the
    /// overflow, and make the next flusher first. `complete` is called for each flusher that may
    /// return.
    ///
    /// KERNEL: `__flush_workqueue` after the wait — same.
    pub fn cascade(&mut self, prep: Prep<'_>, mut complete: impl FnMut(F)) {
        self.first = None;
        loop {
            while let Some(&(flusher, _)) =
                self.queue.front().filter(|&&(_, color)| color == self.flush_color)
            {
                self.queue.pop_front();
                complete(flusher);
            }
            debug_assert!(!self.overflow.is_empty() || self.flush_color != self.work_color);
            self.flush_color = next_color(self.flush_color);
            if !self.overflow.is_empty() {
                let color = self.work_color;
                self.queue.extend(self.overflow.drain(..).map(|flusher| (flusher, color)));
                self.work_color = next_color(color);
                prep(None, Some(self.work_color));
            }
            let Some((next, color)) = self.queue.pop_front() else {
                debug_assert_eq!(self.flush_color, self.work_color);
                return;
            };
            debug_assert_eq!(color, self.flush_color, "a flush colour was skipped");
            self.first = Some(next);
            if prep(Some(self.flush_color), None) {
                return;
            }
            // That colour is empty already: neither this flusher nor others of the same colour need
            // to wait.
            self.first = None;
            complete(next);
        }
    }
}
