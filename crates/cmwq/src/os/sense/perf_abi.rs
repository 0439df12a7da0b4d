//! The part of the kernel's performance event interface that switch records need: names and
//! numbers, no behaviour.
//!
//! *Kernel*: `perf_event_open(2)`.

use core::mem::offset_of;

/// `type` of an event that the kernel counts in software.
pub(super) const PERF_TYPE_SOFTWARE: u32 = 1;
/// `config` of the software event that counts nothing and is there for its records.
pub(super) const PERF_COUNT_SW_DUMMY: u64 = 9;

/// `flags`: leave out what happens in the kernel, without which an unprivileged caller is refused.
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
/// `flags`: leave out what happens in the hypervisor.
pub(super) const EXCLUDE_HV: u64 = 1 << 6;
/// `flags`: `wakeup` counts bytes instead of samples.
pub(super) const WATERMARK: u64 = 1 << 14;
/// `flags`: write a record when the thread leaves a CPU and when it gets one again.
pub(super) const CONTEXT_SWITCH: u64 = 1 << 26;

/// `ioctl` that tells the number by which the kernel knows an event. A few machines mark calls that
/// read by another bit than most.
pub(super) const PERF_EVENT_IOC_ID: libc::c_ulong = {
    let reads = if cfg!(any(
        target_arch = "mips64",
        target_arch = "mips64r6",
        target_arch = "powerpc64",
        target_arch = "sparc64"
    )) {
        1 << 30
    } else {
        1 << 31
    };
    reads | 0x0008_2407
};

/// Flag of the system call: close the descriptor on `exec`.
pub(super) const PERF_FLAG_FD_CLOEXEC: u64 = 1 << 3;

/// `type` of a switch record.
pub(super) const PERF_RECORD_SWITCH: u32 = 14;
/// `misc` of a switch record: the thread left the CPU (otherwise it got it).
pub(super) const MISC_SWITCH_OUT: u16 = 1 << 13;
/// `misc` of a switch record: it left although it could have gone on.
pub(super) const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// `struct perf_event_attr`, in the size of its first version.
///
/// Kernels take any known size and read the rest as zero; nothing that was added later is needed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PerfEventAttr {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup: u32,
    pub(super) bp_type: u32,
    pub(super) config1: u64,
}

/// `PERF_ATTR_SIZE_VER0`.
pub(super) const PERF_ATTR_SIZE: u32 = 64;

const _: () = assert!(size_of::<PerfEventAttr>() == PERF_ATTR_SIZE as usize);
const _: () = assert!(offset_of!(PerfEventAttr, flags) == 40);

/// Offset of `data_head` in the first mapped page: how many bytes were ever written.
pub(super) const PAGE_DATA_HEAD: usize = 1024;
/// Offset of `data_offset` in the first mapped page: where the ring starts in the mapping.
pub(super) const PAGE_DATA_OFFSET: usize = 1040;
/// Offset of `data_size` in the first mapped page: how large the ring is.
pub(super) const PAGE_DATA_SIZE: usize = 1048;

/// `struct perf_event_header`: all that a switch record consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) size: u16,
}

/// The size of a record without payload.
pub(super) const HEADER_SIZE: u64 = 8;

impl RecordHeader {
    /// Takes the header out of the word that it was read as.
    pub(super) const fn from_word(word: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
        Self {
            kind: u32::from_ne_bytes([a, b, c, d]),
            misc: u16::from_ne_bytes([e, f]),
            size: u16::from_ne_bytes([g, h]),
        }
    }
}
