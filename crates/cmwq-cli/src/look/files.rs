//! Reading files that another process names: they may be anything, and change while they are read.
//!
//! They are read, not mapped: of a mapping whose file becomes shorter nothing is left, and the
//! reader dies of that.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::OFlags;

/// LIMIT: no file is read that is longer: 512 MiB.
const MAX_FILE: u64 = 512 << 20;
/// LIMIT: bytes of all files of a process, and of what is unpacked of them.
const MAX_ALL: u64 = 1 << 30;

/// How much may still be read of one process.
#[derive(Debug)]
pub(super) struct Budget(u64);

impl Budget {
    pub(super) const fn new() -> Self {
        Self(MAX_ALL)
    }

    /// Takes so many bytes, if there are as many.
    pub(super) fn take(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.checked_sub(bytes).filter(|_| bytes <= MAX_FILE)?;
        Some(())
    }

    /// The content of a regular file, as long as it is when it is opened, or shorter.
    pub(super) fn read(&mut self, path: &Path) -> Option<Arc<[u8]>> {
        // What is there may be a FIFO, or a device that does something when it is opened.
        if !fs::metadata(path).ok()?.is_file() {
            return None;
        }
        // It may have been replaced by one since; and somebody may hold a lease.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).ok()?;
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        let there = file.metadata().ok().filter(fs::Metadata::is_file)?;
        self.take(there.len())?;
        let mut bytes = Vec::with_capacity(usize::try_from(there.len()).ok()?);
        file.take(there.len()).read_to_end(&mut bytes).ok()?;
        Some(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_sensible_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("small"), b"abc").unwrap();
        assert_eq!(Budget::new().read(&path("small")).as_deref(), Some(&b"abc"[..]));
        File::create(path("large")).unwrap().set_len(MAX_FILE + 1).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RUSR).unwrap();
        for other in [path("large"), path("fifo"), path("none"), "/dev/zero".into(), "/".into()] {
            assert_eq!(Budget::new().read(&other), None, "{}", other.display());
        }
    }

    #[test]
    fn all_together_are_bounded() {
        let mut budget = Budget::new();
        assert_eq!(budget.take(MAX_FILE + 1), None);
        assert_eq!([(); 3].map(|()| budget.take(MAX_FILE)), [Some(()), Some(()), None]);
    }
}
