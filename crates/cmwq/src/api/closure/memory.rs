//! Memory of closures, on its way back to those who queue.
//!
//! A closure is made by one thread and freed by another, over and over. Allocators are slow at
//! that: what a thread frees belongs to another's arena. Here a thread keeps what it frees, and
//! when it has two batches one goes to a depot, from which a thread that has none left takes it
//! whole. So both touch something common once in [`BATCH`] closures.
//!
//! The depot's lock is only tried: who does not get it, also in a child whose parent held it when
//! it forked, asks the allocator.
//!
//! Why: docs/decisions/memory-of-closures.md

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use crate::os::IS_MODEL;
use crate::os::sync::PlainMutex;

/// Memory of one size.
struct Class {
    /// What is kept has this layout: with the word that allocators note beside it, whole lines of
    /// the cache. Aligned to a line it would take one more of most allocators.
    layout: Layout,
    /// LIMIT: a megabyte at most stays in the depot.
    batches: usize,
}

/// For closures with a word of their own, and for all others that are kept. By size.
const CLASSES: [Class; 2] = [Class::of(56), Class::of(120)];
/// LIMIT: a thread keeps less than two batches of each class.
const BATCH: u32 = 32;
/// Of any class.
const MOST_BATCHES: usize = CLASSES[0].batches;

impl Class {
    const fn of(size: usize) -> Self {
        match Layout::from_size_align(size, 16) {
            Ok(layout) => Self { layout, batches: (1 << 20) / (BATCH as usize * (size + 8)) },
            Err(_) => unreachable!(),
        }
    }

    /// The number of the class that memory of this layout is kept in. Threads of a model share
    /// their thread-locals.
    #[inline]
    const fn index_of(layout: Layout) -> Option<usize> {
        if layout.align() > 16 || layout.size() == 0 || IS_MODEL {
            return None;
        }
        let mut index = 0;
        while index < CLASSES.len() {
            if layout.size() <= CLASSES[index].layout.size() {
                return Some(index);
            }
            index += 1;
        }
        None
    }
}

/// The first words of memory that is kept.
struct Free {
    next: *mut Free,
}

/// What a thread keeps of one class.
struct Kept {
    class: usize,
    first: Cell<*mut Free>,
    /// On the list that begins at `first`; less than a batch.
    count: Cell<u32>,
    /// A whole batch, or null.
    batch: Cell<*mut Free>,
    /// So many times more only the allocator is asked: the depot had nothing, and while a backlog
    /// grows it has nothing each time.
    skips: Cell<u32>,
}

struct Depot {
    batches: [*mut Free; MOST_BATCHES],
    count: usize,
}

// SAFETY: the batches are the depot's alone.
unsafe impl Send for Depot {}

std::thread_local! {
    static KEPT_HERE: [Kept; CLASSES.len()] = const { [Kept::new(0), Kept::new(1)] };
}

static DEPOTS: [PlainMutex<Depot>; CLASSES.len()] =
    [const { PlainMutex::new(Depot { batches: [ptr::null_mut(); MOST_BATCHES], count: 0 }) };
        CLASSES.len()];

/// Memory of this layout, or of more.
#[inline]
pub(super) fn take(layout: Layout) -> NonNull<u8> {
    let Some(class) = Class::index_of(layout) else { return allocate(layout) };
    let kept = KEPT_HERE.try_with(|kept| kept[class].pop()).unwrap_or(ptr::null_mut());
    NonNull::new(kept.cast()).unwrap_or_else(|| allocate(CLASSES[class].layout))
}

/// Gives back what [`take`] gave for this layout.
///
/// # Safety
/// It must be nobody else's any more.
#[inline]
pub(super) unsafe fn give(memory: NonNull<u8>, layout: Layout) {
    let Some(class) = Class::index_of(layout) else {
        // SAFETY: allocated with this layout, by `take`.
        return unsafe { alloc::dealloc(memory.as_ptr(), layout) };
    };
    let free = memory.as_ptr().cast::<Free>();
    // SAFETY: it is of this class, and the caller's.
    if KEPT_HERE.try_with(|kept| unsafe { kept[class].push(free) }).is_err() {
        // The thread is about to end.
        // SAFETY: allocated with this layout, by `take`.
        unsafe { alloc::dealloc(memory.as_ptr(), CLASSES[class].layout) };
    }
}

#[inline(never)]
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: closures contain an item, so the size is not zero.
    NonNull::new(unsafe { alloc::alloc(layout) })
        .unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

impl Kept {
    const fn new(class: usize) -> Self {
        let [first, batch] = [const { Cell::new(ptr::null_mut()) }; 2];
        Self { class, first, count: Cell::new(0), batch, skips: Cell::new(0) }
    }

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
            batch = self.take_batch();
        }
        if !batch.is_null() {
            // SAFETY: as in `pop`; a batch is not empty.
            self.first.set(unsafe { (*batch).next });
            self.count.set(BATCH - 1);
        }
        batch
    }

    fn take_batch(&self) -> *mut Free {
        if let Some(skips) = self.skips.get().checked_sub(1) {
            self.skips.set(skips);
            return ptr::null_mut();
        }
        let batch = Depot::take(self.class);
        if batch.is_null() {
            self.skips.set(BATCH - 1);
        }
        batch
    }

    /// # Safety
    /// `free` must be memory of this class that nobody else has.
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
        if !older.is_null() && !Depot::give(self.class, older) {
            free_all(self.class, older);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        free_all(self.class, self.first.get());
        free_all(self.class, self.batch.get());
    }
}

