//! Stamps: the processor's counter where it is one clock for all CPUs, else `CLOCK_MONOTONIC`.
//!
//! Ticks are turned into nanoseconds by the reader, who takes both times together each time he
//! reads.
//!
//! Why: docs/decisions/trace-stamps.md

/// What stamps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Source {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    Monotonic = 0,
    /// `rdtsc`, or `cntvct_el0`.
    Counter = 1,
}

impl Source {
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Self::Monotonic, Self::Counter].into_iter().find(|source| *source as u32 == number)
    }

    /// The best that this machine has.
    pub(crate) fn choose() -> Self {
        if counter::is_usable() { Self::Counter } else { Self::Monotonic }
    }

    #[inline]
    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Counter => counter::now(),
            Self::Monotonic => monotonic(),
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc, CpuidResult};
    use std::fs;

    /// It counts at one rate, whatever the CPU does, and the kernel has not found the CPUs'
    /// counters apart.
    pub(super) fn is_usable() -> bool {
        const INVARIANT: u32 = 1 << 8;
        let (leaf, last) = (0x8000_0007, 0x8000_0000);
        if cpuid(last).eax < leaf || cpuid(leaf).edx & INVARIANT == 0 {
            return false;
        }
        let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = fs::read_to_string(path).unwrap_or_default();
        // In a guest the host's clocks stand on it.
        ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&source.trim())
    }

    /// The processor's answer about itself.
    #[allow(unused_unsafe, reason = "the function is safe in newer standard libraries only")]
    fn cpuid(leaf: u32) -> CpuidResult {
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { __cpuid(leaf) }
    }

    #[inline]
    pub(super) fn now() -> u64 {
        // SAFETY: every processor of this architecture has it.
        unsafe { _rdtsc() }
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    use std::arch::asm;

    /// The architecture says so.
    pub(super) fn is_usable() -> bool {
        true
    }

    #[inline]
    pub(super) fn now() -> u64 {
        let now;
        // SAFETY: Linux lets every process read it, or emulates that.
        unsafe {
            asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack, preserves_flags))
        };
        now
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    pub(super) fn is_usable() -> bool {
        false
    }

    pub(super) fn now() -> u64 {
        super::monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_go_on() {
        for source in [Source::Monotonic, Source::choose()] {
            let (first, begin) = (source.now(), monotonic());
            while monotonic() < begin + 100_000 {}
            assert!(source.now() > first, "{source:?}");
            assert_eq!(Source::of(source as u32), Some(source));
        }
        assert_eq!(Source::of(2), None);
    }
}
