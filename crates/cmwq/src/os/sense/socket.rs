//! Local sockets, as far as the standard library does not have them: born with their mode, never
//! raising `SIGPIPE`, and saying who is at the other end.
//!
//! *Owns* nothing beyond each call.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use super::budget::above_streams;

/// Who made the other end, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub pid: i32,
    pub uid: u32,
}

fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc == -1 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

fn socket(flags: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | flags;
    // SAFETY: takes numbers only.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: a descriptor that was just made, and that nobody else has.
    above_streams(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: an address is numbers.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // One byte is left for the null at the end.
    if bytes.is_empty() || bytes.contains(&0) || bytes.len() >= address.sun_path.len() {
        let longest = address.sun_path.len() - 1;
        let what = format!("the path of a socket has 1 to {longest} bytes, without nulls");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let len = size_of::<libc::sa_family_t>() + bytes.len() + 1;
    Ok((address, len as libc::socklen_t))
}

/// Listens at `path`, where nothing may be, with a file that only its owner may use from the moment
/// it is there. Nonblocking.
pub(crate) fn listen(path: &Path, backlog: i32) -> io::Result<UnixListener> {
    let fd = socket(libc::SOCK_NONBLOCK)?;
    let (address, len) = address(path)?;
    // The file takes its mode from the socket.
    // SAFETY: takes numbers only.
    check(unsafe { libc::fchmod(fd.as_raw_fd(), 0o600) })?;
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    // SAFETY: takes numbers only.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
    Ok(UnixListener::from(fd))
}

/// Connects to who listens at `path`; `WouldBlock` if too many wait there already. Nonblocking.
///
/// # Errors
/// As the system's.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let fd = socket(libc::SOCK_NONBLOCK)?;
    let (address, len) = address(path)?;
    // SAFETY: `address` is readable for `len` bytes.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), len) })?;
    Ok(UnixStream::from(fd))
}

/// Whether somebody listens at `path`. Does not wait.
///
/// # Errors
/// If it cannot be told.
pub(crate) fn is_listened_to(path: &Path) -> io::Result<bool> {
    match connect(path) {
        Ok(_) => Ok(true),
        // So many wait already.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Renames a file, to a name that nothing has.
///
/// # Errors
/// `AlreadyExists`, and those of the system.
pub(crate) fn rename_anew(from: &Path, to: &Path) -> io::Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other);
    let (from_name, to_name) = (name(from)?, name(to)?);
    // SAFETY: two strings, and numbers.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from_name.as_ptr(),
            libc::AT_FDCWD,
            to_name.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if rc == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Not every file system can do that, nor an old kernel.
        Some(libc::EINVAL | libc::ENOSYS) if fs::symlink_metadata(to).is_err() => {
            fs::rename(from, to)
        }
        _ => Err(error),
    }
}

/// Who is at the other end.
///
/// # Errors
/// As the system's.
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: `peer` is writable for `len` bytes.
    check(unsafe {
        libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut peer).cast(), &raw mut len)
    })?;
    Ok(Peer { pid: peer.pid, uid: peer.uid })
}

/// Sends what can be sent. Without `SIGPIPE` if nobody is there.
///
/// # Errors
/// As the system's.
pub fn send(stream: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: `bytes` is readable for its length.
    let sent = unsafe {
        libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent.unsigned_abs()) }
}

/// Waits until something is ready, for `timeout` at most. Interruptions count as a time that is up.
///
/// # Errors
/// As the system's.
pub fn poll(fds: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let millis = timeout.map_or(-1, |timeout| {
        // Rounded up, or the last millisecond would be spent in a loop.
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    // SAFETY: `fds` is writable for its length.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            fds.iter_mut().for_each(|fd| fd.revents = 0);
            Ok(())
        }
        outcome => outcome.map(drop),
    }
}

/// A file in memory that shows under this name in `/proc/PID/fd`.
pub(crate) fn memory_file(name: &CStr) -> io::Result<File> {
    // SAFETY: a string.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: a descriptor that was just made, and that nobody else has.
    above_streams(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// The user that the process acts as.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Runs `make`, which starts threads, with all signals blocked that can wait: the threads will
/// never run a handler of the program's.
pub(crate) fn without_signals<T>(make: impl FnOnce() -> T) -> T {
    use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    // SAFETY: a set of signals is numbers, and is filled below.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is writable.
    unsafe { libc::sigfillset(&raw mut all) };
    for fault in [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP] {
        // SAFETY: `all` is writable.
        unsafe { libc::sigdelset(&raw mut all, fault) };
    }
    // SAFETY: both sets are what the call wants.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before) };
    let made = make();
    // SAFETY: the call above has written `before`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    made
}

/// Closes a descriptor of somebody who is not there any more.
///
/// # Safety
/// Nobody uses it, or will close it.
pub(crate) unsafe fn close_unowned(fd: RawFd) {
    // SAFETY: the caller's promise.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

/// Has `what` called when the process ends by `exit`.
pub(crate) fn at_exit(what: extern "C" fn()) {
    // SAFETY: a function that stays; see `loaded`.
    unsafe { libc::atexit(what) };
}
