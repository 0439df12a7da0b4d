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
    Directory(Arc<Path>),
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
            Place::Directory(directory) => join(directory, name),
        }
    }

    /// Opens the place.
    pub(crate) fn open(&self) -> Result<OpenPlace<'_>, Errno> {
        let directory = match self {
            Place::Arguments => None,
            Place::Directory(path) => Some(files::open_place(path)?),
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

    /// Whether its names came from the user.
    pub(crate) fn is_arguments(&self) -> bool {
        matches!(self.place, Place::Arguments)
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
pub(crate) fn join(directory: &Path, name: &CStr) -> Box<[u8]> {
    let (directory, name) = (directory.as_os_str().as_bytes(), name.to_bytes());
    let slash: &[u8] = if directory.ends_with(b"/") { b"" } else { b"/" };
    [directory, slash, name].concat().into()
}

/// The path in the bytes of the file system.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
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
}
