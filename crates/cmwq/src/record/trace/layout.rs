//! How the memfd `cmwq-trace` is laid out: a page of control words, then rings.
//!
//! The control words that readers write are the mask, the lease, the session and the owner; the
//! process relies on none of them, and keeps copies of its own of all the others. Everything is an
//! atomic, because every access is one to memory that others map as well.

use std::ffi::CStr;

use crate::os::sync::{AtomicU32, AtomicU64};

/// The name that tools look for.
pub(super) const NAME: &CStr = c"cmwq-trace";
/// "cmwqtrc" and the version of the layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"cmwqtrc\x02");
/// The control words have this much for themselves: the largest page there is.
#[cfg(target_arch = "x86_64")]
pub(super) const PAGE: usize = 4 << 10;
/// See there.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const PAGE: usize = 64 << 10;
/// Events of a ring: 3 MiB, of which memory is what was written.
pub(super) const RING_EVENTS: u64 = 1 << 16;
/// LIMIT: rings. Events of further threads are dropped, and counted.
pub(super) const MAX_RINGS: u64 = 1024;
/// No lease is believed that is longer, in ticks: 16 s at 4 GHz, 46 minutes at 25 MHz.
pub(super) const MAX_LEASE: u64 = 1 << 36;

/// The control words.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Control {
    // Readers write these.
    /// Kinds of events that are traced. 0: off.
    pub(crate) mask: AtomicU32,
    /// Counts readers that came. Never 0 while the mask is not.
    pub(crate) session: AtomicU32,
    /// The stamp at which the mask loses its force.
    pub(crate) lease: AtomicU64,
    /// The process that reads, or 0.
    pub(crate) owner: AtomicU32,
    _pad: [u32; 11],
    // The process writes these, most of them once.
    pub(crate) magic: AtomicU64,
    pub(crate) pid: AtomicU32,
    pub(crate) page: AtomicU32,
    pub(crate) ring_events: AtomicU64,
    pub(crate) max_rings: AtomicU64,
    pub(crate) nr_rings: AtomicU64,
    pub(crate) clock: AtomicU32,
    _pad2: u32,
    /// A time by both clocks: ticks and nanoseconds.
    pub(crate) base_ticks: AtomicU64,
    pub(crate) base_ns: AtomicU64,
    /// Events of threads that have no ring.
    pub(crate) lost: AtomicU64,
}

/// Where a ring begins.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RingHead {
    /// The process writes these.
    pub(crate) head: AtomicU64,
    /// Events that found the ring full.
    pub(crate) dropped: AtomicU64,
    _pad: [u64; 6],
    /// The reader writes this.
    pub(crate) tail: AtomicU64,
}

/// Bytes of a ring.
pub(super) const fn ring_bytes(page: usize, events: u64) -> usize {
    let bytes = events as usize * super::event::WORDS * 8;
    page + bytes.next_multiple_of(page)
}

/// Where a ring lies.
pub(super) const fn ring_at(page: usize, events: u64, index: u64) -> u64 {
    page as u64 + index * ring_bytes(page, events) as u64
}
