//! Switch records: the kernel notes each time a thread leaves or gets a CPU, and why.
//!
//! *Owns* two events of the recorded thread, each a descriptor and two mapped pages:
//! - the *state* always runs and wakes nobody; its newest record is what the thread did last;
//! - the *bell* runs only while somebody watches, and makes its descriptor readable at every record.
//!
//! *Does not* consume records. Rings are mapped read-only, which makes the kernel overwrite the oldest record instead of
//! stopping at a full ring. So there is no tail to advance, any number of threads may look at the newest record at any
//! time, and nobody has to keep up.
//!
//! *Invariants*
//! - `bare`: events ask for nothing but switch records without payload, so a ring is an array of 8-byte words and the
//!   newest record is the word before `data_head`.
//!
//! PERF: two threads that wake each other in turn on one CPU of a virtual machine take 0.65 µs for each switch without
//! records, 1.0 with the state, and 3.5 with the bell. The kernel rings it by interrupting its own CPU, whether or not
//! anybody listens, which is why the bell is an event of its own.

use core::sync::atomic::{Ordering, fence};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::perf_abi::{
    CONTEXT_SWITCH, DISABLED, EXCLUDE_HV, EXCLUDE_KERNEL, HEADER_SIZE, MISC_SWITCH_OUT,
    MISC_SWITCH_OUT_PREEMPT, PERF_ATTR_SIZE, PERF_COUNT_SW_DUMMY, PERF_EVENT_IOC_DISABLE,
    PERF_EVENT_IOC_ENABLE, PERF_FLAG_FD_CLOEXEC, PERF_RECORD_SWITCH, PERF_TYPE_SOFTWARE,
    PerfEventAttr, RecordHeader, WATERMARK,
};
use super::perf_refusal::Refusal;
use super::perf_ring::Ring;

/// What a thread did last, as far as the scheduler is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// It got a CPU. Also what remains when the thread has ended.
    Running,
    /// It lost its CPU to another thread and would have gone on.
    Preempted,
    /// It gave up its CPU to wait for something. It may have been woken since, and wait for a CPU.
    Blocked,
    /// Nothing was recorded yet: it has been running since the records were opened.
    None,
}

/// The switch records of one thread.
///
/// They cost two descriptors and four pages of locked memory.
#[derive(Debug)]
pub(crate) struct SwitchRecords {
    state: Event,
    bell: Event,
}

impl SwitchRecords {
    /// Starts recording the calling thread.
    ///
    /// # Errors
    /// If the kernel refuses; the error says what stands in the way.
    pub(crate) fn open_current_thread() -> Result<Self, Refusal> {
        let bell = Event::open(1, DISABLED)?;
        // Wakes after more bytes than the ring has, which the kernel cuts to once around the ring.
        let state = Event::open(u32::MAX, 0)?;
        Ok(Self { state, bell })
    }

    /// What the thread did last. May be asked from any thread while records are being written.
    pub(crate) fn last(&self) -> Switch {
        self.state.newest()
    }

    /// A number that grows with every record: whether anything happened between two looks.
    pub(crate) fn head(&self) -> u64 {
        self.state.ring.head()
    }

    /// The descriptor of a bell that rings from now on until the thread ends. To be replaced by [`Self::watch`], which
    /// can be taken back.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        let _ = self.bell.request(PERF_EVENT_IOC_ENABLE);
        self.bell.fd.as_fd()
    }

    /// Makes every switch of the thread wake whoever polls the watch, until it is dropped.
    ///
    /// Watching is cheap on the CPU that the thread runs on, and costs an interrupt of that CPU from elsewhere.
    ///
    /// # Errors
    /// If the kernel refuses, which it has no reason to.
    pub(crate) fn watch(&self) -> io::Result<Watch<'_>> {
        let silent_head = self.bell.ring.head();
        self.bell.request(PERF_EVENT_IOC_ENABLE)?;
        Ok(Watch { records: self, silent_head })
    }

    /// The bell's descriptor, which tells nothing while nobody watches.
    #[cfg(test)]
    pub(super) fn bell_fd(&self) -> BorrowedFd<'_> {
        self.bell.fd.as_fd()
    }
}

/// An interest in every switch of a thread; see [`SwitchRecords::watch`].
///
/// To wait until the thread blocks: watch; ask [`Watch::last`]; while it says otherwise, poll and ask again. A block
/// between asking and polling makes the descriptor readable, so it is not slept through.
///
/// Only one thread should watch: a poll takes the news away from all others who wait for the same descriptor. It may
/// also tell of news from an earlier watch, and then it was for nothing.
///
/// A watcher on the same CPU must be of the batch class while it polls (see [`sched`](super::sched)). It would
/// otherwise be woken when the thread gets its CPU, take it away, note that nothing has happened, give it back, and so
/// on: such a pair gets half of its work done. A batch thread that is woken waits for the CPU to become free, which is
/// all it wants.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    records: &'a SwitchRecords,
    /// Where the bell's records ended before this watch.
    silent_head: u64,
}

