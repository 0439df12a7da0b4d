//! Names of functions, for those who see only addresses: behind the tables of the mapping, written
//! once.
//!
//! For each function its address, the length of its name in bytes, and the name in as many words as
//! it takes.

use std::collections::HashMap;

use super::layout::unpack_text;

/// LIMIT: what is more is left out: 16 MiB.
pub const MOST_WORDS: usize = 2 << 20;

/// The words for these.
pub(crate) fn pack(functions: &[(usize, &str)]) -> Vec<u64> {
    let mut words = Vec::new();
    for (address, name) in functions {
        if words.len() + 2 + name.len().div_ceil(8) > MOST_WORDS {
            break;
        }
        words.extend([*address as u64, name.len() as u64]);
        words.extend(name.as_bytes().chunks(8).map(|bytes| {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(eight)
        }));
    }
    words
}

/// Undoes `pack`, as far as the words make sense.
pub fn unpack(mut words: &[u64]) -> HashMap<u64, String> {
    let mut functions = HashMap::new();
    while let [address, len, rest @ ..] = words {
        let len = usize::try_from(*len).unwrap_or(usize::MAX).div_ceil(8);
        let Some((name, behind)) = rest.split_at_checked(len) else { break };
        functions.insert(*address, unpack_text(name));
        words = behind;
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_lengths_come_back() {
        let names = ["", "a", "main::{{closure}}", "12345678", "123456789"];
        let functions: Vec<_> = (16..).zip(names).collect();
        let words = pack(&functions);
        let read = unpack(&words);
        assert_eq!(read.len(), names.len());
        assert!(functions.iter().all(|(at, name)| read[&(*at as u64)] == *name), "{read:?}");
        // Cut short, or damaged: what is whole before that.
        assert_eq!(unpack(&words[..words.len() - 1]).len(), names.len() - 1);
        assert_eq!(unpack(&[1, u64::MAX, 2]), HashMap::new());
        assert_eq!(unpack(&[1]), HashMap::new());
    }

    #[test]
    fn there_is_an_end_to_them() {
        let long = "n".repeat(1 << 20);
        let functions: Vec<_> = (0..20).map(|address| (address, long.as_str())).collect();
        let words = pack(&functions);
        assert!(words.len() <= MOST_WORDS);
        assert_eq!(unpack(&words).len(), 15);
    }
}
