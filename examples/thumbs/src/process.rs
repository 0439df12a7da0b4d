//! What the kernel tells of a process.

use std::fs;

/// How many threads it has: a number, or `self`. `None`: it has ended. One short file, however many
/// there are; a list of them would take longer the more there are.
pub(crate) fn threads(process: &str) -> Option<usize> {
    of_status(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

fn of_status(status: &str) -> Option<usize> {
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        assert_eq!(of_status("Name:\tthumbs\nThreads:\t17\nSigQ:\t0/1\n"), Some(17));
        assert_eq!(of_status("Name:\tthumbs\n"), None);
        assert!(threads("self").is_some_and(|threads| threads > 0));
        assert_eq!(threads("0"), None);
    }
}
