//! How often a thread has given up its CPU to wait for something, as procfs counts it.
//!
//! *Owns* nothing: the file is opened for each question. It is asked a few times in ten
//! milliseconds of a thread's CPU time at most, so a descriptor for each thread would cost more.
//!
//! *Does not* allocate.
//!
//! *Kernel*: `voluntary_ctxt_switches` in `proc_pid_status(5)`.

use core::fmt::Write;
use core::mem::MaybeUninit;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How often the thread `tid` of this process has slept; `None` if procfs does not tell.
pub(crate) fn nr_sleeps(tid: libc::pid_t) -> Option<u64> {
    let mut path = PathText { text: [0; 48], len: 0 };
    write!(path, "/proc/self/task/{tid}/status").ok()?;
    find(File::open(path.as_path()).ok()?)
}

/// Looks line by line: lists of CPUs, nodes and groups may be of any length.
fn find(mut status: impl Read) -> Option<u64> {
    let mut text = [0; 4096];
    let mut len = 0;
    while let Ok(more @ 1..) = status.read(&mut text[len..]) {
        len += more;
        let whole = text[..len].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if let Some(count) = parse(&text[..whole]) {
            return Some(count);
        }
        // A line that fills it all is a list: what is left of it is no line of its own.
        let seen = if whole == 0 && len == text.len() { len - 1 } else { whole };
        text.copy_within(seen..len, 0);
        len -= seen;
    }
    None
}

/// How often the calling thread has slept: the same count, from the kernel itself.
pub(crate) fn own_sleeps() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: `usage` is writable.
    let rc = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if rc != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has written `usage`.
    u64::try_from(unsafe { usage.assume_init() }.ru_nvcsw).ok()
}

fn parse(status: &[u8]) -> Option<u64> {
    let line = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"voluntary_ctxt_switches:"))?;
    str::from_utf8(line).ok()?.trim().parse().ok()
}

/// A short path, on the stack.
struct PathText {
    text: [u8; 48],
    len: usize,
}

impl PathText {
    fn as_path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.text[..self.len]))
    }
}

impl Write for PathText {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        let room = self.text.get_mut(self.len..end).ok_or(core::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{find, parse};

    #[test]
    fn they_are_found_behind_long_lists() {
        for nr_groups in [0, 1_000, 65_536] {
            let groups = "4294967295 ".repeat(nr_groups);
            let text =
                format!("Name:\tx\nGroups:\t{groups}\nvoluntary_ctxt_switches:\t17\nx:\t1\n");
            assert_eq!(find(text.as_bytes()), Some(17), "{nr_groups} groups");
            // However it is cut.
            for most in [1, 7, 100] {
                assert_eq!(find(InParts(text.as_bytes(), most)), Some(17), "{nr_groups}, {most}");
            }
        }
        let other = format!("Groups:\t{}\nnonvoluntary_ctxt_switches:\t4\n", "1 ".repeat(4_000));
        assert_eq!(find(other.as_bytes()), None);
    }

    /// So many bytes at a time at most.
    struct InParts<'a>(&'a [u8], usize);

    impl std::io::Read for InParts<'_> {
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            let len = room.len().min(self.1);
            self.0.read(&mut room[..len])
        }
    }

    #[test]
    fn the_voluntary_switches_are_found() {
        let text = b"Name:\tx\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(parse(text), Some(17));
        assert_eq!(parse(b"nonvoluntary_ctxt_switches:\t4\n"), None);
        assert_eq!(parse(b"voluntary_ctxt_switches:\tmany\n"), None);
        assert_eq!(parse(b""), None);
    }

    #[cfg(not(any(cmwq_loom, cmwq_shuttle, miri)))]
    #[test]
    fn sleeping_counts() {
        use super::nr_sleeps;

        let me = crate::os::sense::sched::gettid();
        let before = nr_sleeps(me).expect("this test needs /proc");
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(nr_sleeps(me).expect("as above") > before);
        assert_eq!(nr_sleeps(libc::pid_t::MAX), None);
    }
}
