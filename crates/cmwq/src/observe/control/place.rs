//! Where the socket is, and that nothing else is there.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::fds;
use crate::os::environment;
use crate::os::sense::{LastingFd, socket};

/// LIMIT: clients that wait to be let in.
const BACKLOG: i32 = 16;

/// What tells one file from another: device and number.
pub(super) type Inode = (u64, u64);

/// The file of a process that names no other: `cmwq-PID.sock` in the user's directory for such
/// files, or in that for temporary ones.
pub fn default_path(pid: u32) -> PathBuf {
    environment::runtime_directory(socket::effective_uid()).join(file_name(pid))
}

/// What it is called there.
pub fn file_name(pid: u32) -> String {
    format!("cmwq-{pid}.sock")
}

/// The file at `path`, whatever it is.
pub(super) fn inode(path: &Path) -> io::Result<Inode> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// Listens at `path`. A socket that a process of the same user has left behind is replaced;
/// anything else that is there stays, and it is an error.
pub(super) fn take(path: &Path) -> io::Result<(LastingFd<UnixListener>, Inode)> {
    // LIMIT: others may leave theirs behind at the same time, but not for ever.
    for _ in 0..3 {
        match fds::remembered(|| socket::listen(path, BACKLOG)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => remove_stale(path)?,
            Err(error) => return Err(error),
            Ok(listener) => match inode(path) {
                Ok(inode) => return Ok((listener, inode)),
                Err(error) => {
                    fds::close(listener);
                    return Err(error);
                }
            },
        }
    }
    Err(in_use("others take it, too"))
}

/// Removes the file of a socket that `inode` says is ours.
pub(super) fn give_up(path: &Path, own: Inode) {
    if inode(path).is_ok_and(|there| there == own) {
        // Somebody may have removed it meanwhile.
        let _ = fs::remove_file(path);
    }
}

fn in_use(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why.to_owned())
}

/// Removes a socket at which nobody listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there?,
    };
    if !there.file_type().is_socket() {
        return Err(in_use("a file that is no socket is there"));
    }
    if there.uid() != socket::effective_uid() {
        return Err(in_use("a socket of another user is there"));
    }
    if socket::is_listened_to(path)? {
        return Err(in_use("another process listens there"));
    }
    // Taken away first and looked at again then: somebody may have replaced it by one that is used.
    let aside = path.with_extension(format!("stale-{}", std::process::id()));
    match socket::rename_anew(path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let why = format!("{}, to which it would be taken aside, is there", aside.display());
            return Err(in_use(&why));
        }
        outcome => outcome?,
    }
    let is_used = socket::is_listened_to(&aside).unwrap_or(true);
    if is_used {
        // Back to where it was, unless a third one is there by now.
        let _ = fs::hard_link(&aside, path);
    }
    fs::remove_file(&aside)?;
    if is_used { Err(in_use("another process listens there")) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
