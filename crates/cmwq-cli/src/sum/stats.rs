//! What `--stats` and the JSON document say about a run.

use std::fmt;
use std::time::Duration;

use indicatif::HumanBytes;
use serde::Serialize;

use super::walk::Walked;

/// Counts and speed of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Stats {
    /// Files hashed.
    pub(crate) files: u64,
    /// Bytes hashed.
    pub(crate) bytes: u64,
    /// Directories listed, or tried.
    pub(crate) directories: u64,
    /// Paths that failed.
    pub(crate) errors: u64,
    /// Paths skipped because of their type.
    pub(crate) skipped: u64,
    /// Wall time until everything was hashed and sorted.
    pub(crate) seconds: f64,
    /// Millions of bytes hashed per second.
    pub(crate) mb_per_s: f64,
    /// Work items that did it.
    pub(crate) work_items: u64,
    /// The most workers that were busy at the same time.
    pub(crate) most_workers: u64,
}

impl Stats {
    /// The statistics of what was `walked` in the time `took`.
    pub(crate) fn new(walked: &Walked, took: Duration) -> Stats {
        let outcome = &walked.outcome;
        let bytes = outcome.checksums.iter().map(|checksum| checksum.bytes).sum();
        let errors = outcome.errors();
        let seconds = took.as_secs_f64();
        Stats {
            files: outcome.checksums.len() as u64,
            bytes,
            directories: walked.directories,
            errors: errors as u64,
            skipped: (outcome.notes.len() - errors) as u64,
            seconds,
            mb_per_s: bytes as f64 / 1e6 / seconds.max(1e-9),
            work_items: walked.load.items,
            most_workers: walked.load.workers,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "statistics")?;
        writeln!(f, "  files         {}", self.files)?;
        writeln!(f, "  bytes         {} ({})", self.bytes, HumanBytes(self.bytes))?;
        writeln!(f, "  directories   {}", self.directories)?;
        writeln!(f, "  errors        {}", self.errors)?;
        writeln!(f, "  skipped       {}", self.skipped)?;
        writeln!(f, "  seconds       {:.3}", self.seconds)?;
        writeln!(f, "  MB/s          {:.1}", self.mb_per_s)?;
        writeln!(f, "  work items    {}", self.work_items)?;
        write!(f, "  most workers  {} at once", self.most_workers)
    }
}
