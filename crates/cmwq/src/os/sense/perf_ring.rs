//! The mapped memory into which the kernel writes records.
//!
//! *Owns* the mapping: one control page and one page of records.
//!
//! *Does not* write to it: being mapped read-only is what keeps the kernel writing (see
//! [`perf`](super::perf)). Only relaxed loads of a machine word may read such memory atomically, so
//! it is the callers who add fences.
//!
//! *Invariants*
//! - `mapped`: `base` is readable for `len` bytes while the value lives, and the ring of
//!   `ring_size` bytes that starts `ring_offset` into it lies inside and is aligned to 8 bytes;
//!   `ring_size` is a power of two.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::perf_abi::{HEADER_SIZE, PAGE_DATA_HEAD, PAGE_DATA_OFFSET, PAGE_DATA_SIZE};

/// A ring of records, together with its control page.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    len: usize,
    ring_offset: usize,
    ring_size: u64,
}

// SAFETY: the mapping belongs to the process, not to a thread, and all access to it is by atomic
// loads.
unsafe impl Send for Ring {}
// SAFETY: as for `Send`; there is no way to write through a `&Ring`.
unsafe impl Sync for Ring {}

impl Ring {
    /// Maps the smallest ring there is for an event.
    pub(super) fn map(event: &OwnedFd) -> io::Result<Self> {
        let page_size = page_size();
        let len = 2 * page_size;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            let fd = event.as_raw_fd();
            libc::mmap(ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut ring = Self { base, len, ring_offset: page_size, ring_size: page_size as u64 };
        ring.adopt_layout()?;
        Ok(ring)
    }

    /// How many bytes the kernel has written so far.
    pub(super) fn head(&self) -> u64 {
        self.word(PAGE_DATA_HEAD)
    }

    /// The word that ends at `head`, which is at least 8.
    pub(super) fn word_before(&self, head: u64) -> u64 {
        let position = (head - HEADER_SIZE) & (self.ring_size - 1);
        self.word(self.ring_offset + position as usize)
    }

    /// Whether what stood before `head` cannot have been overwritten yet.
    pub(super) fn is_intact(&self, head: u64) -> bool {
        // The kernel writes a record before it moves the head, so the one that it may be writing
        // counts too.
        self.head().wrapping_sub(head) < self.ring_size - HEADER_SIZE
    }

    /// Takes over where the kernel says that the ring is, as long as that is inside of the mapping.
    fn adopt_layout(&mut self) -> io::Result<()> {
        let (offset, size) = (self.word(PAGE_DATA_OFFSET), self.word(PAGE_DATA_SIZE));
        let is_inside = offset.checked_add(size).is_some_and(|end| end <= self.len as u64);
        if !is_inside || !offset.is_multiple_of(8) || size < 64 || !size.is_power_of_two() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // INVARIANT(mapped): just checked.
        self.ring_offset = offset as usize;
        self.ring_size = size;
        Ok(())
    }

    fn word(&self, offset: usize) -> u64 {
        debug_assert!(offset.is_multiple_of(8) && offset + 8 <= self.len);
        // SAFETY: by the invariant `mapped` this is aligned, readable and never unmapped while
        // `self` is borrowed. The kernel writes it in whole words, and a relaxed load of that size
        // may read read-only memory.
        let word = unsafe { self.base.add(offset).cast::<AtomicU64>().as_ref() };
        // ORDERING: no pairing: the callers fence where they need an order.
        word.load(Ordering::Relaxed)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours (invariant `mapped`) and no reference into it outlives a
        // method call.
        let rc = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert_eq!(rc, 0, "the kernel gave us this mapping");
    }
}

fn page_size() -> usize {
    // SAFETY: asks for a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // LIMIT: 4096 is the smallest page there is; a mapping of another size would be refused, not
    // misread.
    usize::try_from(size).unwrap_or(4096)
}
