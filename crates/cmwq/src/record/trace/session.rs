//! Reading a process's trace: what `cmwq trace` does from outside and `CMWQ_TRACE` from inside.
//!
//! A reader takes the file over with its process id, says what it wants, and comes back at short
//! intervals to empty the rings and to renew its lease. If it dies, the lease ends, and with it the
//! tracing. Nothing that it finds in the file is taken for granted: what is not as this version
//! writes it is refused or passed over.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use super::event;
use super::layout::{self, Control, MAGIC, MAX_LEASE, MAX_RINGS, PAGE};
use super::map::{Map, RingMap};
use super::ring::Reader;
use super::stamp::{self, Source};
use crate::os::sense::LastingFd;
use crate::os::sync::Ordering;

/// How long tracing goes on without a reader.
const LEASE: Duration = Duration::from_secs(3);
/// The rate of the ticks is measured over this at least.
const BASELINE_NS: u64 = 5_000_000;
/// Events that are taken out of a ring before another one has its turn.
const BATCH: u64 = 1 << 14;

/// A time by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Stamps count these.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`.
    pub ns: u64,
}

/// What a [`Session::round`] found, besides events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// When it began: events with older stamps that come later are rare.
    pub begin: Tick,
    /// Events lost since the session began, because a ring was full or there was none.
    pub lost: u64,
    /// Records that were found; some tell of two events.
    pub events: u64,
    /// Rings that were at least half full.
    pub is_pressed: bool,
    /// The reader came too late: tracing had ended by itself, and goes on from here. What happened
    /// in between was not counted.
    pub has_lapsed: bool,
}

/// A reader's hold of a process's trace.
#[derive(Debug)]
pub struct Session {
    fd: LastingFd<OwnedFd>,
    map: Map,
    page: usize,
    ring_events: u64,
    max_rings: u64,
    source: Source,
    lease_ticks: u64,
    /// What it wants: nothing before it begins, and after it stopped.
    mask: u32,
    readers: Vec<Reader<RingMap>>,
    /// What had been lost before, of each ring and without one.
    lost_before: Vec<u64>,
    lost_without_ring: u64,
    is_begun: bool,
    owner: u32,
}

