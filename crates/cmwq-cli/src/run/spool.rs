//! Output that waits for its turn and is too much for memory: in one file without a name, so that
//! each takes no descriptors either.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};

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
    /// Of standard output and of standard error, which is behind it.
    lens: [u64; 2],
}

impl Spool {
    /// Adds what a command has written.
    ///
    /// # Errors
    /// If there is no place for temporary files, or what was captured cannot be read. Nothing is
    /// added then.
    pub(super) fn put(&mut self, output: &Output) -> io::Result<Part> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile()?),
        };
        file.seek(SeekFrom::Start(self.end))?;
        let mut lens = [0; 2];
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
        let part = Part { start: self.end, lens };
        self.end += lens[0] + lens[1];
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
        let start = part.start + if which == 0 { 0 } else { part.lens[0] };
        match copy(file, start, start + part.lens[which], to)? {
            copied if copied < part.lens[which] => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Gives back the room of a part, where the system can.
    pub(super) fn remove(&mut self, part: &Part) {
        self.waiting -= 1;
        let Some(file) = &self.file else { return };
        if self.waiting == 0 && file.set_len(0).is_ok() {
            self.end = 0;
        } else {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(file, hole, part.start, part.lens[0] + part.lens[1]);
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
        let parts =
            [0, 1, 2].map(|n: usize| spool.put(&Output::Bytes(all[n].clone(), None)).unwrap());
        spool.remove(&parts[1]);
        assert!(contents(&spool, &parts[0]) == all[0] && contents(&spool, &parts[2]) == all[2]);
        let more = spool.put(&Output::Nothing).unwrap();
        assert!(contents(&spool, &more).iter().all(Vec::is_empty));
        for part in [&parts[0], &parts[2], &more] {
            spool.remove(part);
        }
        assert_eq!(spool.file.as_ref().unwrap().metadata().unwrap().len(), 0, "all have gone");
        let again = spool.put(&Output::Bytes(all[0].clone(), None)).unwrap();
        assert!(contents(&spool, &again) == all[0]);
        spool.file.as_ref().unwrap().set_len(9).unwrap();
        let error = spool.copy(&again, 0, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
