//! Where names are looked up: among what the user named, or in a directory.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::CWD;
use rustix::io::Errno;

use super::files::{self, Opened};

/// Where the names of a batch are looked up.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// They are what the user named.
    Arguments,
    /// They are entries of this directory.
    Directory(Directory),
}

/// A directory that was named, or found. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    path: Arc<Path>,
    /// So much of the path is what the user named.
    named: usize,
}

impl Directory {
    /// One that the user named.
    pub(crate) fn named(path: &[u8]) -> Self {
        Self { path: path_of(path).into(), named: path.len() }
    }

    /// Its path, as `find` prints it.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    /// Opens it to be listed.
    pub(crate) fn open(&self) -> Result<OwnedFd, Errno> {
        let (named, rest) = self.split();
        files::open_directory(named, rest)
    }

    fn open_place(&self) -> Result<OwnedFd, Errno> {
        let (named, rest) = self.split();
        files::open_place(named, rest)
    }

    /// What was named, and what was found below it.
    fn split(&self) -> (&Path, &Path) {
        let (named, rest) = self.bytes().split_at(self.named);
        (path_of(named), path_of(rest.strip_prefix(b"/").unwrap_or(rest)))
    }
}

/// A place that is open: names in it can be opened.
#[derive(Debug)]
pub(crate) struct OpenPlace<'a> {
    place: &'a Place,
    /// `None` for the arguments, which are looked up from the current directory.
    directory: Option<OwnedFd>,
}

impl Place {
    /// The path of `name`, as `find` prints it.
    pub(crate) fn join(&self, name: &CStr) -> Box<[u8]> {
        match self {
            Place::Arguments => name.to_bytes().into(),
            Place::Directory(directory) => join(&directory.path, name),
        }
    }

    /// The directory of that path, which [`join`](Self::join) made.
    pub(crate) fn directory(&self, path: &[u8]) -> Directory {
        match self {
            Place::Arguments => Directory::named(path),
            Place::Directory(Directory { named, .. }) => {
                Directory { path: path_of(path).into(), named: *named }
            }
        }
    }

    /// Opens the place.
    pub(crate) fn open(&self) -> Result<OpenPlace<'_>, Errno> {
        let directory = match self {
            Place::Arguments => None,
            Place::Directory(directory) => Some(directory.open_place()?),
        };
        Ok(OpenPlace { place: self, directory })
    }

    /// The place, open already as `directory`.
    pub(crate) fn opened_as(&self, directory: OwnedFd) -> OpenPlace<'_> {
        OpenPlace { place: self, directory: Some(directory) }
    }
}

impl OpenPlace<'_> {
    /// The place that was opened.
    pub(crate) fn place(&self) -> &Place {
        self.place
    }

    /// Opens one of its names for reading, if that is a regular file.
    pub(crate) fn open(&self, name: &CStr) -> Result<Opened, Errno> {
        match self.place {
            Place::Arguments => files::open_argument(name),
            Place::Directory(_) => files::open_entry(self.fd(), name),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_ref().map_or(CWD, |directory| directory.as_fd())
    }
}

/// The path of an entry, with no second slash after a directory that ends with one.
fn join(directory: &Path, name: &CStr) -> Box<[u8]> {
    let (directory, name) = (directory.as_os_str().as_bytes(), name.to_bytes());
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat().into()
}

/// The path in the bytes of the file system.
fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_find_joins_them() {
        for (directory, expected) in [
            (".", "./x"),
            ("a", "a/x"),
            ("a/", "a/x"),
            ("a//", "a//x"),
            ("/", "/x"),
            ("a/.", "a/./x"),
        ] {
            assert_eq!(&*join(Path::new(directory), c"x"), expected.as_bytes(), "{directory}");
        }
    }

    #[test]
    fn what_was_found_is_told_from_what_was_named() {
        for named in ["a", "a/", "a//", "/", "."] {
            let top = Directory::named(named.as_bytes());
            assert_eq!(top.split(), (Path::new(named), Path::new("")));
            let place = Place::Directory(top);
            let below = place.directory(&place.join(c"x"));
            assert_eq!(below.split(), (Path::new(named), Path::new("x")));
            let place = Place::Directory(below);
            let deeper = place.directory(&place.join(c"y"));
            assert_eq!(deeper.split(), (Path::new(named), Path::new("x/y")));
        }
    }
}
