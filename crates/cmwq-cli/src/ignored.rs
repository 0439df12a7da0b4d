//! Signals that whoever started the command has it ignore, as `nohup` does with SIGHUP.
//!
//! A handler of ours would take that back.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGCHLD;

use crate::stat;

/// Those of `signals` that may be listened to.
pub(crate) fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let mask = mask(&stat::read("/proc/thread-self/status").unwrap_or_default());
    signals.iter().copied().filter(|signal| !is_in(mask, *signal)).collect()
}

/// Where SIGCHLD is ignored nobody can learn how a process ended: it is taken away at once.
pub(crate) fn let_processes_be_waited_for() {
    if not_ignored(&[SIGCHLD]).is_empty() {
        // What it notes is of no use; that it is not ignored any more is.
        let _ = signal_hook::flag::register(SIGCHLD, Arc::new(AtomicBool::new(false)));
    }
}

fn mask(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(mask: u64, signal: i32) -> bool {
    u32::try_from(signal - 1).ok().and_then(|bit| 1_u64.checked_shl(bit)).unwrap_or(0) & mask != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_one() {
        let mask = mask("Name:\tx\nSigIgn:\t0000000000010001\nSigCgt:\t0\n");
        assert!(is_in(mask, 1) && is_in(mask, 17));
        assert!(!is_in(mask, 2) && !is_in(mask, 0) && !is_in(mask, 65));
        assert_eq!(self::mask(""), 0);
    }
}
