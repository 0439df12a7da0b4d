//! Files that a verb writes. They are opened before anything runs, so that what cannot be written
//! is said before a program has run for it; what they had is kept until there is something to
//! write.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, fstat};

use crate::descriptors::Waiting;

/// A file, or standard output.
pub(crate) enum Out {
    Stdout,
    File(File, Name),
}

/// A file's name. One that was made for nothing is taken away again.
pub(crate) struct Name {
    path: PathBuf,
    is_in_vain: bool,
}

impl Out {
    /// Keeps what the file has.
    ///
    /// # Errors
    /// Which file cannot be written, and why.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let mut options = File::options();
        options.write(true);
        let (file, is_in_vain) = match options.clone().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).truncate(false).open(path), false)
            }
            made => (made, true),
        };
        let file = file.map_err(|error| said(path, &error))?;
        Ok(Self::File(file, Name { path: path.to_owned(), is_in_vain }))
    }

    fn place(&self) -> Option<Place> {
        match self {
            Self::Stdout => place_of(io::stdout()),
            Self::File(file, _) => place_of(file),
        }
    }

    /// Empties the file.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn begin(self) -> Result<Box<dyn Write>, String> {
        match self {
            Self::Stdout => {
                let to = Waiting(io::stdout());
                Ok(Box::new(Named { to, name: "cannot write to standard output".to_owned() }))
            }
            Self::File(file, mut name) => {
                let is_plain = file.metadata().is_ok_and(|about| about.is_file());
                // Pipes and devices have no length.
                let emptied = if is_plain { file.set_len(0) } else { Ok(()) };
                emptied.map_err(|error| said(&name.path, &error))?;
                name.is_in_vain = false;
                Ok(Box::new(Named { to: file, name: name.path.display().to_string() }))
            }
        }
    }
}

/// A file whose errors say which it is.
struct Named<T> {
    to: T,
    name: String,
}

impl<T> Named<T> {
    fn name(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.name))
    }
}

impl<T: Write> Write for Named<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).map_err(|error| self.name(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush().map_err(|error| self.name(&error))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.is_in_vain {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Where a file is, whatever it is called: its device, and its number there.
pub(crate) type Place = (u64, u64);

/// Whether these files differ, and none of them is the one that is read; `options` name both.
///
/// # Errors
/// Which are the same.
pub(crate) fn check(
    outs: [Option<&Out>; 2],
    source: Option<Place>,
    options: &str,
) -> Result<(), String> {
    let [first, second] = outs.map(|out| out.and_then(Out::place));
    let is_same = |one: Option<_>, other| one.is_some() && one == other;
    if is_same(first, source) || is_same(second, source) {
        Err("the file to be written is the one that is read".to_owned())
    } else if is_same(first, second) {
        Err(format!("{options} are the same file"))
    } else {
        Ok(())
    }
}

/// Where a file is; `None` for pipes, terminals and devices, which may be
/// written to by several.
pub(crate) fn place_of(file: impl AsFd) -> Option<Place> {
    let about = fstat(file).ok()?;
    let is_plain = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    is_plain.then_some((about.st_dev, about.st_ino))
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
