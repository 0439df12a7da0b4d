//! A mapped file that is not in memory: each page that is touched has to come from the device.

#![expect(unsafe_code, reason = "a mapping is only as constant as the file behind it")]

use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, Result};
use memmap2::{Advice, Mmap};
use rustix::fs::fadvise;

pub(crate) struct File(Mmap);

impl File {
    /// Maps the file, after the kernel was asked to forget its contents.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
        fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        // SAFETY: nobody shortens the file or writes to it: it gets its name when it is complete.
        let pages = unsafe { Mmap::map(&file) }.context("mapping it")?;
        // Each page by itself, none ahead.
        pages.advise(Advice::Random)?;
        Ok(Self(pages))
    }

    /// Reads a byte of each of these pages.
    pub(crate) fn touch(&self, pages: Range<usize>) {
        let size = rustix::param::page_size();
        for page in pages {
            std::hint::black_box(self.0[page * size]);
        }
    }
}
