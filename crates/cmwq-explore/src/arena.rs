//! Snapshots of a world: its memory is copied away and back.
//!
//! A pool's lists are intrusive, so a state cannot be cloned: a copy would have other addresses.
//! But everything that a world allocates can be put into one block of memory, and that block's
//! bytes *are* the state: copied back to the same place, every address is right again. Nothing in
//! the core has to be written for this, and a wrong copy cannot be: it is always all of it.
//!
//! [`Arena::enter`] runs code whose allocations come from the block, one behind the other; freeing
//! does nothing. Whatever is to outlive the next [`restore`](Arena::restore) must be allocated
//! outside: so only making a world and applying an event run inside.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// LIMIT: a world with its history's garbage takes some tens of KiB.
const ARENA_BYTES: usize = 1 << 20;
/// LIMIT: searches at the same time in one process.
const ARENAS: usize = 64;
const ALIGN: usize = 4096;

/// Where the arenas are, once there is one; they stay for ever.
static BLOCK: AtomicUsize = AtomicUsize::new(0);
/// Which are in use, by bit.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Panics are caught and told with their history.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    /// Where this thread's allocations come from: the next free byte and the end, or nothing.
    static CURRENT: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The allocator of programs that search: the system's, except inside of [`Arena::enter`].
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn is_ours(at: *mut u8) -> bool {
    // ORDERING: no pairing: written before any pointer into the block is handed out.
    let block = BLOCK.load(Ordering::Relaxed);
    block != 0 && (at as usize).wrapping_sub(block) < ARENA_BYTES * ARENAS
}

// SAFETY: blocks of an arena are disjoint until it is reset or restored, which the user of `Arena`
// vouches for; everything else is the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (next, end) = CURRENT.get();
        if end == 0 {
            // SAFETY: passed on.
            return unsafe { System.alloc(layout) };
        }
        let at = next.next_multiple_of(layout.align());
        if at + layout.size() > end {
            return ptr::null_mut();
        }
        CURRENT.set((at + layout.size(), end));
        ptr::with_exposed_provenance_mut(at)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !is_ours(at) {
            // SAFETY: not from an arena, hence from the system.
            unsafe { System.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_ours(at) {
            // SAFETY: as above. It stays where it belongs, whoever makes it larger.
            return unsafe { System.realloc(at, layout, size) };
        }
        // SAFETY: the caller's layout, with another size.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both are valid for so many bytes, and disjoint.
            unsafe { ptr::copy_nonoverlapping(at, new, layout.size().min(size)) };
        }
        new
    }
}

/// One block of memory. See the module header.
pub(crate) struct Arena {
    index: usize,
    start: usize,
    used: usize,
}

/// What an arena held. Padding has no value, so neither have all of its bytes.
#[derive(Debug, Default)]
pub(crate) struct Snapshot(Vec<MaybeUninit<u8>>);

impl Arena {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let block = block();
        loop {
            // ORDERING: AcqRel pairs with itself and `drop`: one user after another.
            let taken = IN_USE.load(Ordering::Acquire);
            let index = taken.trailing_ones() as usize;
            assert!(index < ARENAS, "too many searches at the same time");
            let with = taken | 1 << index;
            if IN_USE.compare_exchange(taken, with, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Self { index, start: block + index * ARENA_BYTES, used: 0 };
            }
        }
    }

    /// Forgets what is in it.
    ///
    /// # Safety
    /// Nobody may use what was allocated in it any more.
    pub(crate) unsafe fn reset(&mut self) {
        self.used = 0;
    }

    /// Runs `what`, whose allocations come from this arena.
    pub(crate) fn enter<T>(&mut self, what: impl FnOnce() -> T) -> T {
        struct Leave<'a>(&'a mut Arena);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                let (next, _) = CURRENT.replace((0, 0));
                self.0.used = next - self.0.start;
            }
        }
        assert_eq!(CURRENT.get().1, 0, "an arena inside of another");
        CURRENT.set((self.start + self.used, self.start + ARENA_BYTES));
        let _leave = Leave(self);
        what()
    }

    /// Copies everything away.
    pub(crate) fn save(&self, into: &mut Snapshot) {
        into.0.clear();
        into.0.reserve(self.used);
        let start = ptr::with_exposed_provenance::<MaybeUninit<u8>>(self.start);
        // SAFETY: inside of the arena, which is this thread's, so nobody writes it meanwhile; there
        // is room for so many, and they may be uninitialised.
        unsafe {
            ptr::copy_nonoverlapping(start, into.0.as_mut_ptr(), self.used);
            into.0.set_len(self.used);
        }
    }

    /// Copies everything back.
    ///
    /// # Safety
    /// `from` must have been saved from this arena, and nobody may use what was allocated since.
    pub(crate) unsafe fn restore(&mut self, from: &Snapshot) {
        let start = ptr::with_exposed_provenance_mut::<MaybeUninit<u8>>(self.start);
        // SAFETY: inside of the arena, which is this thread's; the caller vouches for the rest.
        unsafe { ptr::copy_nonoverlapping(from.0.as_ptr(), start, from.0.len()) };
        self.used = from.0.len();
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // ORDERING: Release pairs with the Acquire in `new`.
        IN_USE.fetch_and(!(1 << self.index), Ordering::Release);
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena").field("used", &self.used).finish_non_exhaustive()
    }
}

/// Catches panics of `what`, of which nothing is printed: inside of an arena the usual hook would
/// leave memory of its own there. The message is what comes of it.
pub(crate) fn caught<T>(what: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    let before = IS_QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(what));
    IS_QUIET.set(before);
    result
}

fn be_quiet_inside() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !IS_QUIET.get() {
            usual(panic);
        }
    }));
}

fn block() -> usize {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        be_quiet_inside();
        let layout = Layout::from_size_align(ARENA_BYTES * ARENAS, ALIGN).expect("a valid layout");
        // SAFETY: not of size zero. Zeroed by the system page by page, when it is used.
        let at = unsafe { System.alloc_zeroed(layout) };
        assert!(!at.is_null(), "no memory for arenas");
        // ORDERING: no pairing: `Once` orders it before whoever gets a pointer into it.
        BLOCK.store(at.expose_provenance(), Ordering::Relaxed);
    });
    // ORDERING: as above.
    BLOCK.load(Ordering::Relaxed)
}
