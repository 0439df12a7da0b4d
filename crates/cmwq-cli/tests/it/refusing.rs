//! Starting a command where something is refused. Where the restriction itself is refused, the
//! command does not start.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Makes the system call `number` fail with EPERM, as the filters of containers do.
pub(crate) fn deny(command: &mut Command, number: libc::c_long) {
    let number = u32::try_from(number).unwrap();
    let install = move || {
        let mut filter = program(number);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: prctl with these arguments reads and writes no memory of the process.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        const FILTER: libc::c_ulong = libc::SECCOMP_MODE_FILTER as _;
        // SAFETY: `program` and the filter it points to are readable during the call.
        check(unsafe { libc::prctl(libc::PR_SET_SECCOMP, FILTER, &raw const program) })
    };
    // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
    unsafe { command.pre_exec(install) };
}

/// A filter that denies one system call of this architecture.
fn program(number: u32) -> [libc::sock_filter; 4] {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // The number comes first in what a filter sees.
    let load = statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0);
    let compare = libc::sock_filter {
        jf: 1,
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number)
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let answer = |action| statement(libc::BPF_RET | libc::BPF_K, action);
    [load, compare, answer(refuse), answer(libc::SECCOMP_RET_ALLOW)]
}

/// Lowers a resource limit.
pub(crate) fn limit(command: &mut Command, resource: Resource, value: u64) {
    let limit = Rlimit { current: Some(value), maximum: Some(value) };
    let lower = move || Ok(setrlimit(resource, limit)?);
    // SAFETY: the closure only makes a system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(lower) };
}

/// Covers `/proc` with an empty directory.
pub(crate) fn hide_proc(command: &mut Command) {
    let cover = || {
        // SAFETY: takes a number only.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
        mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE)?;
        mount(Some(c"tmpfs"), c"/proc", 0)
    };
    // SAFETY: the closure only makes system calls, which is allowed between fork and exec.
    unsafe { command.pre_exec(cover) };
}

fn mount(kind: Option<&std::ffi::CStr>, target: &std::ffi::CStr, flags: u64) -> io::Result<()> {
    let kind = kind.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    let none = std::ptr::null();
    // SAFETY: the texts are readable during the call; the kernel takes null for what is left out.
    check(unsafe { libc::mount(none, target.as_ptr(), kind, flags, none.cast()) })
}

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
