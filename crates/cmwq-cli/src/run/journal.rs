//! `--joblog` and `--resume`: a line for each command that has ended, and those that need not run
//! again.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use os_display::Quotable as _;

use super::child::End;

/// The columns of GNU parallel, which other tools read.
const HEADER: &str = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";
const COLUMNS: usize = 9;

/// See the module header.
#[derive(Debug)]
pub(super) struct Journal {
    file: Mutex<File>,
    /// Number and words of those that have succeeded before.
    done: HashSet<(u64, String)>,
}

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) number: u64,
    pub(super) words: &'a [OsString],
    pub(super) end: End,
    pub(super) started: SystemTime,
    pub(super) took: Duration,
    pub(super) written: u64,
}

/// A command as one would type it, on one line.
pub(super) fn typed(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.maybe_quote().to_string()).collect();
    words.join(" ")
}

impl Journal {
    /// Opens the log, to go on with it (`resumes`) or afresh.
    ///
    /// # Errors
    /// Those of the system, and that the file is something else.
    pub(super) fn open(path: &Path, resumes: bool) -> io::Result<Self> {
        let mut done = HashSet::new();
        let mut is_new = true;
        if resumes && let Some(before) = open_if_there(path)? {
            for (n, line) in BufReader::new(before).split(b'\n').enumerate() {
                let line = String::from_utf8_lossy(&line?).into_owned();
                if n == 0 && format!("{line}\n") != HEADER {
                    let text = "is no log of commands: its first line is another";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                is_new = false;
                done.extend(succeeded(&line));
            }
        }
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(resumes)
            .truncate(!resumes)
            .open(path)?;
        if is_new {
            file.write_all(HEADER.as_bytes())?;
        }
        Ok(Self { file: Mutex::new(file), done })
    }

    /// Whether the command has succeeded before.
    pub(super) fn is_done(&self, number: u64, words: &[OsString]) -> bool {
        !self.done.is_empty() && self.done.contains(&(number, typed(words)))
    }

    /// Adds a line, in one write.
    pub(super) fn add(&self, entry: &Entry<'_>) -> io::Result<()> {
        let since = entry.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (exit, signal) = match entry.end {
            End::Exit(code) => (code, 0),
            End::Signal(signal) => (0, signal),
            // What `timeout` says.
            End::TimedOut => (124, 0),
            End::NotFound => (127, 0),
            End::NotStarted => (126, 0),
        };
        let line = format!(
            "{}\t:\t{:.3}\t{:10.3}\t0\t{}\t{exit}\t{signal}\t{}\n",
            entry.number,
            since.as_secs_f64(),
            entry.took.as_secs_f64(),
            entry.written,
            typed(entry.words)
        );
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Number and words of a line, if that command has succeeded.
fn succeeded(line: &str) -> Option<(u64, String)> {
    let fields: Vec<&str> = line.splitn(COLUMNS, '\t').collect();
    let [number, .., exit, signal, words] = fields.as_slice() else { return None };
    let is_done = fields.len() == COLUMNS && *exit == "0" && *signal == "0";
    Some((number.parse().ok().filter(|_| is_done)?, (*words).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_succeeded_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let (good, bad) = (vec!["a b".into(), "c\td\ne".into()], words("false"));
        let journal = Journal::open(&path, true).unwrap();
        for (number, words, end) in
            [(1, &good, End::Exit(0)), (2, &bad, End::Exit(1)), (3, &bad, End::Signal(9))]
        {
            let (started, took) = (SystemTime::now(), Duration::from_millis(1500));
            journal.add(&Entry { number, words, end, started, took, written: 3 }).unwrap();
        }
        let again = Journal::open(&path, true).unwrap();
        assert!(again.is_done(1, &good));
        assert!(!again.is_done(2, &good), "another number");
        assert!(!again.is_done(1, &bad), "another command");
        assert!(!again.is_done(2, &bad) && !again.is_done(3, &bad), "they failed");
        let afresh = Journal::open(&path, false).unwrap();
        assert!(!afresh.is_done(1, &good));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), HEADER);
    }

    #[test]
    fn another_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "remember the milk\n").unwrap();
        assert!(Journal::open(&path, true).unwrap_err().to_string().contains("no log"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "remember the milk\n");
    }
}
