//! `/proc/PID/stat`, and others that have a name in them; and those of a thread.

use std::path::Path;
use std::str::Split;
use std::{fs, io};

/// What such a file says. A name may be anything, and one of a thread that was cut to its 15 bytes
/// may end within a character.
///
/// # Errors
/// Those of the system.
pub(crate) fn read(file: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// The fields from the state on: state, parent, group, and others. The name before them, in
/// parentheses, may hold anything.
pub(crate) fn fields(stat: &str) -> Option<Split<'_, char>> {
    Some(stat.rsplit_once(") ")?.1.split(' '))
}

/// The letter of the state.
pub(crate) fn state(stat: &str) -> Option<char> {
    fields(stat)?.next()?.chars().next()
}

/// Whether the state is that of a process or thread that has ended.
pub(crate) const fn has_ended(state: char) -> bool {
    matches!(state, 'Z' | 'X')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_stat_do_not_confuse() {
        assert_eq!(state("12 (a) R (b) S) D 1 2 3"), Some('D'));
        assert_eq!(state("12 (kworker/0:1+fetch) R 1"), Some('R'));
        assert_eq!(state("nonsense"), None);
    }

    #[test]
    fn a_name_that_is_cut_within_a_character_is_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stat");
        fs::write(&file, b"12 (fourteen bytes\xc3) S 1 7\n").unwrap();
        assert_eq!(fields(&read(&file).unwrap()).unwrap().nth(2), Some("7\n"));
        assert!(read(folder.path().join("none")).is_err());
    }
}
