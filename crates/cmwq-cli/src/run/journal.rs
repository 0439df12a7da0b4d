//! `--joblog` and `--resume`: a line for each command that has ended and whose output was written,
//! and those that need not run again.

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
    done: Done,
}

/// What has succeeded before, by number and words.
#[derive(Debug, Default)]
pub(super) struct Done {
    commands: HashSet<(u64, String)>,
    /// The log has its first line.
    is_begun: bool,
    /// Its last line was cut off, as by a full disk.
    is_cut_off: bool,
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
        let done = if resumes { Done::read(path)? } else { Done::default() };
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .append(resumes)
            .truncate(!resumes)
            .open(path)?;
        if done.is_cut_off {
            file.write_all(b"\n")?;
        }
        if !done.is_begun {
            file.write_all(HEADER.as_bytes())?;
        }
        Ok(Self { file: Mutex::new(file), done })
    }

    /// Whether the command has succeeded before.
    pub(super) fn is_done(&self, number: u64, words: &[OsString]) -> bool {
        self.done.has(number, words)
    }

    /// Adds a line, in one write.
    pub(super) fn add(&self, line: &str) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
    }
}

impl Entry<'_> {
    /// Its line.
    pub(super) fn line(&self) -> String {
        let since = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (exit, signal) = match self.end {
            End::Exit(code) => (code, 0),
            End::Signal(signal) => (0, signal),
            // What `timeout` says.
            End::TimedOut => (124, 0),
            End::NotFound => (127, 0),
            End::NotStarted => (126, 0),
        };
        format!(
            "{}\t:\t{:.3}\t{:10.3}\t0\t{}\t{exit}\t{signal}\t{}\n",
            self.number,
            since.as_secs_f64(),
            self.took.as_secs_f64(),
            self.written,
            typed(self.words)
        )
    }
}

impl Done {
    /// Reads it from a log; nothing, if there is none.
    ///
    /// # Errors
    /// Those of the system, and that the file is something else.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut done = Self::default();
        let Some(log) = open_if_there(path)? else { return Ok(done) };
        let (mut log, mut line) = (BufReader::new(log), Vec::new());
        while log.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            if !done.is_begun && text != HEADER {
                let text = "is no log of commands: its first line is another";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            done.is_begun = true;
            match text.strip_suffix('\n') {
                Some(text) => done.commands.extend(succeeded(text)),
                None => done.is_cut_off = true,
            }
            line.clear();
        }
        Ok(done)
    }

    /// Whether the command has succeeded.
    pub(super) fn has(&self, number: u64, words: &[OsString]) -> bool {
        !self.commands.is_empty() && self.commands.contains(&(number, typed(words)))
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
            let entry = Entry { number, words, end, started, took, written: 3 };
            journal.add(&entry.line()).unwrap();
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

    /// Its disk was full.
    #[test]
    fn a_line_that_was_cut_off_is_not_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let cut_off = format!("{HEADER}1\t:\t1.0\t1.0\t0\t0\t0\t0\ttrue");
        std::fs::write(&path, &cut_off).unwrap();
        let words = ["true".into()];
        let journal = Journal::open(&path, true).unwrap();
        assert!(!journal.is_done(1, &words), "its words may have gone on");
        let (end, started, took) = (End::Exit(0), SystemTime::now(), Duration::ZERO);
        let entry = Entry { number: 1, words: &words, end, started, took, written: 0 };
        journal.add(&entry.line()).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(&(cut_off + "\n1\t")));
        assert!(Journal::open(&path, true).unwrap().is_done(1, &words));
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
