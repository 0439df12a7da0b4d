//! `--json`: a line for each command, and one about all of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::base64::encoded;
use super::child::End;

/// A command that has ended.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    seq: u64,
    command: Vec<String>,
    /// Every word, where one is not UTF-8 and so is not in `command` as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    command_base64: Option<Vec<String>>,
    /// Absent if it did not end by itself.
    exit: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    started: bool,
    attempts: u32,
    begin: f64,
    seconds: f64,
    stdout: String,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_base64: Option<String>,
    stderr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_base64: Option<String>,
}

/// What became of all.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Summary {
    pub(super) done: u64,
    pub(super) failed: u64,
    /// They ran when enough had failed or somebody had had enough, and were ended.
    pub(super) ended: u64,
    /// They were not started, because enough had failed or somebody had had enough.
    pub(super) left_out: u64,
    /// `--resume` left them out.
    pub(super) resumed: u64,
    pub(super) seconds: f64,
}

#[derive(Serialize)]
struct Last {
    summary: Summary,
}

/// What is told of a run: the last one, of a command that was tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) began: SystemTime,
    pub(super) took: Duration,
    pub(super) attempts: u32,
}

impl Record {
    pub(super) fn new(
        seq: u64,
        words: &[OsString],
        end: End,
        times: Times,
        output: &[Vec<u8>; 2],
    ) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let exact = |bytes: &Vec<u8>| str::from_utf8(bytes).is_err().then(|| encoded(bytes));
        let are_texts = words.iter().all(|word| word.to_str().is_some());
        let words_exact = || words.iter().map(|word| encoded(word.as_bytes())).collect();
        let since = times.began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            seq,
            command: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            command_base64: (!are_texts).then(words_exact),
            exit: if let End::Exit(code) = end { Some(code) } else { None },
            signal: if let End::Signal(signal) = end { Some(signal) } else { None },
            timed_out: end == End::TimedOut,
            started: !matches!(end, End::NotFound | End::NotStarted),
            attempts: times.attempts,
            begin: since.as_secs_f64(),
            seconds: times.took.as_secs_f64(),
            stdout: text(&output[0]),
            stdout_base64: exact(&output[0]),
            stderr: text(&output[1]),
            stderr_base64: exact(&output[1]),
        }
    }
}

/// One line.
pub(super) fn line(record: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("texts and numbers");
    line.push(b'\n');
    line
}

/// The last line.
pub(super) fn last(summary: Summary) -> Vec<u8> {
    line(&Last { summary })
}
