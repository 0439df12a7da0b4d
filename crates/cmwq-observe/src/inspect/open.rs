//! Finding and mapping what a process shows.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use cmwq::foreign;
use cmwq::shared::control as socket;
use cmwq::shared::mapping::layout::MAX_BYTES;
use cmwq::shared::now_ns;

use super::snapshot::{ReadError, snapshot};
use super::view::Snapshot;
use super::words::Words;

/// What the links of the descriptor say.
const LINK: &str = "/memfd:cmwq (deleted)";

/// Why there is nothing to read.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// No process has this number.
    NoSuchProcess,
    /// The kernel does not let the caller look into it.
    PermissionDenied {
        /// Which of its rules it is, as far as can be told.
        why: String,
    },
    /// It shows nothing: it does not use this library, or has not used it yet, or was told not to
    /// show anything.
    NotCmwq,
    /// It has something that cannot be read.
    Unreadable(ReadError),
    /// Something else went wrong.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchProcess => write!(f, "there is no such process"),
            Self::PermissionDenied { why } => write!(f, "permission denied: {why}"),
            Self::NotCmwq => write!(
                f,
                "it shows no workqueues: it does not use cmwq, has not used it yet, or runs with \
                 CMWQ_PARAMS=inspect=0"
            ),
            Self::Unreadable(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// Without a `source`: the message is the cause's, and whoever prints a chain of causes would print
/// it twice. The variants have it.
impl Error for OpenError {}

/// What a process shows, mapped for reading. It stays readable when the process ends: it shows the
/// last state then.
#[derive(Debug)]
pub struct Target {
    pid: u32,
    /// It is in a PID namespace below the caller's, as in a container: its threads have other
    /// numbers there.
    is_below: bool,
    memory: Memory,
    /// Where the process has it open, and which file it is.
    file: (PathBuf, Identity),
}

/// Which file something is: its device and inode.
type Identity = (u64, u64);

/// Read-only memory of another process's making.
#[derive(Debug)]
struct Memory {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: it is atomics that nobody here writes.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Target {
    /// Finds what process `pid` shows. Does not stop or trace it; works while it is stopped. Blocks
    /// for as long as `/proc` does.
    ///
    /// # Errors
    /// [`OpenError`] says what there is to say: the kernel lets those look who may trace the
    /// process (the same user, and no more privileges than the caller's), and root.
    pub fn open(pid: u32) -> Result<Self, OpenError> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mut failed = None;
        for descriptor in descriptors(pid, &process)? {
            match Self::open_file(pid, &descriptor) {
                Ok(target) => return Ok(target),
                Err(OpenError::NotCmwq) => {}
                Err(OpenError::Io(error)) if is_gone(&error) => {}
                Err(error @ (OpenError::Unreadable(_) | OpenError::Io(_))) => failed = Some(error),
                Err(other) => return Err(explained(&process, other)),
            }
        }
        Err(failed.or_else(|| is_thread(pid, &process)).unwrap_or(OpenError::NotCmwq))
    }

    fn open_file(pid: u32, path: &Path) -> Result<Self, OpenError> {
        let file = foreign::open_memory_file(path, false).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => OpenError::PermissionDenied { why: String::new() },
            io::ErrorKind::InvalidData => OpenError::Unreadable(ReadError::NotCmwq),
            _ => OpenError::Io(error),
        })?;
        let mut target = Self::of_file(pid, &file)?;
        path.clone_into(&mut target.file.0);
        Ok(target)
    }

    /// What such a file shows, if it is process `pid`'s.
    #[doc(hidden)]
    pub fn of_file(pid: u32, file: &File) -> Result<Self, OpenError> {
        let memory = Memory::map(file)?;
        let header = Words(memory.words()).header().map_err(OpenError::Unreadable)?;
        let numbers = numbers(Path::new(&format!("/proc/{pid}/status")));
        if header.pid != u64::from(numbers.last().copied().unwrap_or(pid)) {
            // Inherited without `fork`, by a child that shares nothing else.
            return Err(OpenError::NotCmwq);
        }
        let identity = file.metadata().map(|meta| identity(&meta)).map_err(OpenError::Io)?;
        let file = (PathBuf::new(), identity);
        Ok(Self { pid, is_below: numbers.len() > 1, memory, file })
    }

    /// Whether the process still shows it. Not after its end, and not after it has executed another
    /// program, or itself once more: what was mapped stays as it was then. Where the caller may not
    /// look any more (the process has changed its user, say) it is taken to be there. Blocks for as
    /// long as `/proc` does.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        let (path, own) = &self.file;
        match fs::metadata(path) {
            Ok(meta) if identity(&meta) == *own => true,
            Err(error) if !is_gone(&error) => true,
            // A program may close what it does not know, and goes on.
            _ => is_mapped(self.pid, own.1).unwrap_or_else(|error| !is_gone(&error)),
        }
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Copies everything. Takes no lock, and the process does not notice.
    ///
    /// # Errors
    /// If the mapping makes no sense any more.
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        let mut seen = snapshot(Words(self.memory.words()), now_ns())?;
        // The numbers by which the caller knows it and its threads.
        seen.pid = self.pid;
        if self.is_below {
            seen.rename_threads(&threads(self.pid));
        }
        Ok(seen)
    }

    /// The functions that the process has names for, by their addresses: each runs one closure, and
    /// is named for that. Symbol tables call all of them the same.
    ///
    /// # Errors
    /// If the mapping makes no sense any more.
    pub fn functions(&self) -> Result<HashMap<u64, String>, ReadError> {
        Words(self.memory.words()).functions()
    }
}

