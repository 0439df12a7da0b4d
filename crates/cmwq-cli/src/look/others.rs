//! The processes of this machine: which use cmwq, and what they are called.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;

use cmwq_observe::inspect::{OpenError, ReadError, Target};

use crate::stat;

/// LIMIT: bytes of a command line that are read.
const MAX_COMMAND: u64 = 4096;

/// What all processes were asked, and what they answered.
#[derive(Debug)]
pub(crate) struct Others<T> {
    /// What was taken from those that show workqueues, in the order of their numbers.
    pub(crate) taken: Vec<T>,
    /// Those that have workqueues to show, which cannot be read, and why.
    pub(crate) unreadable: Vec<(u32, String)>,
    /// How many did not let themselves be looked into.
    pub(crate) denied: u32,
}

impl<T> Others<T> {
    /// Looks at each process except this one. One after the other: what many show at once may have
    /// no room in this one's memory.
    ///
    /// # Errors
    /// As [`pids`].
    pub(crate) fn look(take: impl Fn(&Target) -> Result<T, ReadError>) -> Result<Self, String> {
        let mut others = Self { taken: Vec::new(), unreadable: Vec::new(), denied: 0 };
        for pid in pids()? {
            let taken =
                Target::open(pid).and_then(|target| take(&target).map_err(OpenError::Unreadable));
            match taken {
                Ok(taken) => others.taken.push(taken),
                Err(OpenError::PermissionDenied { .. }) => others.denied += 1,
                // It has gone, or has nothing to show.
                Err(OpenError::NoSuchProcess | OpenError::NotCmwq) => {}
                Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => others.unreadable.push((pid, error.to_string())),
            }
        }
        Ok(others)
    }
}

/// The numbers of all processes, in order, without this one.
///
/// # Errors
/// What is wrong, in one line: procfs shows none at all.
pub(crate) fn pids() -> Result<Vec<u32>, String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let number = |name: std::ffi::OsString| name.to_str()?.parse().ok();
    let mut pids: Vec<u32> = entries.filter_map(|entry| number(entry.file_name())).collect();
    if pids.is_empty() {
        return Err("processes cannot be listed: /proc shows none; is it mounted?".to_owned());
    }
    pids.retain(|pid| *pid != std::process::id());
    pids.sort_unstable();
    Ok(pids)
}

/// Process `root` and those that it has started, and so on, in order of their numbers after it.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let pids = pids().unwrap_or_default();
    let parents: HashMap<u32, u32> =
        pids.iter().filter_map(|pid| Some((*pid, parent(*pid)?))).collect();
    let is_below = |mut pid: u32| {
        // A circle cannot be, but numbers are used again while this looks.
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(parent) if *parent == root => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    [root].into_iter().chain(pids.iter().copied().filter(|pid| is_below(*pid))).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = stat::read(format!("/proc/{pid}/stat")).ok()?;
    stat::fields(&stat)?.nth(1)?.parse().ok()
}

/// What a process is called: its name as the kernel has it, and that of the file it was started by.
pub(crate) fn names(pid: u32) -> Vec<String> {
    let comm = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let mut names = vec![String::from_utf8_lossy(comm.trim_ascii_end()).into_owned()];
    if let Some(first) = words(pid).first() {
        let base = std::path::Path::new(std::ffi::OsStr::from_bytes(first)).file_name();
        names.extend(base.map(|base| base.to_string_lossy().into_owned()));
    }
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

/// How it was started: whatever it says.
pub(crate) fn command(pid: u32) -> String {
    let words: Vec<_> =
        words(pid).iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let line = words.join(" ");
    if line.is_empty() { names(pid).first().cloned().unwrap_or_default() } else { line }
}

fn words(pid: u32) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/cmdline")) {
        let _ = file.take(MAX_COMMAND).read_to_end(&mut bytes);
    }
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_not_among_the_others() {
        assert!(!pids().unwrap().contains(&std::process::id()));
        assert!(!names(std::process::id()).is_empty());
    }
}
