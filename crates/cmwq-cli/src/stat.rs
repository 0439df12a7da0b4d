//! `/proc/PID/stat`, and that of a thread.

use std::str::Split;

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
}
