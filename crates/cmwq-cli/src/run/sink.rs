//! Where output goes: whole commands one after the other, in the order in which they end or were
//! given. The log gets a command's line behind its output: `--resume` makes output again that could
//! not be written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::fstat;
use rustix::io::Errno;

use super::captured::Captured;
use super::journal::Journal;
use super::lines::Tagging;
use super::progress::Progress;
use super::spool::{Part, Spool};
use crate::descriptors;

/// So much gets its tags at once.
const CHUNK: usize = 64 << 10;
/// LIMIT: what waits for its turn in memory, in bytes; the rest waits on a disk.
const IN_MEMORY: usize = 16 << 20;
/// LIMIT: nothing starts while commands that have ended have more to print than this, in bytes, and
/// wait until somebody else has printed his.
const BEHIND: u64 = 64 << 20;

/// What one command has written.
#[derive(Debug)]
pub(super) enum Output {
    Nothing,
    /// Standard output and standard error, and what to print before each line.
    Bytes([Vec<u8>; 2], Option<Vec<u8>>),
    /// The same, partly on a disk.
    Files([Arc<Captured>; 2], Option<Vec<u8>>),
}

/// What waits for its turn.
#[derive(Debug)]
enum Waiting {
    /// With the line that it has in the log then.
    Here(Output, Option<String>),
    /// The same on a disk, and what to print before each line of output.
    Spooled(Part, Option<Vec<u8>>),
}

impl Output {
    /// What a command that has ended has written.
    pub(super) fn captured(files: Option<[Arc<Captured>; 2]>, tag: Option<&[u8]>) -> Self {
        let Some(files) = files else { return Self::Nothing };
        let tag = tag.map(<[u8]>::to_vec);
        if files.iter().any(|file| file.is_on_disk()) {
            return Self::Files(files, tag);
        }
        Self::Bytes(files.map(|file| file.take_bytes()), tag)
    }

    /// How much there is to print.
    fn len(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Bytes(both, _) => both.iter().map(|bytes| bytes.len() as u64).sum(),
            Self::Files(files, _) => files.iter().map(|file| file.len()).sum(),
        }
    }

    /// How much memory it takes.
    fn size(&self) -> usize {
        match self {
            Self::Bytes(both, _) => both.iter().map(Vec::len).sum(),
            Self::Nothing | Self::Files(..) => 0,
        }
    }

    fn print(self, ours: &mut [Ours; 2]) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Bytes(both, tag) => both.iter().zip(ours).try_for_each(|(bytes, to)| {
                if bytes.is_empty() {
                    return Ok(());
                }
                to.aside(|to| {
                    let Some(tag) = &tag else { return to.write_all(bytes) };
                    let mut tagging = Tagging::new(to, Some(tag));
                    bytes.chunks(CHUNK).try_for_each(|part| tagging.write_all(part))
                })
            }),
            Self::Files(files, tag) => files.iter().zip(ours).try_for_each(|(from, to)| {
                to.aside(|to| from.copy_to(&mut Tagging::new(to, tag.as_deref())))
            }),
        }
    }
}

/// Our own standard output or standard error.
#[derive(Debug)]
struct Ours {
    to: File,
    /// Without a reader there is nothing left to do. If not, what is written to it is dropped then.
    is_needed: bool,
    is_closed: bool,
    /// What makes room for what is written to it alone.
    bar: Option<Progress>,
}

impl Ours {
    /// Whether such an error says that nobody reads any more: a terminal that has hung up is gone,
    /// too. Where what is written is needed that is told as an error.
    fn is_gone(&self, error: &io::Error) -> bool {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return true;
        }
        let is_device = || self.to.metadata().is_ok_and(|it| it.file_type().is_char_device());
        let is_of_input = error.raw_os_error() == Some(Errno::IO.raw_os_error());
        is_of_input && !self.is_needed && is_device()
    }

    fn aside<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        match self.bar.clone() {
            Some(bar) => bar.aside(|| write(self)),
            None => write(self),
        }
    }
}

