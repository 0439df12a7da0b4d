//! A set of CPU numbers that grows with the machine.
//!
//! *Owns* one bitmap of 64-bit words.
//!
//! *Does not* know which CPUs exist: any number below [`CpuSet::MAX_CPUS`] may be a member.
//!
//! *Invariants*
//! - `trimmed`: the last word is never zero, so equal sets are equal words and the derived `Eq` and
//!   `Hash` are right.

use core::ffi::c_ulong;
use core::fmt;

const WORD_BITS: u32 = u64::BITS;

/// A set of CPU numbers.
///
/// It prints as the kernel's CPU list (`0-3,8`), which is also what [`str::parse`] reads.
///
/// ```
/// # use cmwq::CpuSet;
/// let mut cpus: CpuSet = "0-3,8".parse()?;
/// assert_eq!(cpus.count(), 5);
/// cpus.remove(0);
/// assert_eq!(cpus.to_string(), "1-3,8");
/// # Ok::<(), cmwq::ParseCpuSetError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// CPU numbers are below this.
    // LIMIT: eight times the largest kernel configuration; keeps a mistyped list ("0-4000000000")
    // from taking memory.
    pub const MAX_CPUS: u32 = 65_536;

    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// The set of one CPU.
    ///
    /// # Panics
    /// If `cpu` is not below [`Self::MAX_CPUS`].
    #[must_use]
    pub fn single(cpu: u32) -> Self {
        Self::from_iter([cpu])
    }

    /// Adds a CPU and says whether it was new.
    ///
    /// # Panics
    /// If `cpu` is not below [`Self::MAX_CPUS`].
    pub fn insert(&mut self, cpu: u32) -> bool {
        assert!(cpu < Self::MAX_CPUS, "CPU {cpu} is not below CpuSet::MAX_CPUS");
        let (word, bit) = position(cpu);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Takes a CPU out and says whether it was there.
    pub fn remove(&mut self, cpu: u32) -> bool {
        let (word, bit) = position(cpu);
        let was_there = self.contains(cpu);
        if was_there {
            self.words[word] &= !bit;
            self.trim();
        }
        was_there
    }

    /// Whether the CPU is a member.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = position(cpu);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many members there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// The lowest member.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.at_or_after(0)
    }

    /// The lowest member above `cpu`, which need not be a member itself.
    #[must_use]
    pub fn next(&self, cpu: u32) -> Option<u32> {
        self.at_or_after(cpu.checked_add(1)?)
    }

    /// The lowest member above `cpu`, or else the lowest of all: for going round and round.
    #[must_use]
    pub fn next_wrap(&self, cpu: u32) -> Option<u32> {
        self.next(cpu).or_else(|| self.first())
    }

    /// The highest member.
    #[must_use]
    pub fn last(&self) -> Option<u32> {
        let top = self.words.last()?;
        let word = u32::try_from(self.words.len() - 1).ok()?;
        Some(word * WORD_BITS + top.ilog2())
    }

    /// The `count` lowest members (all of them if there are fewer).
    #[must_use]
    pub fn take(&self, count: usize) -> Self {
        self.iter().take(count).collect()
    }

    /// The members, in ascending order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { set: self, next: self.first() }
    }

    /// The members of both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self::from_words(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// The members of either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let len = self.words.len().max(other.words.len());
        Self::from_words((0..len).map(|i| self.word(i) | other.word(i)).collect())
    }

    /// The members of this set that are not in the other.
    #[must_use]
    pub fn and_not(&self, other: &Self) -> Self {
        let words = self.words.iter().enumerate();
        Self::from_words(words.map(|(i, w)| w & !other.word(i)).collect())
    }

    /// Whether the sets have a member in common.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every member of this set is in the other.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().enumerate().all(|(i, w)| w & !other.word(i) == 0)
    }

    /// The bitmap as the affinity system calls want it: an array of `unsigned long`.
    pub(crate) fn to_kernel_words(&self) -> Vec<c_ulong> {
        let bits = c_ulong::BITS;
        let len = self.last().map_or(0, |last| last / bits + 1);
        let mut words: Vec<c_ulong> = vec![0; len as usize];
        for cpu in self {
            words[(cpu / bits) as usize] |= 1 << (cpu % bits);
        }
        words
    }

    /// The set in an array of `unsigned long` that the kernel filled.
    pub(crate) fn from_kernel_words(words: &[c_ulong]) -> Self {
        let bits = c_ulong::BITS;
        let cpus = (0..Self::MAX_CPUS).take(words.len() * bits as usize);
        cpus.filter(|cpu| words[(cpu / bits) as usize] >> (cpu % bits) & 1 != 0).collect()
    }

    /// The bitmap, trimmed.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set of this bitmap.
    #[doc(hidden)]
    #[must_use]
    pub fn from_words(words: Vec<u64>) -> Self {
        let mut set = Self { words };
        set.trim();
        set
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    // INVARIANT(trimmed): restored here after every operation that can clear bits.
    fn trim(&mut self) {
        let used = self.words.iter().rposition(|w| *w != 0).map_or(0, |i| i + 1);
        self.words.truncate(used);
    }

    fn at_or_after(&self, cpu: u32) -> Option<u32> {
        let (first, bit) = position(cpu);
        // Only the first word can hold members below `cpu`; `bit - 1` is the mask of exactly those.
        let mut ignore = bit - 1;
        for (index, word) in self.words.iter().enumerate().skip(first) {
            let rest = word & !ignore;
            if rest != 0 {
                return Some(u32::try_from(index).ok()? * WORD_BITS + rest.trailing_zeros());
            }
            ignore = 0;
        }
        None
    }
}

const fn position(cpu: u32) -> (usize, u64) {
    ((cpu / WORD_BITS) as usize, 1 << (cpu % WORD_BITS))
}

/// The members of a [`CpuSet`], in ascending order.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    set: &'a CpuSet,
    next: Option<u32>,
}

impl Iterator for Iter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let cpu = self.next?;
        self.next = self.set.next(cpu);
        Some(cpu)
    }
}

impl<'a> IntoIterator for &'a CpuSet {
    type Item = u32;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl Extend<u32> for CpuSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        set.extend(cpus);
        set
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}
