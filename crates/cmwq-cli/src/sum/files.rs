//! Opening what a walk found, so that nothing blocks, nothing is followed by mistake, and no device
//! is touched.
//!
//! Between the moment a name was seen and the moment it is opened, anything may have taken its
//! place, and that of the directories above it. Therefore every open is non-blocking (a FIFO
//! without a writer would wait for ever), the type is asked of the open file, and a symbolic link
//! is followed only where the user named it.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, statat,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// What a name turned out to be.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A regular file, open for reading, and its size in bytes.
    File(OwnedFd, u64),
    /// Something else.
    Other(FileType),
}

/// Opens `name` in `dir`, which the listing called a regular file.
pub(crate) fn open_entry(dir: impl AsFd, name: &CStr) -> Result<Opened, Errno> {
    open(dir, name, OFlags::NOFOLLOW)
}

/// Opens what the user named. Symbolic links are followed.
pub(crate) fn open_argument(name: &CStr) -> Result<Opened, Errno> {
    // Asked first because opening alone acts on some devices: it rewinds a tape and arms a
    // watchdog.
    match FileType::from_raw_mode(statat(CWD, name, AtFlags::empty())?.st_mode) {
        FileType::RegularFile => open(CWD, name, OFlags::empty()),
        other => Ok(Opened::Other(other)),
    }
}

/// Opens a directory to be listed: `rest`, which was found below what the user `named`.
pub(crate) fn open_directory(named: &Path, rest: &Path) -> Result<OwnedFd, Errno> {
    open_below(named, rest, OFlags::RDONLY | OFlags::NOCTTY)
}

/// Opens a directory only to find names in it.
pub(crate) fn open_place(named: &Path, rest: &Path) -> Result<OwnedFd, Errno> {
    open_below(named, rest, OFlags::PATH)
}

/// Opens a directory. What the user named may have links in it, and the rest not, wherever it is.
/// He named a path, and many, so none is kept open.
fn open_below(named: &Path, rest: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
    if rest.as_os_str().is_empty() {
        return openat(CWD, named, flags | directory, Mode::empty());
    }
    let named = openat(CWD, named, OFlags::PATH | directory, Mode::empty())?;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(&named, rest, flags | directory, Mode::empty(), within) {
        // Before Linux 5.6, and in sandboxes that know of no such call: the last link is refused.
        Err(Errno::NOSYS | Errno::PERM) => {
            openat(&named, rest, flags | directory | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    }
}

/// The type of `name` in `dir`, for file systems whose listings do not tell it.
pub(crate) fn entry_kind(dir: impl AsFd, name: &CStr) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
}

/// The name of a type in messages and in JSON.
pub(crate) fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "unknown type of file",
    }
}

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

fn open(dir: impl AsFd, name: &CStr, follow: OFlags) -> Result<Opened, Errno> {
    match openat(&dir, name, READ | OFlags::NONBLOCK | follow, Mode::empty()) {
        Ok(file) => classify(file),
        // What refuses to be opened because of its type: a link that must not be followed, a
        // socket.
        Err(errno @ (Errno::LOOP | Errno::NXIO)) if follow == OFlags::NOFOLLOW => {
            match entry_kind(dir, name)? {
                FileType::RegularFile => Err(errno),
                other => Ok(Opened::Other(other)),
            }
        }
        Err(Errno::AGAIN) => open_leased(dir, name, follow),
        Err(errno) => Err(errno),
    }
}

/// Opens a file on which another process holds a lease (a file server does): a non-blocking open is
/// refused, one that blocks waits until the holder has let go, for some seconds at most.
fn open_leased(dir: impl AsFd, name: impl Arg, follow: OFlags) -> Result<Opened, Errno> {
    // Pinned first, so that what is opened without O_NONBLOCK is surely a regular file.
    let pinned = openat(dir, name, OFlags::PATH | OFlags::CLOEXEC | follow, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&pinned)?.st_mode) {
        FileType::RegularFile => {
            let pinned = format!("/proc/self/fd/{}", pinned.as_raw_fd());
            classify(openat(CWD, pinned, READ, Mode::empty())?)
        }
        other => Ok(Opened::Other(other)),
    }
}

fn classify(file: OwnedFd) -> Result<Opened, Errno> {
    let stat = fstat(&file)?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Opened::File(file, u64::try_from(stat.st_size).unwrap_or(0)),
        other => Opened::Other(other),
    })
}
