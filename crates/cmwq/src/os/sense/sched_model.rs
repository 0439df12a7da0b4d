//! What a thread of a model asks for itself: nothing of the system, since all of them are one
//! thread to it.
//!
//! A thread is on any of the CPUs it was confined to, on another one each time it looks.

use std::cell::RefCell;
use std::io;

use crate::os::sync;
use crate::os::topo::CpuSet;

sync::thread_local! {
    static ALLOWED: RefCell<Option<CpuSet>> = const { RefCell::new(None) };
}

/// The CPUs of a model.
const NR_CPUS: usize = 2;

/// No thread of a model is known to the kernel.
pub(crate) fn gettid() -> libc::pid_t {
    0
}

pub(crate) fn stack() -> std::ops::Range<u64> {
    0..0
}

pub(crate) fn current_cpu() -> Option<u32> {
    let allowed: Vec<u32> = ALLOWED.with(|allowed| {
        allowed
            .borrow()
            .as_ref()
            .map_or((0..NR_CPUS as u32).collect(), |cpus| cpus.iter().collect())
    });
    Some(allowed[sync::choose(allowed.len())])
}

/// A thread of a model never waits, as far as it can tell.
pub(crate) fn current_sleeps() -> u64 {
    0
}

pub(crate) fn enter_idle_class() -> io::Result<()> {
    Ok(())
}

pub(crate) fn pin_current(cpus: &CpuSet) -> io::Result<()> {
    ALLOWED.with(|allowed| *allowed.borrow_mut() = Some(cpus.clone()));
    Ok(())
}

/// Nobody is refused a CPU.
pub(crate) fn is_absent(_error: &io::Error) -> bool {
    false
}

/// All threads of a model are one to the kernel, so none can be confined by its number.
pub(crate) fn pin(_tid: libc::pid_t, _cpus: &CpuSet) -> io::Result<()> {
    Ok(())
}

pub(crate) fn set_nice_current(_nice: i32) -> io::Result<()> {
    Ok(())
}

pub(crate) fn fitting_name(name: &str) -> &str {
    name
}

pub(crate) fn set_timer_slack_ns(_slack_ns: u32) {}

pub(crate) fn set_slice_ns_current(_slice_ns: u64) -> io::Result<()> {
    Ok(())
}
