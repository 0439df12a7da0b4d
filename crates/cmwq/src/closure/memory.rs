//! Memory of closures, on its way back to those who queue.
//!
//! A closure is made by one thread and freed by another, over and over. Allocators are slow at that: what a thread frees belongs to
//! another's arena. Here a thread keeps what it frees, and when it has two batches one goes to a depot, from which a thread that has none
//! left takes it whole. So both touch something common once in [`BATCH`] closures.
//!
//! The depot's lock is only tried: who does not get it, also in a child whose parent held it when it forked, asks the
//! allocator.

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::sync::PlainMutex;

/// What is kept has this layout: with what allocators note beside it, two lines of the cache. Aligned to a line it
/// would take one more of most allocators.
const KEPT: Layout = match Layout::from_size_align(120, 16) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};
/// LIMIT: a thread keeps less than two batches.
const BATCH: u32 = 32;
/// LIMIT: a megabyte at most stays in the depot.
const BATCHES: usize = 256;

/// The first words of memory that is kept.
struct Free {
    next: *mut Free,
}

/// What a thread keeps.
struct Kept {
    first: Cell<*mut Free>,
    /// On the list that begins at `first`; less than a batch.
    count: Cell<u32>,
    /// A whole batch, or null.
    batch: Cell<*mut Free>,
}

struct Depot {
    batches: [*mut Free; BATCHES],
    count: usize,
}

// SAFETY: the batches are the depot's alone.
unsafe impl Send for Depot {}

std::thread_local! {
    static KEPT_HERE: Kept = const {
        Kept { first: Cell::new(ptr::null_mut()), count: Cell::new(0), batch: Cell::new(ptr::null_mut()) }
    };
}

static DEPOT: PlainMutex<Depot> =
    PlainMutex::new(Depot { batches: [ptr::null_mut(); BATCHES], count: 0 });

/// Whether memory of this layout is kept. Threads of a model share their thread-locals.
const fn is_kept(layout: Layout) -> bool {
    layout.size() <= KEPT.size()
        && layout.align() <= KEPT.align()
        && layout.size() != 0
        && cfg!(not(any(loom, shuttle)))
}

/// Memory of this layout, or of more.
#[inline]
pub(super) fn take(layout: Layout) -> NonNull<u8> {
    if !is_kept(layout) {
        return allocate(layout);
    }
    let kept = KEPT_HERE.try_with(Kept::pop).unwrap_or(ptr::null_mut());
    NonNull::new(kept.cast()).unwrap_or_else(|| allocate(KEPT))
}

/// Gives back what [`take`] gave for this layout.
///
/// # Safety
/// It must be nobody else's any more.
#[inline]
pub(super) unsafe fn give(memory: NonNull<u8>, layout: Layout) {
    if !is_kept(layout) {
        // SAFETY: allocated with this layout, by `take`.
        return unsafe { alloc::dealloc(memory.as_ptr(), layout) };
    }
    let free = memory.as_ptr().cast::<Free>();
    // SAFETY: it is large enough, aligned, and the caller's.
    if KEPT_HERE.try_with(|kept| unsafe { kept.push(free) }).is_err() {
        // The thread is about to end.
        // SAFETY: allocated with this layout, by `take`.
        unsafe { alloc::dealloc(memory.as_ptr(), KEPT) };
    }
}

#[inline(never)]
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: closures contain an item, so the size is not zero.
    NonNull::new(unsafe { alloc::alloc(layout) })
        .unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

impl Kept {
    /// Null: nothing is kept.
    #[inline]
    fn pop(&self) -> *mut Free {
        let first = self.first.get();
        if first.is_null() {
            return self.pop_of_next_batch();
        }
        // SAFETY: what is kept is ours, and of this form.
        self.first.set(unsafe { (*first).next });
        self.count.set(self.count.get() - 1);
        first
    }

    #[inline(never)]
    fn pop_of_next_batch(&self) -> *mut Free {
        let mut batch = self.batch.replace(ptr::null_mut());
        if batch.is_null() {
            batch = Depot::take();
        }
        if !batch.is_null() {
            // SAFETY: as in `pop`; a batch is not empty.
            self.first.set(unsafe { (*batch).next });
            self.count.set(BATCH - 1);
        }
        batch
    }

