//! What was found: checksums, and what there was to say about files that have none.
//!
//! Every work item fills an [`Outcome`] of its own and hands it over once, at its end.

use rustix::fs::FileType;
use rustix::io::Errno;

/// One hashed file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    /// The path as it was found, in the bytes of the file system.
    pub(crate) path: Box<[u8]>,
    /// How many bytes were read, which for a file that changes meanwhile is no size it ever had for
    /// sure.
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

/// Why a path has no checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// A system call failed: an error.
    Failed(Errno),
    /// It is nothing that can be read to an end: not an error.
    Skipped(FileType),
}

/// A path without a checksum.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) path: Box<[u8]>,
    pub(crate) problem: Problem,
}

/// The results of one work item or, merged, of all.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) notes: Vec<Note>,
}

impl Outcome {
    /// Notes why `path` has no checksum.
    pub(crate) fn note(&mut self, path: impl Into<Box<[u8]>>, problem: Problem) {
        self.notes.push(Note { path: path.into(), problem });
    }

    /// Puts the outcomes of all items together, sorted by the bytes of the paths.
    pub(crate) fn merge(parts: impl Iterator<Item = Outcome>) -> Outcome {
        let mut all = Outcome::default();
        for mut part in parts {
            all.checksums.append(&mut part.checksums);
            all.notes.append(&mut part.notes);
        }
        all.checksums.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        // Stable: of an argument given twice, the messages keep their order.
        all.notes.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }

    /// How many of the notes are errors.
    pub(crate) fn errors(&self) -> usize {
        self.notes.iter().filter(|note| matches!(note.problem, Problem::Failed(_))).count()
    }
}
