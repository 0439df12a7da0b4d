//! Words of a mapping that may be anything.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use cmwq::shared::mapping;
use cmwq::shared::mapping::layout::{
    HEADER_WORDS, HeaderWords, MAGIC, MAX_GROWTH, TABLE_WORDS, TABLES, TABLES_AT, TableWords,
    VERSION,
};

use super::snapshot::ReadError;

/// How often a record that keeps changing is copied again. Changes take nanoseconds; a writer that
/// was stopped in one stays there.
const TRIES: u32 = 64;

/// Words of the shortest record there may be: a line of the cache.
const LEAST_STRIDE: usize = 8;

/// A whole mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a>(pub(crate) &'a [AtomicU64]);

/// One table of it, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<'a> {
    words: &'a [AtomicU64],
    stride: usize,
    pub(crate) missed: u64,
    /// All its places were used at some time: what came then may have none.
    pub(crate) is_full: bool,
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
            return Err(ReadError::OtherVersion { theirs: header.version, ours: VERSION });
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

    /// All tables, as far as records of them were used.
    ///
    /// # Errors
    /// If one is not where it could be, or larger than a table of its kind, or shares words with
    /// another one: a reader's time and memory are what a whole mapping of ours takes, at most.
    pub(crate) fn tables(self) -> Result<[Table<'a>; TABLES.len()], ReadError> {
        let mut tables = [Table { words: &[], stride: 1, missed: 0, is_full: false }; TABLES.len()];
        let mut taken: [Range<usize>; TABLES.len()] = Default::default();
        for kind in 0..TABLES.len() {
            let (table, range) =
                self.table(kind).ok_or(ReadError::Corrupt { table: TABLES[kind].0 })?;
            let is_shared =
                |other: &Range<usize>| other.start < range.end && range.start < other.end;
            if taken[..kind].iter().any(is_shared) {
                return Err(ReadError::Corrupt { table: TABLES[kind].0 });
            }
            (tables[kind], taken[kind]) = (table, range);
        }
        Ok(tables)
    }

    /// Table number `kind`, and which words are its.
    fn table(self, kind: usize) -> Option<(Table<'a>, Range<usize>)> {
        let words = self.copy::<{ TableWords::WORDS }>(TABLES_AT + kind * TABLE_WORDS)?;
        let table = TableWords::from_words(&words);
        let number = |word: u64| usize::try_from(word).ok();
        let (offset, stride) = (number(table.offset)?, number(table.stride)?);
        let (used, capacity) = (number(table.used.min(table.capacity))?, number(table.capacity)?);
        let (_, size, most) = TABLES[kind];
        let is_sound = table.kind == kind as u64
            && offset.is_multiple_of(8)
            && offset / 8 >= HEADER_WORDS
            && (LEAST_STRIDE..=size / 8 * MAX_GROWTH).contains(&stride)
            && capacity <= most;
        if !is_sound {
            return None;
        }
        let begin = offset / 8;
        // Both are bounded: no overflow but in the sum.
        let range = begin..begin.checked_add(capacity * stride)?;
        self.0.get(range.clone())?;
        let words = &self.0[begin..begin + used * stride];
        let is_full = used == capacity;
        Some((Table { words, stride, missed: table.missed, is_full }, range))
    }

    /// The names of functions, as far as they are there.
    pub(crate) fn functions(self) -> Result<HashMap<u64, String>, ReadError> {
        let header = self.header()?;
        let [begin, len] = [header.functions, header.functions_bytes]
            .map(|bytes| usize::try_from(bytes / 8).unwrap_or(usize::MAX));
        let len = len.min(mapping::MOST_WORDS);
        let words = self.0.get(begin..begin.saturating_add(len)).unwrap_or_default();
        // ORDERING: no pairing: these are constant.
        let words: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        Ok(mapping::unpack_functions(&words))
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

    /// As [`copy`](Self::copy), whether it is in use or not. `false`: it was changing all the time,
    /// or is not there.
    pub(crate) fn copy_any(&self, index: usize, words: &mut [u64]) -> bool {
        words.fill(0);
        let begin = index.saturating_mul(self.stride);
        let record = self.words.get(begin..begin.saturating_add(self.stride)).unwrap_or_default();
        let Some(seq) = record.first() else { return false };
        let take = record.len().min(words.len());
        for _ in 0..TRIES {
            if mapping::copy(seq, &record[..take], &mut words[..take]) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }
}
