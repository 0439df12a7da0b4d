//! CPU numbers from C.

use std::ffi::c_int;

use cmwq::raw;

/// `None` for `WORK_CPU_UNBOUND`. A number that is none is left to the library to complain of.
#[inline]
pub(crate) fn wanted(cpu: c_int) -> Option<u32> {
    let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
    (cpu != raw::CPU_UNBOUND).then_some(cpu)
}
