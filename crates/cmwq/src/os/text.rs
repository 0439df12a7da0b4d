//! Files of the system that people's names are in, which may be any bytes.

use std::fs;
use std::path::Path;

/// What such a file says; `None`: that is refused. A thread's name is cut after so many bytes, be
/// it within a character, and those of mount points and cgroups are others' affair.
pub(crate) fn read(file: impl AsRef<Path>) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}