impl io::Write for Ours {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed && !self.is_needed {
            return Ok(bytes.len());
        }
        let written = descriptors::write(&self.to, bytes);
        if !written.as_ref().is_err_and(|error| self.is_gone(error)) {
            return written;
        }
        self.is_closed = true;
        if self.is_needed { written } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// See the module header.
#[derive(Debug)]
pub(super) struct Sink {
    keeps_order: bool,
    progress: Progress,
    /// Standard output is a terminal, as standard error is where the bar is shown.
    is_terminal: bool,
    journal: Option<Journal>,
    /// Nobody reads standard output any more.
    // ORDERING (all accesses): no pairing: it is asked by whom a write has failed, and at the end.
    // Not under the lock, which somebody may have who waits for a reader.
    is_closed: AtomicBool,
    /// How much those have to print that wait for `state`.
    // ORDERING (all accesses): no pairing: a number.
    behind: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ours: [Ours; 2],
    /// The number of the command whose turn it is.
    turn: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// How much memory these take.
    in_memory: usize,
    spool: Spool,
}

impl Sink {
    /// # Errors
    /// If descriptors are scarce.
    pub(super) fn new(
        keeps_order: bool,
        progress: Progress,
        journal: Option<Journal>,
    ) -> io::Result<Self> {
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let err = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        // As with `2>&1 | head`.
        let are_one = is_same(&out, &err);
        let is_terminal = out.is_terminal();
        let ours = |to, is_needed, bar| Ours { to, is_needed, is_closed: false, bar };
        let alone = (!is_terminal).then(|| progress.clone());
        let ours = [ours(out, true, None), ours(err, are_one, alone)];
        let state = State {
            ours,
            turn: 1,
            waiting: BTreeMap::new(),
            in_memory: 0,
            spool: Spool::default(),
        };
        let (is_closed, behind) = (AtomicBool::new(false), AtomicU64::new(0));
        let state = Mutex::new(state);
        Ok(Self { keeps_order, progress, is_terminal, journal, is_closed, behind, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(super) fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// Whether nobody reads standard output any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }

    /// Whether much waits until the reader has taken what is printed now. Who prints that says
    /// nothing of the reader: it may be one large output.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.load(Relaxed) > BEHIND
    }

    /// Notes whether somebody reads still, where something could not be written.
    fn noted<T>(&self, state: &State, written: io::Result<T>) -> io::Result<T> {
        if written.is_err() && state.ours.iter().any(|ours| ours.is_needed && ours.is_closed) {
            self.is_closed.store(true, Relaxed);
        }
        written
    }

    /// Prints something while the bar is not there. Not where standard output is no terminal: a
    /// reader as `less` takes it when he wants, and until then nobody could draw the bar, or say
    /// something. Then the bar makes room for standard error alone.
    fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        if self.is_terminal { self.progress.aside(print) } else { print() }
    }

    /// Writes now, to standard output (0) or standard error (1).
    pub(super) fn write(&self, which: usize, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        let written = self.aside(|| state.ours[which].aside(|to| to.write_all(bytes)));
        self.noted(&state, written)
    }

    /// The command with this number has ended, or was left out. `line`: for the log, when its
    /// output has been written.
    pub(super) fn finish(
        &self,
        number: u64,
        output: Output,
        line: Option<String>,
    ) -> io::Result<()> {
        let len = output.len();
        self.behind.fetch_add(len, Relaxed);
        let mut state = self.lock();
        self.behind.fetch_sub(len, Relaxed);
        if !self.keeps_order {
            let printed = self.aside(|| output.print(&mut state.ours));
            return self.noted(&state, printed).and_then(|()| self.log(line));
        }
        if number != state.turn {
            state.keep(number, output, line);
            return Ok(());
        }
        state.turn += 1;
        let printed = self.aside(|| {
            output.print(&mut state.ours)?;
            self.log(line)?;
            while let Some(line) = state.print_next()? {
                self.log(line)?;
            }
            Ok(())
        });
        self.noted(&state, printed)
    }

    fn log(&self, line: Option<String>) -> io::Result<()> {
        match (&self.journal, line) {
            (Some(journal), Some(line)) => journal.add(&line),
            _ => Ok(()),
        }
    }
}

fn is_same(one: &File, other: &File) -> bool {
    let place = |file: &File| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    matches!((place(one), place(other)), (Ok(one), Ok(other)) if one == other)
}

impl State {
    /// Keeps what has to wait for its turn: where it is, if that is not too much, or on a disk.
    fn keep(&mut self, number: u64, output: Output, line: Option<String>) {
        let size = size(&output, line.as_ref());
        let may_stay = match &output {
            Output::Nothing | Output::Bytes(..) => self.in_memory + size <= IN_MEMORY,
            Output::Files(..) => false,
        };
        let part = if may_stay {
            None
        } else {
            self.spool.put(&output, line.as_deref().unwrap_or_default()).ok()
        };
        let waiting = match (part, output) {
            (Some(part), Output::Nothing) => Waiting::Spooled(part, None),
            (Some(part), Output::Bytes(_, tag) | Output::Files(_, tag)) => {
                Waiting::Spooled(part, tag)
            }
            // Where there is no room it stays where it is.
            (None, output) => {
                self.in_memory += size;
                Waiting::Here(output, line)
            }
        };
        self.waiting.insert(number, waiting);
    }

