//! Opening what a descriptor of another process leads to.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What the kernel calls its file system in memory: the C libraries disagree about the type.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The file in memory that `path`, a link in `/proc/PID/fd`, leads to. Never waits for anybody:
/// what is there is looked at before it is opened for reading (and writing), so that it is no FIFO,
/// device, or file that a file system of somebody's own serves.
///
/// # Errors
/// [`InvalidData`](io::ErrorKind::InvalidData) if it is something else; or what the system says.
pub fn open_memory_file(path: &Path, is_written: bool) -> io::Result<File> {
    // A descriptor by which nothing can be read, and nobody is told that it was opened.
    let found = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    if !is_in_memory(&found)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file in memory"));
    }
    // The same file, whatever `path` leads to by now.
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    // Without waiting for who holds a lease.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    File::options().read(true).write(is_written).custom_flags(flags).open(again)
}

/// Whether it is a regular file of the kernel's own file system in memory.
fn is_in_memory(file: &File) -> io::Result<bool> {
    // SAFETY: numbers, for which zero is a value.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open file, and `system` is writable.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Pages of other kinds (huge ones) can be taken away from who has mapped them.
    Ok(system.f_type as i64 == TMPFS_MAGIC && file.metadata()?.is_file())
}

/// The seals of a file. None, if it cannot have any.
#[must_use]
pub fn seals_of(file: &impl AsRawFd) -> i32 {
    // SAFETY: takes numbers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) }.max(0)
}