impl Watch<'_> {
    /// What the thread did last: at least as new as what the descriptor has told of.
    ///
    /// [`SwitchRecords::last`] does not promise that, because one switch is recorded in the two rings one after the
    /// other, and whoever the bell woke can be faster than the second of them.
    pub(crate) fn last(&self) -> Switch {
        let SwitchRecords { state, bell } = self.records;
        if bell.ring.head() == self.silent_head { state.newest() } else { bell.newest() }
    }

    /// The descriptor to poll: readable when the thread was switched, hung up when it has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.records.bell.fd.as_fd()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // Should it ever fail, the thread's switches just go on being dear.
        let _ = self.records.bell.request(PERF_EVENT_IOC_DISABLE);
    }
}

/// An event of the thread that opened it, which writes switch records into a ring.
#[derive(Debug)]
struct Event {
    fd: OwnedFd,
    ring: Ring,
}

impl Event {
    /// Opens an event that wakes pollers when more than `watermark` bytes were written since it did so last.
    fn open(watermark: u32, flags: u64) -> Result<Self, Refusal> {
        let fd = open_fd(watermark, flags).map_err(Refusal::of_event)?;
        let ring = Ring::map(&fd).map_err(Refusal::of_ring)?;
        Ok(Self { fd, ring })
    }

    fn newest(&self) -> Switch {
        loop {
            let head = self.ring.head();
            // ORDERING: pairs with the write barrier by which the kernel publishes the record before `data_head`.
            fence(Ordering::Acquire);
            if head < HEADER_SIZE {
                return Switch::None;
            }
            let word = self.ring.word_before(head);
            // ORDERING: no pairing: orders the record before the second look at the head, as in a sequence lock.
            fence(Ordering::Acquire);
            // Going round again takes more than 500 switches between two loads of this thread.
            if self.ring.is_intact(head) {
                return decode(word);
            }
        }
    }

    fn request(&self, request: libc::Ioctl) -> io::Result<()> {
        const THIS_EVENT_ALONE: libc::c_int = 0;
        // SAFETY: the descriptor is open; neither request reads or writes memory of ours.
        let rc = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, THIS_EVENT_ALONE) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// INVARIANT(bare): no sample type, no trailing identification, no other kind of record.
fn open_fd(watermark: u32, flags: u64) -> io::Result<OwnedFd> {
    // LIMIT: reading 64-bit words from read-only memory is atomic on 64-bit machines only.
    if cfg!(not(target_pointer_width = "64")) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let attr = PerfEventAttr {
        kind: PERF_TYPE_SOFTWARE,
        size: PERF_ATTR_SIZE,
        config: PERF_COUNT_SW_DUMMY,
        flags: CONTEXT_SWITCH | EXCLUDE_KERNEL | EXCLUDE_HV | WATERMARK | flags,
        wakeup: watermark,
        ..PerfEventAttr::default()
    };
    const CURRENT_THREAD: libc::pid_t = 0;
    const ANY_CPU: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    // SAFETY: `attr` is a `perf_event_attr` of the size it states, readable during the call; the rest are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            CURRENT_THREAD,
            ANY_CPU,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC as libc::c_ulong,
        )
    };
    match libc::c_int::try_from(fd) {
        // SAFETY: the kernel has just made this descriptor for us, so nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn decode(word: u64) -> Switch {
    let record = RecordHeader::from_word(word);
    if record.kind != PERF_RECORD_SWITCH || u64::from(record.size) != HEADER_SIZE {
        // Not a record that was asked for; "nothing known" is what no one acts on.
        return Switch::None;
    }
    match (record.misc & MISC_SWITCH_OUT != 0, record.misc & MISC_SWITCH_OUT_PREEMPT != 0) {
        (false, _) => Switch::Running,
        (true, true) => Switch::Preempted,
        (true, false) => Switch::Blocked,
    }
}

#[cfg(test)]
mod tests {
    use super::{Switch, decode};

    /// A record header as the kernel lays it out: type, then misc, then size.
    fn word(kind: u32, misc: u16, size: u16) -> u64 {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..6].copy_from_slice(&misc.to_ne_bytes());
        bytes[6..].copy_from_slice(&size.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    }

    #[test]
    fn records_are_decoded() {
        assert_eq!(decode(word(14, 0, 8)), Switch::Running);
        assert_eq!(decode(word(14, 0x2000, 8)), Switch::Blocked);
        assert_eq!(decode(word(14, 0x6000, 8)), Switch::Preempted);
        // Bits that say in which mode the CPU was change nothing.
        assert_eq!(decode(word(14, 0x2002, 8)), Switch::Blocked);
        assert_eq!(decode(word(2, 0x2000, 8)), Switch::None);
        assert_eq!(decode(word(14, 0x2000, 24)), Switch::None);
        assert_eq!(decode(0), Switch::None);
    }
}