fn refuse(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

impl Session {
    /// Looks at the file of a process: `/proc/PID/fd/N`, opened for reading and writing.
    ///
    /// # Errors
    /// If it is not what this version of cmwq makes.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        if crate::os::foreign::seals_of(&fd) & libc::F_SEAL_SHRINK == 0 {
            return Err(refuse("it is not sealed, so it is not cmwq's"));
        }
        let file = File::from(fd);
        let len = file.metadata()?.len();
        if len < PAGE as u64 {
            return Err(refuse(format!("it has {len} bytes, fewer than the control words")));
        }
        let map = Map::new(file.as_fd(), 0, PAGE)?;
        let control = map.control();
        let magic = control.magic.load(Ordering::Relaxed);
        if magic != MAGIC {
            let text = "the process has another version of cmwq, or the file is not cmwq's";
            return Err(refuse(format!("{text} (it says {magic:#x}, not {MAGIC:#x})")));
        }
        let page = control.page.load(Ordering::Relaxed) as usize;
        let ring_events = control.ring_events.load(Ordering::Relaxed);
        let max_rings = control.max_rings.load(Ordering::Relaxed);
        let is_sound = page == PAGE
            && ring_events.is_power_of_two()
            && ring_events <= 1 << 24
            && max_rings <= MAX_RINGS
            && layout::ring_at(page, ring_events, max_rings) <= len;
        let source = Source::of(control.clock.load(Ordering::Relaxed));
        let (Some(source), true) = (source, is_sound) else {
            return Err(refuse("its control words contradict each other"));
        };
        Ok(Self {
            fd: LastingFd::new(file.into()),
            map,
            page,
            ring_events,
            max_rings,
            source,
            lease_ticks: 0,
            mask: 0,
            readers: Vec::new(),
            lost_before: Vec::new(),
            lost_without_ring: 0,
            is_begun: false,
            owner: std::process::id(),
        })
    }

    fn control(&self) -> &Control {
        self.map.control()
    }

    /// The process, as it calls itself: in another PID namespace it has another number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.control().pid.load(Ordering::Relaxed)
    }

    /// The time, by both clocks.
    #[must_use]
    pub fn now(&self) -> Tick {
        Tick { ticks: self.source.now(), ns: stamp::monotonic() }
    }

    /// Switches the kinds of events in `mask` on.
    ///
    /// # Errors
    /// If somebody else reads.
    pub fn begin(&mut self, mask: u32) -> io::Result<()> {
        self.lease_ticks = self.measure_lease();
        let control = self.map.control();
        let owner = control.owner.load(Ordering::Relaxed);
        let left = control.lease.load(Ordering::Relaxed).wrapping_sub(self.source.now());
        if owner != 0 && left <= MAX_LEASE {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("process {owner} is tracing it already"),
            ));
        }
        let taken =
            control.owner.compare_exchange(owner, self.owner, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_err() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another tool came first"));
        }
        self.is_begun = true;
        self.find_rings()?;
        self.readers.iter_mut().for_each(Reader::skip_all);
        self.lost_before = self.readers.iter().map(dropped).collect();
        let control = self.map.control();
        self.lost_without_ring = control.lost.load(Ordering::Relaxed);
        let session = control.session.load(Ordering::Relaxed).wrapping_add(1).max(1);
        control.session.store(session, Ordering::Relaxed);
        self.renew();
        // ORDERING (all of the control words): no pairing: switches, and each thread goes by what
        // it sees.
        self.mask = mask & event::ALL;
        self.control().mask.store(self.mask, Ordering::Relaxed);
        Ok(())
    }

    /// Whether this session has begun, and nobody has taken over, as others may once the lease has
    /// ended: a reader may be stopped, or get no CPU. What others have begun is left alone.
    fn is_owner(&self) -> bool {
        self.is_begun && self.control().owner.load(Ordering::Relaxed) == self.owner
    }

    /// Switches on again what was switched off because the lease had ended.
    fn resume(&self) -> bool {
        let mask = &self.control().mask;
        let has_lapsed = self.mask != 0 && mask.load(Ordering::Relaxed) == 0;
        if has_lapsed {
            mask.store(self.mask, Ordering::Relaxed);
        }
        has_lapsed
    }

    /// Ticks that a lease lasts. By what the counter does now: what it was when the process began
    /// may be no number of these ticks, since some machines begin to count anew when they wake up.
    fn measure_lease(&self) -> u64 {
        let base = self.now();
        thread::sleep(Duration::from_nanos(BASELINE_NS));
        let now = self.now();
        let (ticks, ns) = (now.ticks.saturating_sub(base.ticks), now.ns.saturating_sub(base.ns));
        let lease = u128::from(ticks) * LEASE.as_nanos() / u128::from(ns.max(1));
        (lease as u64).min(MAX_LEASE)
    }

    /// Renews the lease without reading.
    pub fn renew(&self) {
        let lease = self.source.now().wrapping_add(self.lease_ticks);
        self.control().lease.store(lease, Ordering::Relaxed);
    }

    fn find_rings(&mut self) -> io::Result<()> {
        // ORDERING: no pairing: see `local::new_ring`.
        let count = self.control().nr_rings.load(Ordering::Relaxed).min(self.max_rings);
        if count > self.readers.len() as u64 && !self.fd.is_there() {
            return Err(io::Error::other("this process has closed the trace's descriptor"));
        }
        for index in self.readers.len() as u64..count {
            let len = layout::ring_bytes(self.page, self.ring_events);
            let at = layout::ring_at(self.page, self.ring_events, index);
            let map = Map::new(self.fd.as_fd(), at, len)?;
            self.readers.push(Reader::new(RingMap::new(map, self.page, self.ring_events)));
        }
        Ok(())
    }

    /// Empties the rings and renews the lease. `take` gets the number of the ring with each event:
    /// what is in one ring comes in its order.
    ///
    /// # Errors
    /// If a ring cannot be mapped, or another reader has begun since this one was here last.
    pub fn round(&mut self, mut take: impl FnMut(u32, &[u64; event::WORDS])) -> io::Result<Round> {
        let begin = self.now();
        if self.is_begun && !self.is_owner() {
            return Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "this came too late to keep tracing on, and another tool has begun",
            ));
        }
        self.renew();
        let has_lapsed = self.resume();
        self.find_rings()?;
        let (mut events, mut is_pressed, mut again) = (0, false, true);
        let mut limit = self.ring_events / BATCH + 1;
        while again && limit > 0 {
            limit -= 1;
            again = false;
            for (index, reader) in self.readers.iter_mut().enumerate() {
                let mut found = 0;
                again |= reader.read_some(BATCH, |words| {
                    take(index as u32, words);
                    found += 1;
                });
                events += found;
                is_pressed |= found >= self.ring_events / 2 || again;
            }
        }
        Ok(Round { begin, lost: self.lost(), events, is_pressed, has_lapsed })
    }

    /// Events lost since the session began.
    fn lost(&self) -> u64 {
        let of_rings = self.readers.iter().enumerate().map(|(index, reader)| {
            let before = self.lost_before.get(index).copied().unwrap_or(0);
            dropped(reader).wrapping_sub(before)
        });
        let lost = self.control().lost.load(Ordering::Relaxed);
        of_rings.sum::<u64>().wrapping_add(lost.wrapping_sub(self.lost_without_ring))
    }

    /// Whether anything is switched on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.control().mask.load(Ordering::Relaxed) != 0
    }

    /// Switches tracing off; another [`round`](Self::round) gets the rest.
    pub fn stop(&mut self) {
        self.mask = 0;
        if self.is_owner() {
            self.control().mask.store(0, Ordering::Relaxed);
        }
    }

    /// Lets others read from now on. The rings keep their memory.
    pub fn release(&mut self) {
        self.stop();
        if self.is_owner() {
            for reader in &mut self.readers {
                reader.skip_all();
            }
            // Only what is ours still: the next one may have begun just now.
            let (ours, nobody) = (self.owner, 0);
            let owner = &self.control().owner;
            let _ = owner.compare_exchange(ours, nobody, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.is_begun = false;
    }

    /// Gives the trace up, and the rings' memory back to the system.
    fn end(&mut self) {
        if !self.is_owner() {
            return;
        }
        // Under the lease, so that nobody else's events are lost.
        self.stop();
        let nr_rings = if self.fd.is_there() { self.readers.len() as u64 } else { 0 };
        for index in 0..nr_rings {
            let at = layout::ring_at(self.page, self.ring_events, index) + self.page as u64;
            let len = layout::ring_bytes(self.page, self.ring_events) - self.page;
            let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            // SAFETY: an open file and numbers. What a late event writes there nobody reads.
            unsafe { libc::fallocate(self.fd.as_raw_fd(), flags, at as _, len as _) };
        }
        self.release();
    }
}

fn dropped(reader: &Reader<RingMap>) -> u64 {
    reader.memory().ring().dropped.load(Ordering::Relaxed)
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;
    use crate::record::trace::layout::RING_EVENTS;

    /// A file as a process makes it, without rings.
    fn file() -> File {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a string that ends with a null.
        let fd = unsafe { libc::memfd_create(c"test".as_ptr(), flags) };
        assert!(fd >= 0);
        // SAFETY: just made, and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(PAGE as u64).unwrap();
        // SAFETY: takes numbers.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) }, 0);
        file
    }

    #[test]
    fn a_counter_that_has_begun_anew_ends_no_lease() {
        let file = file();
        let map = Map::new(file.as_fd(), 0, PAGE).unwrap();
        let (control, source) = (map.control(), Source::choose());
        control.page.store(PAGE as u32, Ordering::Relaxed);
        control.ring_events.store(RING_EVENTS, Ordering::Relaxed);
        control.clock.store(source as u32, Ordering::Relaxed);
        // As before the machine slept.
        control.base_ticks.store(source.now() + (1 << 62), Ordering::Relaxed);
        control.base_ns.store(1, Ordering::Relaxed);
        control.magic.store(MAGIC, Ordering::Relaxed);
        let mut session = Session::open(file.into()).unwrap();
        session.begin(event::ALL).unwrap();
        let left = control.lease.load(Ordering::Relaxed).wrapping_sub(source.now());
        assert!(left > 0 && left <= MAX_LEASE, "{left}");
    }
}