    /// Prints what the next command has written, if that waits for its turn: its line in the log.
    fn print_next(&mut self) -> io::Result<Option<Option<String>>> {
        let Some(waiting) = self.waiting.remove(&self.turn) else { return Ok(None) };
        self.turn += 1;
        match waiting {
            Waiting::Here(output, line) => {
                self.in_memory -= size(&output, line.as_ref());
                output.print(&mut self.ours)?;
                Ok(Some(line))
            }
            Waiting::Spooled(part, tag) => {
                let mut both = self.ours.iter_mut().enumerate();
                let printed = both.try_for_each(|(which, to)| {
                    let copy = |to: &mut Ours| {
                        self.spool.copy(&part, which, &mut Tagging::new(to, tag.as_deref()))
                    };
                    to.aside(copy)
                });
                let line = printed.and_then(|()| self.spool.line(&part));
                self.spool.remove(&part);
                Ok(Some(Some(line?).filter(|line| !line.is_empty())))
            }
        }
    }
}

/// How much memory they take.
fn size(output: &Output, line: Option<&String>) -> usize {
    output.size() + line.map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn contents(mut file: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn lines_of_the_log_wait_in_order_in_memory_or_on_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let journal = Journal::open(&path, false).unwrap();
        let header = contents(File::open(&path).unwrap());
        let sink = Sink::new(true, Progress::new(false), Some(journal)).unwrap();
        let line = |number: u64| number.to_string().repeat(IN_MEMORY / 4) + "\n";
        for number in (1..=9).rev() {
            sink.finish(number, Output::Nothing, Some(line(number))).unwrap();
            let state = sink.lock();
            assert!(state.in_memory <= IN_MEMORY, "{} after {number}", state.in_memory);
        }
        let lines: String = (1..=9).map(line).collect();
        assert!(contents(File::open(&path).unwrap()) == [header, lines.into_bytes()].concat());
        assert_eq!(sink.lock().in_memory, 0);
    }

    /// As of a reader as `less`, while others have ended.
    #[test]
    fn whoever_waits_for_a_reader_counts_until_it_is_his_turn() {
        let sink = Sink::new(false, Progress::new(false), None).unwrap();
        let [out, err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        for (ours, file) in sink.lock().ours.iter_mut().zip([&out, &err]) {
            ours.to = file.try_clone().unwrap();
        }
        let half = usize::try_from(BEHIND / 2).unwrap();
        let output = |len| Output::Bytes([vec![b'a'; len], Vec::new()], None);
        std::thread::scope(|scope| {
            let reading = sink.lock();
            scope.spawn(|| sink.finish(1, output(half), None).unwrap());
            while sink.behind.load(Relaxed) < half as u64 {
                std::thread::yield_now();
            }
            assert!(!sink.is_behind(), "there is room for others");
            scope.spawn(|| sink.finish(2, output(half + 1), None).unwrap());
            while !sink.is_behind() {
                std::thread::yield_now();
            }
            drop(reading);
        });
        assert_eq!(sink.behind.load(Relaxed), 0);
        assert_eq!(out.metadata().unwrap().len(), BEHIND + 1);
    }

    #[test]
    fn what_waits_is_printed_in_order_from_memory_or_disk() {
        let [out, err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let sink = Sink::new(true, Progress::new(false), None).unwrap();
        for (ours, file) in sink.lock().ours.iter_mut().zip([&out, &err]) {
            ours.to = file.try_clone().unwrap();
        }
        let text = |number: usize| [vec![b'a' + number as u8; IN_MEMORY / 2 - 7], b"x\ny".to_vec()];
        for number in [4, 3, 2, 1] {
            let tag = (number == 2).then(|| b"tag".to_vec());
            sink.finish(number, Output::Bytes(text(number as usize), tag), None).unwrap();
            let state = sink.lock();
            assert!(state.in_memory <= IN_MEMORY, "{} after {number}", state.in_memory);
            assert_eq!(state.waiting.len(), [0, 0, 3, 2, 1][number as usize]);
        }
        let [first, mut second, third, fourth] = [1, 2, 3, 4].map(|number| text(number)[0].clone());
        second.splice(0..0, *b"tag\t");
        assert!(contents(out) == [first, second, third, fourth].concat());
        assert_eq!(contents(err), b"x\nytag\tx\ntag\tyx\nyx\ny");
        assert_eq!(sink.lock().in_memory, 0);
    }
}
