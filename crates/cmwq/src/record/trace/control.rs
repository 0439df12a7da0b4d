//! The switch: the control words of this process, and the file that others see them in.
//!
//! The words are a static, so that "is it on?" is one load from a place that is known when the
//! program is linked. When the runtime starts, the first page of a memfd is mapped over that
//! static: from then on whoever may open `/proc/PID/fd` switches tracing on and off by a store, and
//! finds the rings in the same file, also while the process stands still. Nothing listens, and
//! nothing has to be woken.
//!
//! The file cannot shrink or grow (seals), so nobody can take memory away from under the process. A
//! forked child puts memory of its own in place of the page before anything else, and makes a file
//! of its own when it uses the library.
//!
//! Why: docs/decisions/trace-switch.md

use crate::os::sync::plain::AtomicBool;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::layout::{self, Control, MAGIC, MAX_LEASE, MAX_RINGS, NAME, PAGE, RING_EVENTS};
use super::map::{Map, RingMap};
use super::stamp::{self, Source};
use crate::os::sense::{self, LastingFd};
use crate::os::sync::{AtomicU32, Ordering};

#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
struct Page {
    control: Control,
    _rest: [u8; PAGE - size_of::<Control>()],
}

// SAFETY: all zeroes is a value of atomics and numbers.
static PAGE_OF_CONTROL: Page = unsafe { std::mem::zeroed() };

/// The process itself reads: the mask needs no lease.
static IS_OWN_READER: AtomicBool = AtomicBool::new(false);
/// [`Source`] of the stamps. A copy that nobody else writes.
static CLOCK: AtomicU32 = AtomicU32::new(0);

// ORDERING (all accesses of the words and of the statics above, but for `nr_rings`): no pairing:
// switches and counters.

/// The control words.
#[inline(always)]
pub(super) fn control() -> &'static Control {
    &PAGE_OF_CONTROL.control
}

/// A stamp.
#[inline]
pub(super) fn now() -> u64 {
    source().now()
}

#[inline]
fn source() -> Source {
    match CLOCK.load(Ordering::Relaxed) {
        0 => Source::Monotonic,
        _ => Source::Counter,
    }
}

/// Whether what was switched on still is, at that time; if not, it is switched off.
#[inline]
pub(super) fn is_leased(stamp: u64) -> bool {
    let lease = control().lease.load(Ordering::Relaxed);
    lease.wrapping_sub(stamp) <= MAX_LEASE || is_kept_on()
}

#[cold]
fn is_kept_on() -> bool {
    let is_own = IS_OWN_READER.load(Ordering::Relaxed);
    if !is_own {
        control().mask.store(0, Ordering::Relaxed);
    }
    is_own
}

/// While the process reads its own trace.
pub(super) fn set_own_reader(is_own: bool) {
    IS_OWN_READER.store(is_own, Ordering::Relaxed);
}

/// The file behind the words.
#[derive(Debug)]
pub(super) struct TraceFile {
    fd: LastingFd<OwnedFd>,
    max_rings: u64,
}

impl TraceFile {
    /// Makes the file and puts it in place of the static page.
    ///
    /// # Errors
    /// If the system has no such files or pages are larger than expected.
    pub(super) fn open() -> io::Result<Self> {
        let at = &raw const PAGE_OF_CONTROL;
        // SAFETY: takes a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        if page > PAGE || !at.addr().is_multiple_of(page) {
            return Err(io::Error::other(format!("pages of {page} bytes")));
        }
        // SAFETY: a string that ends with a null.
        let fd = unsafe {
            libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else's.
        let file = sense::above_streams(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))?;
        // A file over the limit would not be an error but a signal.
        let limit = file_limit();
        let max_rings = MAX_RINGS.min(limit / layout::ring_bytes(PAGE, RING_EVENTS) as u64);
        let max_rings = max_rings.saturating_sub(1);
        let len = layout::ring_at(PAGE, RING_EVENTS, max_rings);
        if len > limit {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        file.set_len(len)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: an open file and a number.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let source = Source::choose();
        CLOCK.store(source as u32, Ordering::Relaxed);
        let first = Map::new(file.as_fd(), 0, PAGE)?;
        describe(first.control(), source, max_rings);
        drop(first);
        cover(file.as_raw_fd(), libc::MAP_SHARED)?;
        Ok(Self { fd: LastingFd::new(file.into()), max_rings })
    }

    /// Another handle, for a reader of this process.
    pub(super) fn reopen(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Maps a ring that nobody uses. `None`: there are no more, or the program has closed our file.
    pub(super) fn ring(&self, index: u64) -> Option<RingMap> {
        if index >= self.max_rings {
            return None;
        }
        if !self.fd.is_there() {
            return None;
        }
        let len = layout::ring_bytes(PAGE, RING_EVENTS);
        let at = layout::ring_at(PAGE, RING_EVENTS, index);
        let map = Map::new(self.fd.as_fd(), at, len).ok()?;
        Some(RingMap::new(map, PAGE, RING_EVENTS))
    }
}

/// How large a file may become.
fn file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

fn describe(control: &Control, source: Source, max_rings: u64) {
    control.pid.store(std::process::id(), Ordering::Relaxed);
    control.page.store(PAGE as u32, Ordering::Relaxed);
    control.ring_events.store(RING_EVENTS, Ordering::Relaxed);
    control.max_rings.store(max_rings, Ordering::Relaxed);
    control.clock.store(source as u32, Ordering::Relaxed);
    control.base_ticks.store(source.now(), Ordering::Relaxed);
    control.base_ns.store(stamp::monotonic(), Ordering::Relaxed);
    control.magic.store(MAGIC, Ordering::Relaxed);
}

/// Puts other memory in place of the static page: the file's first page, or fresh zeroes (`fd` -1).
fn cover(fd: i32, flags: i32) -> io::Result<()> {
    let at = (&raw const PAGE_OF_CONTROL).cast_mut().cast();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the static fills whole pages, and is only ever read and written by atomics, so that
    // its bytes may change at any time. In a file, they are control words as well.
    let covered = unsafe { libc::mmap(at, PAGE, protection, flags | libc::MAP_FIXED, fd, 0) };
    if covered == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The process is a child now: its switch is its own, and off.
pub(super) fn leave_behind() {
    if control().magic.load(Ordering::Relaxed) == MAGIC {
        // Without memory for a page there would be no child.
        let _ = cover(-1, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    }
    set_own_reader(false);
}
