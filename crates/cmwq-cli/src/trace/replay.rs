//! A trace from a file that `CMWQ_TRACE` made.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use cmwq::foreign::harmless;
use cmwq::trace::file::{Block, read_block, read_head};

use super::merge::{Merge, Take};
use super::{End, Subject};

/// See the module header.
pub(super) struct Replay<R = BufReader<File>> {
    input: R,
}

impl Replay {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let wrong = |error: io::Error| format!("{}: {error}", path.display());
        let input = BufReader::with_capacity(1 << 18, File::open(path).map_err(wrong)?);
        Self::new(input).map_err(wrong)
    }

    pub(super) fn file(&self) -> &File {
        self.input.get_ref()
    }
}

impl<R: Read> Replay<R> {
    pub(super) fn new(mut input: R) -> io::Result<Self> {
        read_head(&mut input)?;
        Ok(Self { input })
    }

    /// Feeds all of it.
    pub(super) fn run(
        mut self,
        subject: &mut Subject,
        merge: &mut Merge,
        take: &mut Take<'_>,
    ) -> io::Result<End> {
        let mut all_lost = 0;
        while let Some(block) = read_block(&mut self.input)? {
            match block {
                Block::Process { pid, name } => {
                    (subject.pid, subject.name) = (pid, harmless(&name).into_owned());
                }
                Block::Maps(maps) => subject.symbols.set_maps(&maps),
                Block::Events { ring, events } if ring < 1 << 16 => {
                    events.iter().for_each(|words| merge.push(ring, words));
                }
                Block::Events { ring, .. } => {
                    return Err(io::Error::other(format!("there is no ring {ring}")));
                }
                Block::Round { begin, lost } => {
                    all_lost = lost;
                    merge.round(begin, subject, take)?;
                }
            }
        }
        let ns = merge.end(subject, take)?;
        Ok(End { ns, lost: all_lost })
    }
}
