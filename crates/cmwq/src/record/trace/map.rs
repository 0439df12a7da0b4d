//! Memory that is shared with other processes: mappings of the memfd.

use std::io;
use std::mem::{align_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use super::event::WORDS;
use super::layout::{Control, RingHead};
use super::ring::Memory;
use crate::os::sync::{AtomicU64, Ordering};

/// PERF: so many records ahead a place is asked for. By then it is in the cache of whoever read it
/// last, or in none: an item with its four events takes 10 ns more without it, see
/// docs/decisions/trace-stamps.md. 8, 24 and 64 are as good.
const AHEAD: usize = 10;

/// A shared mapping of a part of a file, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Map {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory; what is read and written there is atomic.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps `len` bytes of the file from `offset` on, which the file must have and keep.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever there is room.
        let at = unsafe {
            libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self { at, len })
    }

    /// Its beginning as a `T`, which must consist of atomics only.
    fn head<T>(&self) -> &T {
        assert!(size_of::<T>() <= self.len && align_of::<T>() <= 64);
        // SAFETY: mapped, aligned to a page, large enough; any bytes are a value of an atomic.
        unsafe { self.at.cast().as_ref() }
    }

    pub(crate) fn control(&self) -> &Control {
        self.head()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; borrows of it have ended.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// A ring.
#[derive(Debug)]
pub(crate) struct RingMap {
    map: Map,
    /// Bytes before the first event.
    page: usize,
    events: u64,
}

impl RingMap {
    /// A ring of `events`, a power of two, that fills `map` from `page` on.
    pub(crate) fn new(map: Map, page: usize, events: u64) -> Self {
        assert!(
            events.is_power_of_two() && page >= size_of::<RingHead>() && page.is_multiple_of(64)
        );
        assert!(map.len >= super::layout::ring_bytes(page, events));
        Self { map, page, events }
    }

    #[inline]
    pub(crate) fn ring(&self) -> &RingHead {
        self.map.head()
    }

    #[inline]
    fn words(&self, at: u64) -> &[AtomicU64; WORDS] {
        let offset = self.page + (at & (self.events - 1)) as usize * size_of::<[u64; WORDS]>();
        // SAFETY: inside of the mapping: see `new`.
        unsafe { self.map.at.add(offset).cast().as_ref() }
    }
}

impl Memory for RingMap {
    #[inline]
    fn head(&self) -> &AtomicU64 {
        &self.ring().head
    }

    fn tail(&self) -> &AtomicU64 {
        &self.ring().tail
    }

    fn capacity(&self) -> u64 {
        self.events
    }

    // ORDERING (both): no pairing of their own: see `ring`.

    #[inline]
    fn write(&self, at: u64, words: &[u64; WORDS]) {
        let places = self.words(at);
        ask_for_what_follows(places);
        for (place, word) in places.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
    }

    #[inline]
    fn read(&self, at: u64) -> [u64; WORDS] {
        let places = self.words(at);
        std::array::from_fn(|index| places[index].load(Ordering::Relaxed))
    }
}

/// Whoever writes there is going to write beyond it. A hint: where there is no memory, be it the
/// ring's or anybody's, there is none after.
#[inline(always)]
fn ask_for_what_follows(place: &[AtomicU64; WORDS]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(ptr::from_ref(place).wrapping_add(AHEAD).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (place, AHEAD);
}
