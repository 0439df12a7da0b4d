//! The files of a trace. They are opened before anything runs, so that what cannot be written is
//! said before a program has run for it; what they had is kept until there is something to write.

use std::fs::{self, File};
use std::io::{self, BufWriter, LineWriter, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, fstat};

use super::{Args, Format, Sink, chrome, svg, text, timeline};
use crate::descriptors::Waiting;

/// Where the trace and the picture go: one of the two, or both.
pub(super) struct Outs {
    trace: Option<Out>,
    picture: Option<Out>,
}

impl Outs {
    /// # Errors
    /// Which file cannot be written, and why.
    pub(super) fn open(args: &Args) -> Result<Self, String> {
        let trace = args.output().map(Out::open).transpose()?;
        let picture = args.svg.as_deref().map(Out::open).transpose()?;
        Ok(Self { trace, picture })
    }

    /// Whether they are different files, and none of them is the one that is read.
    ///
    /// # Errors
    /// Which are the same, whatever they are called.
    pub(super) fn check(&self, source: Option<&File>) -> Result<(), super::Failure> {
        let [trace, picture] =
            [&self.trace, &self.picture].map(|out| out.as_ref().and_then(Out::place));
        let source = source.and_then(place_of);
        let is_same = |one: Option<_>, other| one.is_some() && one == other;
        let why = if is_same(trace, source) || is_same(picture, source) {
            "the file to be written is the one that is read"
        } else if is_same(trace, picture) {
            "-o and --svg are the same file"
        } else {
            return Ok(());
        };
        Err(super::Failure::Usage(why.to_owned()))
    }

    /// Empties the files, and takes events for them.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(super) fn begin(
        self,
        args: &Args,
        window: &Range<u64>,
    ) -> Result<Vec<Box<dyn Sink>>, String> {
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        if let Some(out) = self.trace {
            let is_shown = args.format == Format::Text && matches!(out, Out::Stdout);
            let out: Box<dyn Write> = match out.begin()? {
                // To be seen as it happens.
                out if is_shown => Box::new(LineWriter::new(out)),
                out => Box::new(BufWriter::with_capacity(1 << 18, out)),
            };
            sinks.push(match args.format {
                Format::Json => Box::new(chrome::Chrome::new(out)),
                Format::Text => Box::new(text::Text::new(out)),
                Format::Spans => Box::new(timeline::Spans::new(out)),
            });
        }
        if let Some(out) = self.picture {
            sinks.push(Box::new(svg::Svg::new(BufWriter::new(out.begin()?), window.clone())));
        }
        Ok(sinks)
    }
}

/// A file, or standard output.
enum Out {
    Stdout,
    File(File, Name),
}

/// A file's name. One that was made for nothing is taken away again.
struct Name {
    path: PathBuf,
    is_in_vain: bool,
}

impl Out {
    fn open(path: &Path) -> Result<Self, String> {
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

    fn place(&self) -> Option<(u64, u64)> {
        match self {
            Self::Stdout => place_of(io::stdout()),
            Self::File(file, _) => place_of(file),
        }
    }

    fn begin(self) -> Result<Box<dyn Write>, String> {
        match self {
            Self::Stdout => Ok(Box::new(Waiting(io::stdout()))),
            Self::File(file, mut name) => {
                let is_plain = file.metadata().is_ok_and(|about| about.is_file());
                // Pipes and devices have no length.
                let emptied = if is_plain { file.set_len(0) } else { Ok(()) };
                emptied.map_err(|error| said(&name.path, &error))?;
                name.is_in_vain = false;
                Ok(Box::new(Named { file, path: name.path.clone() }))
            }
        }
    }
}

/// A file whose errors say which it is.
struct Named {
    file: File,
    path: PathBuf,
}

impl Named {
    fn name(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), said(&self.path, error))
    }
}

impl Write for Named {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| self.name(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| self.name(&error))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.is_in_vain {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Where a file is, whatever it is called; `None` for pipes, terminals and devices, which may be
/// written to by several.
fn place_of(file: impl AsFd) -> Option<(u64, u64)> {
    let about = fstat(file).ok()?;
    let is_plain = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    is_plain.then_some((about.st_dev, about.st_ino))
}

fn said(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
