//! Where output goes: whole commands one after the other, in the order in which they end or were
//! given.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::mem;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::captured::Captured;
use super::lines::{Tagging, tagged};
use super::progress::Progress;
use super::spool::{Part, Spool};

/// What is smaller is kept in memory while it waits for its turn, and its files are closed.
const SMALL: u64 = 64 << 10;
/// LIMIT: what waits for its turn in memory, in bytes; the rest waits on a disk.
const IN_MEMORY: usize = 16 << 20;

/// What one command has written.
#[derive(Debug)]
pub(super) enum Output {
    Nothing,
    /// Standard output and standard error, and what to print before each line.
    Files([Arc<Captured>; 2], Option<Vec<u8>>),
    /// The same, in memory.
    Bytes([Vec<u8>; 2], Option<Vec<u8>>),
}

/// What waits for its turn.
#[derive(Debug)]
enum Waiting {
    Kept(Output),
    /// On a disk, and what to print before each line.
    Spooled(Part, Option<Vec<u8>>),
}

impl Output {
    /// What was captured in files, in memory if it is small.
    pub(super) fn captured(
        files: Option<[Arc<Captured>; 2]>,
        tag: Option<&[u8]>,
    ) -> io::Result<Self> {
        let Some(files) = files else { return Ok(Self::Nothing) };
        let is_small = |file: &Arc<Captured>| file.len().is_ok_and(|len| len <= SMALL);
        let tag = tag.map(<[u8]>::to_vec);
        if !files.iter().all(is_small) {
            return Ok(Self::Files(files, tag));
        }
        let [out, err] = &files;
        Ok(Self::Bytes([out.contents()?, err.contents()?], tag))
    }

    /// How much memory it takes.
    fn size(&self) -> usize {
        match self {
            Self::Bytes(both, _) => both.iter().map(Vec::len).sum(),
            Self::Nothing | Self::Files(..) => 0,
        }
    }

    fn print(self, ours: &mut [File; 2]) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Bytes(both, tag) => {
                both.iter().zip(ours).try_for_each(|(bytes, to)| match &tag {
                    Some(tag) => to.write_all(&tagged(bytes, Some(tag))),
                    None => to.write_all(bytes),
                })
            }
            Self::Files(files, tag) => {
                let mut both = files.iter().zip(ours);
                both.try_for_each(|(from, to)| from.copy_to(&mut Tagging::new(to, tag.as_deref())))
            }
        }
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
    waiting: BTreeMap<u64, Waiting>,
    /// How much memory these take.
    in_memory: usize,
    spool: Spool,
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
        let state = State {
            ours,
            turn: 1,
            waiting: BTreeMap::new(),
            in_memory: 0,
            spool: Spool::default(),
            is_closed: false,
        };
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
            return self.progress.aside(|| state.put(|ours| output.print(ours)));
        }
        if number != state.turn {
            state.keep(number, output);
            return Ok(());
        }
        state.turn += 1;
        self.progress.aside(|| {
            state.put(|ours| output.print(ours))?;
            state.print_those_that_waited()
        })
    }
}

impl State {
    fn put(&mut self, what: impl FnOnce(&mut [File; 2]) -> io::Result<()>) -> io::Result<()> {
        let done = what(&mut self.ours);
        self.is_closed |=
            done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        done
    }

    /// Keeps what has to wait for its turn: where it is, if that is not too much, or on a disk.
    fn keep(&mut self, number: u64, output: Output) {
        let size = output.size();
        let may_stay = match &output {
            Output::Nothing => true,
            Output::Bytes(..) => self.in_memory + size <= IN_MEMORY,
            Output::Files(..) => false,
        };
        let part = if may_stay { None } else { self.spool.put(&output).ok() };
        let waiting = match (part, output) {
            (Some(part), Output::Bytes(_, tag) | Output::Files(_, tag)) => {
                Waiting::Spooled(part, tag)
            }
            // Where there is no room it stays where it is.
            (_, output) => {
                self.in_memory += size;
                Waiting::Kept(output)
            }
        };
        self.waiting.insert(number, waiting);
    }

    fn print_those_that_waited(&mut self) -> io::Result<()> {
        while let Some(waiting) = self.waiting.remove(&self.turn) {
            self.turn += 1;
            match waiting {
                Waiting::Kept(output) => {
                    self.in_memory -= output.size();
                    self.put(|ours| output.print(ours))?;
                }
                Waiting::Spooled(part, tag) => {
                    let spool = mem::take(&mut self.spool);
                    let printed = self.put(|ours| {
                        let mut both = ours.iter_mut().enumerate();
                        both.try_for_each(|(which, to)| {
                            spool.copy(&part, which, &mut Tagging::new(to, tag.as_deref()))
                        })
                    });
                    self.spool = spool;
                    self.spool.remove(&part);
                    printed?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    #[test]
    fn what_waits_is_printed_in_order_from_memory_or_disk() {
        let [out, err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let sink = Sink::new(true, Progress::new(false)).unwrap();
        sink.lock().ours = [out.try_clone().unwrap(), err.try_clone().unwrap()];
        let text = |number: usize| [vec![b'a' + number as u8; IN_MEMORY / 2 - 7], b"x\ny".to_vec()];
        for number in [4, 3, 2, 1] {
            let tag = (number == 2).then(|| b"tag".to_vec());
            sink.finish(number, Output::Bytes(text(number as usize), tag)).unwrap();
            let state = sink.lock();
            assert!(state.in_memory <= IN_MEMORY, "{} after {number}", state.in_memory);
            assert_eq!(state.waiting.len(), [0, 0, 3, 2, 1][number as usize]);
        }
        let contents = |mut file: File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        };
        let [first, mut second, third, fourth] = [1, 2, 3, 4].map(|number| text(number)[0].clone());
        second.splice(0..0, *b"tag\t");
        assert!(contents(out) == [first, second, third, fourth].concat());
        assert_eq!(contents(err), b"x\nytag\tx\ntag\tyx\nyx\ny");
        assert_eq!(sink.lock().in_memory, 0);
    }
}
