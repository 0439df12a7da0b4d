//! A batch of file names in one allocation, used up from the front and split when it should be
//! shared.

use std::ffi::CStr;

/// File names, each ended by a zero byte, as system calls want them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// Where the first name that was not taken yet begins.
    at: usize,
    /// How many names were not taken yet.
    left: usize,
}

impl Names {
    /// How many names are left.
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    /// Adds a name, which holds no zero byte: it came from the system.
    pub(crate) fn push(&mut self, name: &[u8]) {
        debug_assert!(!name.contains(&0), "a name from the system holds no zero byte");
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.left += 1;
    }

    /// Takes the next name.
    pub(crate) fn next(&mut self) -> Option<&CStr> {
        let name = CStr::from_bytes_until_nul(&self.bytes[self.at..]).ok()?;
        self.at += name.count_bytes() + 1;
        self.left -= 1;
        Some(name)
    }

    /// Takes the last `count` names, or `None` when that would be none.
    pub(crate) fn split_off(&mut self, count: usize) -> Option<Names> {
        let count = count.min(self.left);
        if count == 0 {
            return None;
        }
        let mut cut = self.at;
        for _ in count..self.left {
            cut += CStr::from_bytes_until_nul(&self.bytes[cut..]).map_or(0, CStr::count_bytes) + 1;
        }
        let bytes = self.bytes.split_off(cut);
        self.left -= count;
        Some(Names { bytes, at: 0, left: count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(names: &[&str]) -> Names {
        let mut batch = Names::default();
        for name in names {
            batch.push(name.as_bytes());
        }
        batch
    }

    fn drain(mut names: Names) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(name) = names.next() {
            all.push(name.to_str().unwrap().to_owned());
        }
        assert_eq!(names.len(), 0);
        all
    }

    #[test]
    fn names_come_back_in_order_even_empty_ones() {
        assert_eq!(drain(batch(&["b", "", "a c"])), ["b", "", "a c"]);
        assert_eq!(drain(Names::default()), [""; 0]);
    }

    #[test]
    fn a_split_shares_what_was_not_taken() {
        let mut first = batch(&["one", "two", "three", "four"]);
        assert_eq!(first.next().unwrap(), c"one");
        let rest = first.split_off(2).unwrap();
        assert_eq!(drain(first), ["two"]);
        assert_eq!(drain(rest), ["three", "four"]);
    }

    #[test]
    fn a_split_takes_no_more_than_there_is() {
        let mut first = batch(&["one", "two"]);
        assert!(first.split_off(0).is_none());
        assert_eq!(drain(first.split_off(9).unwrap()), ["one", "two"]);
        assert!(first.split_off(9).is_none());
    }
}