fn free_all(class: usize, mut first: *mut Free) {
    while !first.is_null() {
        // SAFETY: what is kept is ours, of this form, and was allocated with this layout.
        unsafe {
            let next = (*first).next;
            alloc::dealloc(first.cast(), CLASSES[class].layout);
            first = next;
        }
    }
}

impl Depot {
    /// A batch, or null.
    fn take(class: usize) -> *mut Free {
        let Ok(mut depot) = DEPOTS[class].try_lock() else { return ptr::null_mut() };
        if depot.count == 0 {
            return ptr::null_mut();
        }
        depot.count -= 1;
        depot.batches[depot.count]
    }

    /// `false`: it is full, or somebody else is there.
    fn give(class: usize, batch: *mut Free) -> bool {
        let Ok(mut depot) = DEPOTS[class].try_lock() else { return false };
        let at = depot.count;
        if at == CLASSES[class].batches {
            return false;
        }
        depot.batches[at] = batch;
        depot.count = at + 1;
        true
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const MANY: usize = if cfg!(miri) { 1_100 } else { 20_000 };

    /// A pointer, and no number, so that Miri sees whose memory it is.
    struct Taken(NonNull<u8>);

    // SAFETY: it belongs to whoever has this.
    unsafe impl Send for Taken {}

    /// Memory that is written all over, so that what is there twice is found.
    fn takes(count: usize, layout: Layout) -> Vec<Taken> {
        let take = |_| {
            let memory = take(layout);
            assert_eq!(memory.addr().get() % layout.align(), 0);
            // SAFETY: of this layout.
            unsafe { memory.write_bytes(0xa5, layout.size()) };
            Taken(memory)
        };
        (0..count).map(take).collect()
    }

    fn gives(all: Vec<Taken>, layout: Layout) {
        for Taken(memory) in all {
            // SAFETY: taken with this layout, by a test that does not use it any more.
            unsafe { give(memory, layout) };
        }
    }

    fn places(all: &[Taken]) -> impl Iterator<Item = usize> {
        all.iter().map(|taken| taken.0.addr().get())
    }

    fn of_size(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn each_size_has_the_smallest_class_that_is_large_enough() {
        let class = |size| Class::index_of(of_size(size)).map(|class| CLASSES[class].layout.size());
        assert_eq!([48, 56].map(class), [Some(56); 2]);
        assert_eq!([57, 64, 120].map(class), [Some(120); 3]);
        assert_eq!(class(121), None);
        for Class { layout, batches } in &CLASSES {
            assert!(batches * BATCH as usize * (layout.size() + 8) <= 1 << 20);
            assert!(*batches <= MOST_BATCHES);
        }
    }

    #[test]
    fn nothing_is_handed_out_twice() {
        for layout in [of_size(50), of_size(100)] {
            for count in [1, 31, 32, 33, 64, 65, 1000, MANY] {
                let all = takes(count, layout);
                assert_eq!(places(&all).collect::<HashSet<_>>().len(), count);
                gives(all, layout);
            }
        }
    }

    #[test]
    fn what_one_thread_frees_goes_back_to_another() {
        for Class { layout, .. } in CLASSES {
            let seen = seen_by_one_who_queues(layout);
            // Other tests may take some of the batches, and the depot's lock; without any of it
            // there would be as many times as many.
            assert!(seen < ROUNDS / 2 * EACH, "{seen} in {ROUNDS} times {EACH}");
        }
    }

    const ROUNDS: usize = if cfg!(miri) { 20 } else { 100 };
    const EACH: usize = 10 * BATCH as usize;

    /// So many different places one thread is given that takes for [`ROUNDS`] times, of what
    /// another one has freed.
    fn seen_by_one_who_queues(layout: Layout) -> usize {
        let (to_free, freed) = mpsc::channel::<Vec<Taken>>();
        let (to_queue, queued) = mpsc::channel();
        let freer = thread::spawn(move || {
            for all in freed {
                gives(all, layout);
                to_queue.send(()).unwrap();
            }
        });
        let mut seen = HashSet::new();
        for _ in 0..ROUNDS {
            let all = takes(EACH, layout);
            seen.extend(places(&all));
            to_free.send(all).unwrap();
            queued.recv().unwrap();
        }
        drop(to_free);
        freer.join().unwrap();
        seen.len()
    }

    #[test]
    fn what_is_too_large_is_the_allocators() {
        for layout in [Layout::new::<[u64; 17]>(), Layout::from_size_align(64, 128).unwrap()] {
            assert!(Class::index_of(layout).is_none());
            let all = takes(100, layout);
            gives(all, layout);
        }
    }
}
