//! Where output goes: whole commands one after the other, in the order in which they end or were
//! given.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::captured::Captured;
use super::lines::{Tagging, tagged};
use super::progress::Progress;

/// What is smaller is kept in memory while it waits for its turn, and its files are closed.
const SMALL: u64 = 64 << 10;

/// What one command has written.
#[derive(Debug)]
pub(super) enum Output {
    Nothing,
    /// Standard output and standard error, and what to print before each line.
    Files([Arc<Captured>; 2], Option<Vec<u8>>),
    /// The same, as it is printed.
    Bytes([Vec<u8>; 2]),
}

impl Output {
    /// What was captured in files, in memory if it is small.
    pub(super) fn captured(
        files: Option<[Arc<Captured>; 2]>,
        tag: Option<&[u8]>,
    ) -> io::Result<Self> {
        let Some(files) = files else { return Ok(Self::Nothing) };
        let is_small = |file: &Arc<Captured>| file.len().is_ok_and(|len| len <= SMALL);
        if !files.iter().all(is_small) {
            return Ok(Self::Files(files, tag.map(<[u8]>::to_vec)));
        }
        let [out, err] = &files;
        Ok(Self::Bytes([tagged(&out.contents()?, tag), tagged(&err.contents()?, tag)]))
    }
}

/// See the module header.
#[derive(Debug)]
pub(super) struct Sink {
    keeps_order: bool,
    progress: Progress,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Our own standard output and standard error.
    ours: [File; 2],
    /// The number of the command whose turn it is.
    turn: u64,
    waiting: BTreeMap<u64, Output>,
    /// The reader of standard output has gone.
    is_closed: bool,
}

impl Sink {
    /// # Errors
    /// If descriptors are scarce.
    pub(super) fn new(keeps_order: bool, progress: Progress) -> io::Result<Self> {
        let ours = [
            File::from(io::stdout().as_fd().try_clone_to_owned()?),
            File::from(io::stderr().as_fd().try_clone_to_owned()?),
        ];
        let state = State { ours, turn: 1, waiting: BTreeMap::new(), is_closed: false };
        Ok(Self { keeps_order, progress, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether nobody reads standard output any more.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Writes now, to standard output (0) or standard error (1).
    pub(super) fn write(&self, which: usize, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        self.progress.aside(|| state.put(|ours| ours[which].write_all(bytes)))
    }

    /// The command with this number has ended, or was left out.
    pub(super) fn finish(&self, number: u64, output: Output) -> io::Result<()> {
        let mut state = self.lock();
        if !self.keeps_order {
            return self.print(&mut state, output);
        }
        state.waiting.insert(number, output);
        loop {
            let turn = state.turn;
            let Some(output) = state.waiting.remove(&turn) else { return Ok(()) };
            state.turn += 1;
            self.print(&mut state, output)?;
        }
    }

    fn print(&self, state: &mut State, output: Output) -> io::Result<()> {
        let copy = |ours: &mut [File; 2]| match output {
            Output::Nothing => Ok(()),
            Output::Bytes(both) => {
                ours[0].write_all(&both[0])?;
                ours[1].write_all(&both[1])
            }
            Output::Files(files, tag) => {
                let mut both = files.iter().zip(ours);
                both.try_for_each(|(from, to)| from.copy_to(&mut Tagging::new(to, tag.as_deref())))
            }
        };
        self.progress.aside(|| state.put(copy))
    }
}

impl State {
    fn put(&mut self, what: impl FnOnce(&mut [File; 2]) -> io::Result<()>) -> io::Result<()> {
        let done = what(&mut self.ours);
        self.is_closed |=
            done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        done
    }
}
