//! Output that waits for its turn and is too much for memory: in one file without a name, so that
//! each takes no descriptors either.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::ops::Range;

use rustix::fs::{FallocateFlags, fallocate};

use super::captured::copy;
use super::sink::Output;

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Spool {
    file: Option<File>,
    end: u64,
    /// How many wait in it.
    waiting: u64,
}

/// What one command has written.
#[derive(Debug)]
pub(super) struct Part {
    start: u64,
    /// Of standard output, of standard error, and of the line for the log, one behind the other.
    lens: [u64; 3],
}

impl Part {
    fn len(&self) -> u64 {
        self.lens.iter().sum()
    }

    /// Where it has standard output (0), standard error (1), or the line (2).
    fn range(&self, which: usize) -> Range<u64> {
        let start = self.start + self.lens[..which].iter().sum::<u64>();
        start..start + self.lens[which]
    }
}

impl Spool {
    /// Adds what a command has written, and its line for the log.
    ///
    /// # Errors
    /// If there is no place for temporary files, or what was captured cannot be read. Nothing is
    /// added then.
    pub(super) fn put(&mut self, output: &Output, line: &str) -> io::Result<Part> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        file.seek(SeekFrom::Start(self.end))?;
        let mut lens = [0, 0, line.len() as u64];
        match output {
            Output::Nothing => {}
            Output::Bytes(both, _) => {
                for (bytes, len) in both.iter().zip(&mut lens) {
                    file.write_all(bytes)?;
                    *len = bytes.len() as u64;
                }
            }
            Output::Files(files, _) => {
                for (from, len) in files.iter().zip(&mut lens) {
                    let before = file.stream_position()?;
                    from.copy_to(file)?;
                    *len = file.stream_position()? - before;
                }
            }
        }
        file.write_all(line.as_bytes())?;
        let part = Part { start: self.end, lens };
        self.end += part.len();
        self.waiting += 1;
        Ok(part)
    }

    /// Copies standard output (0) or standard error (1) of a part.
    pub(super) fn copy(
        &self,
        part: &Part,
        which: usize,
        to: &mut impl io::Write,
    ) -> io::Result<()> {
        let Some(file) = &self.file else { return Err(io::ErrorKind::UnexpectedEof.into()) };
        let Range { start, end } = part.range(which);
        match copy(file, start, end, to)? {
            copied if copied < part.lens[which] => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// The line of a part.
    pub(super) fn line(&self, part: &Part) -> io::Result<String> {
        let mut line = Vec::new();
        self.copy(part, 2, &mut line)?;
        String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Gives back the room of a part, where the system can.
    pub(super) fn remove(&mut self, part: &Part) {
        self.waiting -= 1;
        let Some(file) = &self.file else { return };
        if self.waiting == 0 && file.set_len(0).is_ok() {
            self.end = 0;
        } else {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(file, hole, part.start, part.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(spool: &Spool, part: &Part) -> [Vec<u8>; 2] {
        [0, 1].map(|which| {
            let mut bytes = Vec::new();
            spool.copy(part, which, &mut bytes).unwrap();
            bytes
        })
    }

    #[test]
    fn each_part_is_itself_whatever_becomes_of_others() {
        let mut spool = Spool::default();
        let all = [1_u8, 2, 3].map(|n| [vec![n; 10_000 * usize::from(n)], vec![n + 10; 5]]);
        let parts = [0, 1, 2].map(|n: usize| {
            let output = Output::Bytes(all[n].clone(), None);
            spool.put(&output, "a line\n").unwrap()
        });
        spool.remove(&parts[1]);
        assert!(contents(&spool, &parts[0]) == all[0] && contents(&spool, &parts[2]) == all[2]);
        assert_eq!(spool.line(&parts[2]).unwrap(), "a line\n");
        let more = spool.put(&Output::Nothing, "").unwrap();
        assert!(contents(&spool, &more).iter().all(Vec::is_empty));
        assert_eq!(spool.line(&more).unwrap(), "");
        for part in [&parts[0], &parts[2], &more] {
            spool.remove(part);
        }
        assert_eq!(spool.file.as_ref().unwrap().metadata().unwrap().len(), 0, "all have gone");
        let again = spool.put(&Output::Bytes(all[0].clone(), None), "").unwrap();
        assert!(contents(&spool, &again) == all[0]);
        spool.file.as_ref().unwrap().set_len(9).unwrap();
        let error = spool.copy(&again, 0, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
