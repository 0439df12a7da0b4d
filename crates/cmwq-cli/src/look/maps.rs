//! Which code a process has mapped from where, as `/proc/PID/maps` tells, and where the files are
//! to be had.

use std::borrow::Cow;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use cmwq::foreign::harmless;

/// What the kernel says behind the name of a file that is not there any more.
const DELETED: &str = " (deleted)";
/// The code that the kernel itself gives to each process.
const VDSO: &str = "[vdso]";

/// A piece of a file's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) range: Range<u64>,
    /// Where in the file it begins.
    pub(super) offset: u64,
    /// As the kernel tells it.
    pub(super) path: String,
}

/// All that these lines tell.
pub(super) fn read(maps: &str) -> Vec<Mapping> {
    maps.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (range, access, offset) = (fields.next()?, fields.next()?, fields.next()?);
    let path = fields.nth(2)?.trim_start();
    if !access.contains('x') || !(path.starts_with('/') || path == VDSO) {
        return None;
    }
    let (begin, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let range = number(begin)?..number(end)?;
    Some(Mapping { range, offset: number(offset)?, path: path.to_owned() })
}

impl Mapping {
    pub(super) fn is_vdso(&self) -> bool {
        self.path == VDSO
    }

    /// The file's name, without where it is.
    pub(super) fn name(&self) -> Cow<'_, str> {
        let path = self.path.strip_suffix(DELETED).unwrap_or(&self.path);
        harmless(path.rsplit('/').next().unwrap_or_default())
    }

    /// The file, if it can be had: of process `pid`, which may see other files than this one, or
    /// has deleted it; or, without a process, where it was.
    pub(super) fn file(&self, pid: Option<u32>) -> Option<PathBuf> {
        let mut candidates = Vec::new();
        let is_there = !self.is_vdso() && !self.path.ends_with(DELETED);
        if let Some(pid) = pid {
            let process = PathBuf::from(format!("/proc/{pid}"));
            let exe = process.join("exe");
            if fs::read_link(&exe).is_ok_and(|link| link == Path::new(&self.path)) {
                candidates.push(exe);
            }
            if is_there {
                candidates.push(process.join("root").join(self.path.trim_start_matches('/')));
            } else {
                // For root only.
                let Range { start, end } = self.range;
                candidates.push(process.join("map_files").join(format!("{start:x}-{end:x}")));
            }
        }
        if is_there {
            candidates.push(PathBuf::from(&self.path));
        }
        let is_usable = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file());
        candidates.into_iter().find(is_usable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line = "55c02617f000-55c026716000 r-xp 00206000 fe:01 123  /a b/prog (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!((mapping.range.start, mapping.offset), (0x55c0_2617_f000, 0x20_6000));
        assert_eq!((mapping.path.as_str(), &*mapping.name()), ("/a b/prog (deleted)", "prog"));
        assert_eq!(mapping.file(None), None, "what is there now may be another one");
        assert!(parse("7f-80 r-xp 00000000 00:00 0 [vdso]").unwrap().is_vdso());
        for other in [
            "7f-80 r--p 00000000 fe:01 5 /lib/libc.so",
            "7f-80 r-xp 00000000 00:00 0 [vsyscall]",
            "7f-80 r-xp 00000000 00:00 0",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
