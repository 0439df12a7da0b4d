//! Opening the file that a trace is written to, whatever lies there.
//!
//! The path may lead to a place where others can write, as `/tmp`. So the file is made new, or it
//! is an older one of the same user with no second name, which is then emptied; never one behind a
//! symbolic link or of somebody else, nor anything that is not a file.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::os::sense::{self, LastingFd};

/// For nobody else to read: a trace has names, and addresses of code.
const MODE: u32 = 0o600;
/// LIMIT: others may remove the file just then, but not for ever.
const TRIES: u32 = 3;

/// Opens the file, or `FILE.PID` if a process that lives writes that one: a parent, or one that has
/// the same environment.
pub(super) fn open(path: OsString) -> io::Result<(Bounded, PathBuf)> {
    let mut beside = path.clone();
    beside.push(format!(".{}", std::process::id()));
    for path in [path, beside].map(PathBuf::from) {
        if let Some(file) = claim(&path)? {
            return Ok((Bounded::new(sense::above_streams(file)?), path));
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process writes it"))
}

/// A file that was empty, and is written no further than the process may write: beyond that, a
/// write would cost it a SIGXFSZ. Nothing is written to what the program has opened by its number.
#[derive(Debug)]
pub(super) struct Bounded {
    file: LastingFd<File>,
    len: u64,
}

impl Bounded {
    fn new(file: File) -> Self {
        Self { file: LastingFd::new(file), len: 0 }
    }

    /// Whether the number is not the program's by now.
    fn check(&self) -> io::Result<()> {
        let is_there = self.file.is_there();
        if is_there { Ok(()) } else { Err(io::Error::other("the program has closed its file")) }
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        let room = usize::try_from(sense::file_size_limit().saturating_sub(self.len));
        let room = room.unwrap_or(usize::MAX);
        if room == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let written = (&*self.file).write(&bytes[..bytes.len().min(room)])?;
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.file).flush()
    }
}

/// `None`: another process has it.
fn claim(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..TRIES {
        // With O_EXCL a symbolic link is not followed, either.
        match options().create_new(true).mode(MODE).open(path) {
            Ok(file) => return Ok(is_claimed(&file).then_some(file)),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
        }
        match reopen(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "others make and remove it"))
}

fn options() -> OpenOptions {
    let mut options = File::options();
    // Nor does it wait for the reader of a FIFO.
    options.write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    options
}

fn reopen(path: &Path) -> io::Result<Option<File>> {
    // Looked at before, because opening a device may do something; and after, because it may be
    // another.
    judge(&fs::symlink_metadata(path)?)?;
    let file = options().open(path)?;
    judge(&file.metadata()?)?;
    if !is_claimed(&file) {
        return Ok(None);
    }
    file.set_len(0)?;
    Ok(Some(file))
}

fn judge(meta: &Metadata) -> io::Result<()> {
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    let what = match () {
        () if meta.is_symlink() => "a symbolic link is there",
        () if !meta.is_file() => "something that is no file is there",
        () if meta.uid() != own => "a file of another user is there",
        () if meta.nlink() > 1 => "a file with other names is there",
        () => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
}

/// Whether no process that lives has it.
fn is_claimed(file: &File) -> bool {
    // SAFETY: an open file and a number.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}