/// The process's descriptors that have the right name.
fn descriptors(pid: u32, process: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let listed = fs::read_dir(process.join("fd")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound if socket::is_process(pid) => OpenError::Io(not_shown()),
        io::ErrorKind::NotFound => OpenError::NoSuchProcess,
        io::ErrorKind::PermissionDenied => {
            explained(process, OpenError::PermissionDenied { why: String::new() })
        }
        _ if error.raw_os_error() == Some(libc::ESRCH) => OpenError::NoSuchProcess,
        _ => OpenError::Io(error),
    })?;
    let paths = listed.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(|path| fs::read_link(path).is_ok_and(|to| to.as_os_str() == LINK)).collect())
}

/// What is wrong where the number is a thread's: `/proc` has the process's files there, too.
fn is_thread(pid: u32, process: &Path) -> Option<OpenError> {
    let status = text(process.join("status"));
    let leader = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim();
    let why = format!("it is a thread of process {leader}");
    (leader != pid.to_string())
        .then(|| OpenError::Io(io::Error::new(io::ErrorKind::InvalidInput, why)))
}

fn identity(meta: &fs::Metadata) -> Identity {
    (meta.dev(), meta.ino())
}

/// Whether the process has the file mapped that has this number and our name.
fn is_mapped(pid: u32, inode: u64) -> io::Result<bool> {
    let maps = text_of(&fs::read(format!("/proc/{pid}/maps"))?);
    Ok(maps.lines().filter(|line| line.ends_with(LINK)).any(|line| {
        // Address, access, offset and device come first.
        line.split_ascii_whitespace().nth(4).and_then(|field| field.parse().ok()) == Some(inode)
    }))
}

/// Closed meanwhile, or no file at all.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH | libc::ENXIO))
}

/// What is wrong where a process is there, and procfs does not have it.
fn not_shown() -> io::Error {
    let why = "it is there, but /proc does not show it: that is not mounted, or is another PID \
               namespace's, or hides what others run (hidepid)";
    io::Error::new(io::ErrorKind::NotFound, why)
}

/// Says which rule of the kernel's it is that does not let the caller look.
fn explained(process: &Path, error: OpenError) -> OpenError {
    let OpenError::PermissionDenied { .. } = error else { return error };
    let status = text(process.join("status"));
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u32>().ok()
    };
    // SAFETY: takes nothing.
    let me = unsafe { libc::geteuid() };
    let why = match field("Uid:") {
        Some(owner) if owner != me => format!(
            "the process is user {owner}'s and you are user {me}; the kernel lets those look into \
             a process who may \
             trace it: the same user, and root"
        ),
        _ => "the kernel lets those look into a process who may trace it; this one has more \
              privileges than you \
              (capabilities, or a set-user-ID program), or forbids it (PR_SET_DUMPABLE)"
            .to_owned(),
    };
    OpenError::PermissionDenied { why }
}

/// The numbers of a process, or of a thread, in its PID namespaces: the caller's first, its own
/// last. That of the mapping is its own. None: the kernel does not tell, or it has gone.
fn numbers(status: &Path) -> Vec<u32> {
    numbers_in(&text(status))
}

fn numbers_in(status: &str) -> Vec<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let numbers = numbers.into_iter().flat_map(str::split_whitespace);
    numbers.map_while(|number| number.parse().ok()).collect()
}

/// What such a file says; nothing, if that is refused. A process's name in it is cut after so many
/// bytes, be it within a character.
pub(crate) fn text(file: impl AsRef<Path>) -> String {
    text_of(&fs::read(file).unwrap_or_default())
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The threads of a process: by the numbers that they have in their own PID namespace those by
/// which the caller knows them.
fn threads(pid: u32) -> HashMap<u32, u32> {
    let listed = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let listed = listed.filter_map(|entry| Some(numbers(&entry.ok()?.path().join("status"))));
    listed.filter_map(|numbers| Some((*numbers.last()?, *numbers.first()?))).collect()
}

impl Memory {
    fn map(file: &File) -> Result<Self, OpenError> {
        let len = file.metadata().map_err(OpenError::Io)?.len();
        if foreign::seals_of(file) & libc::F_SEAL_SHRINK == 0 {
            // Cut short while it is read, it would cost the reader a SIGBUS. Ours is never without.
            return Err(OpenError::Unreadable(ReadError::NotCmwq));
        }
        if len > MAX_BYTES {
            return Err(OpenError::Unreadable(ReadError::NotCmwq));
        }
        if len < 8 {
            return Err(OpenError::Unreadable(ReadError::Truncated));
        }
        let bytes =
            usize::try_from(len).map_err(|_| OpenError::Unreadable(ReadError::Truncated))?;
        // SAFETY: a new mapping, wherever the system likes; whatever is in it, it is read as atomic
        // numbers.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(OpenError::Io(io::Error::last_os_error()));
        }
        let base = NonNull::new(base.cast()).ok_or(OpenError::Unreadable(ReadError::Truncated))?;
        Ok(Self { base, words: bytes / 8 })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as `self`, page-aligned, and sealed against getting shorter.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and nobody borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_cut_within_a_character_hides_no_numbers() {
        let status = text_of(b"Name:\tabcdefghijklmn\xc3\nNSpid:\t4711\t7\n");
        assert_eq!(numbers_in(&status), [4711, 7]);
    }
}
