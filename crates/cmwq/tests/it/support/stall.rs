//! An allocator that can stop a thread in the midst of its beginning, with whatever Rust's library
//! holds then.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;

use super::{procfs, sys};

#[global_allocator]
static ALLOCATOR: Stalling = Stalling;

struct Stalling;

/// Threads with higher ids are stopped; 0: nobody is.
static ABOVE: AtomicI32 = AtomicI32::new(0);
/// Of this process, and not of a child.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Allocations before the one that stops it.
static SKIPPED: AtomicU32 = AtomicU32::new(0);
static IS_STALLED: AtomicU32 = AtomicU32::new(0);

// SAFETY: the system's.
unsafe impl GlobalAlloc for Stalling {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ABOVE.load(Ordering::SeqCst) != 0 {
            stall();
        }
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn is_subject() -> bool {
    let above = ABOVE.load(Ordering::SeqCst);
    above != 0 && sys::gettid() > above && process::id() == PROCESS.load(Ordering::SeqCst)
}

#[cold]
fn stall() {
    if !is_subject() {
        return;
    }
    let left = SKIPPED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    if left.is_err() {
        IS_STALLED.store(1, Ordering::SeqCst);
        while is_subject() {
            thread::yield_now();
        }
    }
}

/// Nobody is stopped any more.
pub(crate) fn release() {
    ABOVE.store(0, Ordering::SeqCst);
}

/// Starts a thread, stops it at its allocation number `nth`, counted from 0, and does `part`
/// meanwhile. `false`: it begins with fewer allocations.
pub(crate) fn beginner(nth: u32, part: impl FnOnce()) -> bool {
    let others = procfs::other_tasks().into_iter().map(|task| task.tid);
    let newest = others.chain([sys::gettid()]).max().unwrap();
    PROCESS.store(process::id(), Ordering::SeqCst);
    SKIPPED.store(nth, Ordering::SeqCst);
    IS_STALLED.store(0, Ordering::SeqCst);
    ABOVE.store(newest, Ordering::SeqCst);
    // It has begun when it comes here; what it allocates afterwards is not its beginning.
    let beginner = thread::spawn(release);
    while IS_STALLED.load(Ordering::SeqCst) == 0 && ABOVE.load(Ordering::SeqCst) != 0 {
        thread::yield_now();
    }
    let is_stalled = IS_STALLED.load(Ordering::SeqCst) != 0;
    if is_stalled {
        part();
    }
    release();
    beginner.join().unwrap();
    is_stalled
}
