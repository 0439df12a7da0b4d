//! Words of a mapping that may be anything.

use std::collections::HashMap;

use super::snapshot::ReadError;
use crate::inspect::functions;
use crate::inspect::layout::{
    HEADER_WORDS, HeaderWords, MAGIC, TABLE_WORDS, TABLES, TABLES_AT, TableWords, VERSION,
};
use crate::inspect::record;
use crate::sync::{AtomicU64, Ordering};

/// How often a record that keeps changing is copied again. Changes take nanoseconds; a writer that was stopped in one
/// stays there.
const TRIES: u32 = 64;

/// A whole mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a>(pub(crate) &'a [AtomicU64]);

/// One table of it, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    words: &'a [AtomicU64],
    stride: usize,
    pub(crate) missed: u64,
}

impl<'a> Words<'a> {
    /// The header, if this is a mapping of ours and of this version.
    pub(crate) fn header(self) -> Result<HeaderWords, ReadError> {
        let words = self.copy::<{ HeaderWords::WORDS }>(0).ok_or(ReadError::Truncated)?;
        let header = HeaderWords::from_words(&words);
        if header.magic != MAGIC {
            return Err(ReadError::NotCmwq);
        }
        if header.version != VERSION {
            return Err(ReadError::NewerVersion { theirs: header.version, ours: VERSION });
        }
        if header.is_ready != 1 {
            return Err(ReadError::NotReady);
        }
        let is_cut = self.0.len() < HEADER_WORDS || header.bytes != (self.0.len() as u64) * 8;
        if is_cut {
            return Err(ReadError::Truncated);
        }
        Ok(header)
    }

    /// Table number `kind`, as far as records of it were used.
    pub(crate) fn table(self, kind: usize) -> Result<Table<'a>, ReadError> {
        let at = TABLES_AT + kind * TABLE_WORDS;
        let words = self.copy::<{ TableWords::WORDS }>(at).ok_or(ReadError::Truncated)?;
        let table = TableWords::from_words(&words);
        let corrupt = || ReadError::Corrupt { table: TABLES[kind].0 };
        let number = |word: u64| usize::try_from(word).map_err(|_| corrupt());
        let (offset, stride) = (number(table.offset)?, number(table.stride)?);
        let used = number(table.used.min(table.capacity))?;
        if table.kind != kind as u64 || !offset.is_multiple_of(8) || stride < 2 {
            return Err(corrupt());
        }
        let begin = offset / 8;
        let capacity = number(table.capacity)?;
        let whole = capacity.checked_mul(stride).and_then(|len| len.checked_add(begin));
        if begin < HEADER_WORDS || whole.is_none_or(|end| end > self.0.len()) {
            return Err(corrupt());
        }
        let words = self.0.get(begin..begin + used * stride).ok_or_else(corrupt)?;
        Ok(Table { words, stride, missed: table.missed })
    }

    /// The names of functions, as far as they are there.
    pub(crate) fn functions(self) -> Result<HashMap<u64, String>, ReadError> {
        let header = self.header()?;
        let [begin, len] = [header.functions, header.functions_bytes]
            .map(|bytes| usize::try_from(bytes / 8).unwrap_or(usize::MAX));
        let words = self.0.get(begin..begin.saturating_add(len)).unwrap_or_default();
        // ORDERING: no pairing: these are constant.
        let words: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        Ok(functions::unpack(&words))
    }

    fn copy<const N: usize>(self, at: usize) -> Option<[u64; N]> {
        let words = self.0.get(at..at.checked_add(N)?)?;
        let mut copy = [0; N];
        for (to, word) in copy.iter_mut().zip(words) {
            // ORDERING: no pairing: these are constant, or counts.
            *to = word.load(Ordering::Relaxed);
        }
        Some(copy)
    }
}

/// Of a record in use.
#[derive(Debug)]
pub(crate) enum Copied {
    /// `words` holds it.
    Whole,
    /// Nobody uses the record.
    Free,
    /// It was changing all the time.
    Torn,
}

impl Table<'_> {
    pub(crate) fn len(&self) -> usize {
        self.words.len() / self.stride
    }

    /// Copies a record; words that it does not have become 0.
    pub(crate) fn copy(&self, index: usize, words: &mut [u64]) -> Copied {
        if index >= self.len() {
            return Copied::Free;
        }
        match self.copy_any(index, words) {
            true if words[1] == 0 => Copied::Free,
            true => Copied::Whole,
            false => Copied::Torn,
        }
    }

    /// As [`copy`](Self::copy), whether it is in use or not. `false`: it was changing all the time, or is not there.
    pub(crate) fn copy_any(&self, index: usize, words: &mut [u64]) -> bool {
        words.fill(0);
        let begin = index.saturating_mul(self.stride);
        let record = self.words.get(begin..begin.saturating_add(self.stride)).unwrap_or_default();
        let Some(seq) = record.first() else { return false };
        let take = record.len().min(words.len());
        for _ in 0..TRIES {
            if record::copy(seq, &record[..take], &mut words[..take]) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }
}
