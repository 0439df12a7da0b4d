//! The environment of the process, as far as it may be believed.
//!
//! A program with the set-user-ID or set-group-ID bit, or with file capabilities, runs with its
//! owner's privileges in the environment of whoever starts it. So such a program (the kernel says
//! so: `AT_SECURE`) has no variables here at all. Not even those that look harmless are read: what
//! makes a program silent, hides it from tools or refuses a socket helps whoever attacks it, too;
//! and there is one rule to remember.
//!
//! Everything the libraries read is read through this module; `.ci/tidy` looks for exceptions.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Whether the program has privileges that whoever started it has not.
pub(crate) fn is_secure() -> bool {
    // SAFETY: takes a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A variable; `None` in a program with privileges of its own.
pub(crate) fn var_os(name: &str) -> Option<OsString> {
    if is_secure() { None } else { env::var_os(name) }
}

/// As `var_os`, and `None` if it is not UTF-8.
pub fn var(name: &str) -> Option<String> {
    var_os(name)?.into_string().ok()
}

/// Where a process of the user `uid` keeps its sockets: `$XDG_RUNTIME_DIR`, or else the directory
/// for temporary files. A program with privileges of its own takes `/run/user/UID` if there is one,
/// or `/tmp`.
pub(crate) fn runtime_directory(uid: u32) -> PathBuf {
    let own = if is_secure() {
        Some(PathBuf::from(format!("/run/user/{uid}"))).filter(|dir| is_of(dir, uid))
    } else {
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
    };
    own.filter(|dir| dir.is_absolute()).unwrap_or_else(temporary_directory)
}

/// `$TMPDIR`, or `/tmp`.
pub fn temporary_directory() -> PathBuf {
    if is_secure() { PathBuf::from("/tmp") } else { env::temp_dir() }
}

fn is_of(directory: &Path, uid: u32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    directory.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
}
