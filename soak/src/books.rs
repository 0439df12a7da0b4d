//! The books of closures: each that was accepted runs once or is refused, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happened to the closures of a queue.
#[derive(Debug, Default)]
pub(crate) struct Books {
    queued: AtomicU64,
    /// Their functions have been left, by return or panic.
    ran: AtomicU64,
    /// Dropped without having been entered.
    refused: AtomicU64,
}

impl Books {
    pub(crate) fn queued(&self) -> u64 {
        self.queued.load(Ordering::SeqCst)
    }

    pub(crate) fn ran(&self) -> u64 {
        self.ran.load(Ordering::SeqCst)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// How many are still to come or running. Read the ends first: they only grow.
    pub(crate) fn outstanding(&self) -> u64 {
        let ended = self.ran() + self.refused();
        self.queued() - ended
    }
}

/// What each closure owns; it is dropped with it.
#[derive(Debug)]
pub(crate) struct Ticket {
    books: Arc<Books>,
    was_entered: bool,
}

impl Ticket {
    pub(crate) fn of(books: &Arc<Books>) -> Self {
        books.queued.fetch_add(1, Ordering::SeqCst);
        Self { books: Arc::clone(books), was_entered: false }
    }

    pub(crate) fn enter(&mut self) {
        self.was_entered = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let books = &self.books;
        let count = if self.was_entered { &books.ran } else { &books.refused };
        count.fetch_add(1, Ordering::SeqCst);
    }
}
