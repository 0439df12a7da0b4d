//! The two ways in which the kernel writes a set of CPUs: lists (`0-3,8`) and masks (`1,0000010f`).
//!
//! *Does not* read files. Surrounding white space, such as the newline that ends every sysfs file,
//! is accepted.

use core::error::Error;
use core::fmt;
use core::str::FromStr;

use super::cpuset::CpuSet;

/// How many bits one comma-separated group of a mask holds.
const GROUP_BITS: u32 = u32::BITS;

impl CpuSet {
    /// Reads a CPU list as the kernel writes it: `0-3,8`. The empty text is the empty set.
    ///
    /// The kernel's stride notation is read too: `0-31:2/8` takes the first 2 of every 8 CPUs.
    ///
    /// # Errors
    /// If the text is something else, or names a CPU that is not below [`CpuSet::MAX_CPUS`].
    pub fn parse_list(text: &str) -> Result<Self, ParseCpuSetError> {
        let mut set = Self::new();
        let text = text.trim();
        if text.is_empty() {
            return Ok(set);
        }
        for range in text.split(',') {
            let parsed = parse_range(range.trim());
            set.extend(parsed.ok_or_else(|| ParseCpuSetError::new(Notation::List, range))?);
        }
        Ok(set)
    }

    /// Reads a hexadecimal CPU mask as the kernel writes it: groups of up to 8 digits, the highest
    /// CPUs first (`ff,00000000` is CPUs 32-39).
    ///
    /// # Errors
    /// If the text is something else, or names a CPU that is not below [`CpuSet::MAX_CPUS`].
    pub fn parse_mask(text: &str) -> Result<Self, ParseCpuSetError> {
        let mut set = Self::new();
        for (index, group) in text.trim().rsplit(',').enumerate() {
            let error = || ParseCpuSetError::new(Notation::Mask, text);
            let bits = parse_group(group).ok_or_else(error)?;
            let base = u32::try_from(index).ok().and_then(|i| i.checked_mul(GROUP_BITS));
            for bit in (0..GROUP_BITS).filter(|bit| bits >> bit & 1 != 0) {
                let cpu = base.and_then(|b| b.checked_add(bit)).filter(|c| *c < Self::MAX_CPUS);
                set.insert(cpu.ok_or_else(error)?);
            }
        }
        Ok(set)
    }

    /// The set as a hexadecimal mask, wide enough for `nr_cpus` CPUs and for every member.
    ///
    /// With the number of possible CPUs this is what the kernel prints.
    #[must_use]
    pub fn to_mask(&self, nr_cpus: u32) -> String {
        let nr_bits = self.last().map_or(1, |last| last + 1).max(nr_cpus);
        let nr_groups = nr_bits.div_ceil(GROUP_BITS);
        let mut text = String::new();
        for group in (0..nr_groups).rev() {
            let first = group * GROUP_BITS;
            let bits = (0..GROUP_BITS)
                .fold(0u32, |bits, bit| bits | u32::from(self.contains(first + bit)) << bit);
            // Only the highest group may be narrower than 8 digits: 4 CPUs to a digit.
            let width = (nr_bits - first).min(GROUP_BITS).div_ceil(4) as usize;
            let comma = if group == 0 { "" } else { "," };
            text.push_str(&format!("{bits:0width$x}{comma}"));
        }
        text
    }
}

/// `A`, `A-B` or `A-B:USED/GROUP`, all below [`CpuSet::MAX_CPUS`].
fn parse_range(text: &str) -> Option<impl Iterator<Item = u32>> {
    let (range, stride) = match text.split_once(':') {
        Some((range, stride)) => (range, Some(stride.split_once('/')?)),
        None => (text, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (parse_number(first)?, parse_number(last)?),
        // A stride needs a range to stride over.
        None if stride.is_some() => return None,
        None => (parse_number(range)?, parse_number(range)?),
    };
    let (used, group) = match stride {
        Some((used, group)) => (parse_number(used)?, parse_number(group)?),
        None => (1, 1),
    };
    let is_sane = first <= last && last < CpuSet::MAX_CPUS && used >= 1 && used <= group;
    is_sane.then(|| (first..=last).filter(move |cpu| (cpu - first) % group < used))
}

fn parse_number(text: &str) -> Option<u32> {
    // `u32::from_str` would let a leading '+' through.
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

fn parse_group(text: &str) -> Option<u32> {
    let is_hex = (1..=8).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(text, 16).ok())?
}

impl FromStr for CpuSet {
    type Err = ParseCpuSetError;

    fn from_str(text: &str) -> Result<Self, ParseCpuSetError> {
        Self::parse_list(text)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    List,
    Mask,
}

/// A text that is not a set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCpuSetError {
    notation: Notation,
    text: String,
}

impl ParseCpuSetError {
    fn new(notation: Notation, text: &str) -> Self {
        Self { notation, text: text.trim().to_owned() }
    }
}

impl fmt::Display for ParseCpuSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, max) = (&self.text, CpuSet::MAX_CPUS - 1);
        match self.notation {
            Notation::List => write!(
                f,
                "{text:?} is not a CPU list; write CPU numbers from 0 to {max} as in \"0-3,8\""
            ),
            Notation::Mask => write!(
                f,
                "{text:?} is not a CPU mask; write hexadecimal groups of at most 8 digits, \
                 highest CPUs first, as in \"ff,00000000\" (CPUs from 0 to {max})"
            ),
        }
    }
}

impl Error for ParseCpuSetError {}
