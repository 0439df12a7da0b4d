//! The state of a thread, as procfs shows it.
//!
//! *Owns* a descriptor that is opened once and read again and again, which costs a third of opening
//! it each time.
//!
//! *Does not* allocate when asked: the answer is read into the stack.
//!
//! *Kernel*: `proc_pid_stat(5)`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::budget::{above_streams, is_within, within_budget};
use super::lasting_fd::LastingFd;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// `R`: on a CPU, or waiting for one.
    Runnable,
    /// `S`: waiting, and a signal would wake it.
    Sleeping,
    /// `D`: waiting for a device, and nothing else would wake it.
    DiskSleep,
    /// `T` or `t`: stopped by a signal or a debugger.
    Stopped,
    /// It has ended, or is about to.
    Gone,
    /// Another letter.
    Other(u8),
}

impl ThreadState {
    /// Whether the thread leaves its CPU to others: anything but runnable.
    pub(crate) fn is_blocked(self) -> bool {
        self != Self::Runnable
    }

    fn from_letter(letter: u8) -> Self {
        match letter {
            b'R' => Self::Runnable,
            b'S' => Self::Sleeping,
            b'D' => Self::DiskSleep,
            b'T' | b't' => Self::Stopped,
            b'X' | b'x' | b'Z' => Self::Gone,
            other => Self::Other(other),
        }
    }
}

/// The opened `stat` file of a thread, of this process or another.
#[derive(Debug)]
pub(crate) struct StatFile {
    file: LastingFd<File>,
}

impl StatFile {
    /// Opens the file of this process's thread `tid`.
    ///
    /// The file stays with that thread: should its number be reused, this one still says
    /// [`ThreadState::Gone`].
    ///
    /// # Errors
    /// If there is no such thread, no procfs, or descriptors are scarce.
    pub(crate) fn open(tid: libc::pid_t) -> io::Result<Self> {
        let file = File::open(format!("/proc/self/task/{tid}/stat"))?;
        Ok(Self { file: LastingFd::new(within_budget(file)?) })
    }

    /// Opens that of any process's thread by its name, with the same promise. Who keeps it asks
    /// [`is_within`](Self::is_within).
    ///
    /// # Errors
    /// If there is no such thread, or descriptors are scarce.
    pub(super) fn open_path(path: &Path) -> io::Result<Self> {
        Ok(Self { file: LastingFd::new(above_streams(File::open(path)?)?) })
    }

    /// Whether it may be kept, to be read now and then: the library has not as many descriptors as
    /// its `budget`.
    pub(super) fn is_within(&self, budget: libc::rlim_t) -> bool {
        is_within(budget, &*self.file)
    }

    /// What the thread is doing.
    ///
    /// # Errors
    /// If procfs does not answer, or not in a way that can be understood.
    pub(crate) fn state(&self) -> io::Result<ThreadState> {
        // LIMIT: number, name (escaped: twice 15) and state take at most 10 + 30 + 6 bytes; what is
        // cut off is not looked at, since that takes longer than all the rest. Only the kernel's
        // own threads have longer names, and nobody asks for those.
        let mut text = [0; 48];
        let Some(len) = self.read(&mut text)? else { return Ok(ThreadState::Gone) };
        parse_state(&text[..len]).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// What the thread is doing, and how many threads its process has.
    ///
    /// # Errors
    /// As [`state`](Self::state).
    pub(super) fn state_and_threads(&self) -> io::Result<(ThreadState, u64)> {
        // LIMIT: a name of 64 bytes and 19 numbers of at most 20 digits.
        let mut text = [0; 512];
        let Some(len) = self.read(&mut text)? else { return Ok((ThreadState::Gone, 0)) };
        let text = &text[..len];
        let found = parse_state(text).zip(parse_threads(text));
        found.ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Reads the beginning. `None`: the thread has gone.
    fn read(&self, text: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            return match self.file.read_at(text, 0) {
                Ok(len) => Ok(Some(len)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Ok(None),
                Err(e) => Err(e),
            };
        }
    }
}

/// Finds the state in `NUMBER (NAME) STATE …`, where the name may hold anything, parentheses
/// included.
fn parse_state(text: &[u8]) -> Option<ThreadState> {
    match behind_name(text)? {
        [b' ', letter, b' ', ..] => Some(ThreadState::from_letter(*letter)),
        _ => None,
    }
}

/// The twentieth field.
fn parse_threads(text: &[u8]) -> Option<u64> {
    let fields = str::from_utf8(behind_name(text)?).ok()?;
    fields.split_ascii_whitespace().nth(20 - 3)?.parse().ok()
}

fn behind_name(text: &[u8]) -> Option<&[u8]> {
    let name_end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(name_end + 1..)
}

#[cfg(test)]
mod tests {
    use super::{ThreadState, parse_state, parse_threads};

    #[test]
    fn the_state_follows_the_last_parenthesis() {
        use ThreadState::{DiskSleep, Gone, Other, Runnable, Sleeping, Stopped};
        assert_eq!(parse_state(b"17 (cat) R 1 17"), Some(Runnable));
        assert_eq!(parse_state(b"17 (a b) S 1 17"), Some(Sleeping));
        assert_eq!(parse_state(b"17 () R 1) D 1 17"), Some(DiskSleep));
        assert_eq!(parse_state(b"17 (() T 1 17"), Some(Stopped));
        assert_eq!(parse_state(b"17 (\xff\n) t 1 17"), Some(Stopped));
        assert_eq!(parse_state(b"17 (cat) Z 1"), Some(Gone));
        assert_eq!(parse_state(b"17 (cat) I 1"), Some(Other(b'I')));
        for text in
            [&b""[..], b"17", b"17 (cat", b"17 (cat)", b"17 (cat) ", b"17 (cat) R", b"17 (cat)R 1"]
        {
            assert_eq!(parse_state(text), None, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn the_number_of_threads_is_the_twentieth_field() {
        let text = b"17 (a) b) S 1 17 17 0 -1 64 9 0 0 0 2 1 0 0 20 0 34 0 5 6 7";
        assert_eq!(parse_threads(text), Some(34));
        assert_eq!(parse_threads(b"17 (a) S 1 17 17 0 -1 64 9 0 0 0 2 1 0 0 20 0"), None);
        assert_eq!(parse_threads(b""), None);
    }

    #[test]
    fn only_runnable_threads_are_not_blocked() {
        assert!(!ThreadState::Runnable.is_blocked());
        assert!(ThreadState::Sleeping.is_blocked() && ThreadState::Gone.is_blocked());
        assert!(ThreadState::Other(b'?').is_blocked());
    }
}