    /// # Safety
    /// `free` must be memory of the layout [`KEPT`] that nobody else has.
    #[inline]
    unsafe fn push(&self, free: *mut Free) {
        // SAFETY: the caller's promise.
        unsafe { free.write(Free { next: self.first.get() }) };
        self.first.set(free);
        self.count.set(self.count.get() + 1);
        if self.count.get() == BATCH {
            self.put_batch_aside();
        }
    }

    #[inline(never)]
    fn put_batch_aside(&self) {
        self.count.set(0);
        let older = self.batch.replace(self.first.replace(ptr::null_mut()));
        if !older.is_null() && !Depot::give(older) {
            free_all(older);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        free_all(self.first.get());
        free_all(self.batch.get());
    }
}

fn free_all(mut first: *mut Free) {
    while !first.is_null() {
        // SAFETY: what is kept is ours, of this form, and was allocated with this layout.
        unsafe {
            let next = (*first).next;
            alloc::dealloc(first.cast(), KEPT);
            first = next;
        }
    }
}

impl Depot {
    /// A batch, or null.
    fn take() -> *mut Free {
        let Ok(mut depot) = DEPOT.try_lock() else { return ptr::null_mut() };
        if depot.count == 0 {
            return ptr::null_mut();
        }
        depot.count -= 1;
        depot.batches[depot.count]
    }

    /// `false`: it is full, or somebody else is there.
    fn give(batch: *mut Free) -> bool {
        let Ok(mut depot) = DEPOT.try_lock() else { return false };
        let at = depot.count;
        let Some(place) = depot.batches.get_mut(at) else { return false };
        *place = batch;
        depot.count += 1;
        true
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Memory that is written all over, so that what is there twice is found.
    fn takes(count: usize, layout: Layout) -> Vec<usize> {
        let take = |_| {
            let memory = take(layout);
            assert_eq!(memory.addr().get() % layout.align(), 0);
            // SAFETY: of this layout.
            unsafe { memory.write_bytes(0xa5, layout.size()) };
            memory.as_ptr().expose_provenance()
        };
        (0..count).map(take).collect()
    }

    fn gives(all: Vec<usize>, layout: Layout) {
        for at in all {
            let memory = NonNull::new(ptr::with_exposed_provenance_mut(at)).unwrap();
            // SAFETY: taken with this layout, by a test that does not use it any more.
            unsafe { give(memory, layout) };
        }
    }

    #[test]
    fn nothing_is_handed_out_twice() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        for count in [1, 31, 32, 33, 64, 65, 1000, 20_000] {
            let all = takes(count, layout);
            assert_eq!(all.iter().collect::<HashSet<_>>().len(), count);
            gives(all, layout);
        }
    }

    #[test]
    fn what_one_thread_frees_goes_back_to_another() {
        let layout = KEPT;
        let (to_free, freed) = mpsc::channel::<Vec<usize>>();
        let (to_queue, queued) = mpsc::channel();
        let freer = thread::spawn(move || {
            for all in freed {
                gives(all, layout);
                to_queue.send(()).unwrap();
            }
        });
        let count = 10 * BATCH as usize;
        let mut seen = HashSet::new();
        for _ in 0..100 {
            let all = takes(count, layout);
            seen.extend(all.iter().copied());
            to_free.send(all).unwrap();
            queued.recv().unwrap();
        }
        drop(to_free);
        freer.join().unwrap();
        // Other tests may take some of the batches, and the depot's lock; without any of it there would be 100 times as many.
        assert!(seen.len() < 50 * count, "{} of {count} for each round", seen.len());
    }

    #[test]
    fn what_is_too_large_is_the_allocators() {
        for layout in [Layout::new::<[u64; 17]>(), Layout::from_size_align(64, 128).unwrap()] {
            assert!(!is_kept(layout));
            let all = takes(100, layout);
            gives(all, layout);
        }
    }
}
