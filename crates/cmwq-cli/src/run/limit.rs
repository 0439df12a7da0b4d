//! How many commands there may be at once, and what sets that limit.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::child::Capture;
use crate::message;

/// LIMIT: commands at once, unless somebody says how many.
const USUAL: u32 = 512;
/// Descriptors that all but the commands take, with those of some that are being started.
const FDS_RESERVED: u64 = 64;

/// What sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// `--max-active` or `--ordered`.
    Asked,
    Usual,
    /// So many may be open.
    Files(u64),
}

/// See the module header.
#[derive(Debug)]
pub(super) struct Limit {
    most: u32,
    why: Why,
    was_said: AtomicBool,
}

impl Limit {
    /// Where so many were asked for, and a command takes so many of the `fds` descriptors.
    pub(super) fn new(asked: Option<u32>, fds: u64, fds_per_command: u64) -> Self {
        let (most, why) = match asked {
            Some(asked) => (asked, Why::Asked),
            None => (USUAL, Why::Usual),
        };
        let room = fds.saturating_sub(FDS_RESERVED) / fds_per_command;
        let room = u32::try_from(room).unwrap_or(u32::MAX).max(1);
        let (most, why) = if room < most { (room, Why::Files(fds)) } else { (most, why) };
        Self { most, why, was_said: AtomicBool::new(false) }
    }

    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// Says once that it holds others back, if nobody asked for it and it does: so many run, of so
    /// many that could.
    pub(super) fn say_if_it_holds(&self, running: u64, outstanding: u64) {
        let most = u64::from(self.most);
        if running < most || outstanding <= most || self.was_said.load(Relaxed) {
            return;
        }
        match self.why {
            Why::Asked => return,
            Why::Usual => message::say_meanwhile(format_args!(
                "{most} commands run, and others wait: --max-active says whether there may be more"
            )),
            Why::Files(fds) => message::say_meanwhile(format_args!(
                "{most} commands run, and others wait: no more have room in the limit of {fds} \
                 open files (ulimit -Hn)"
            )),
        }
        self.was_said.store(true, Relaxed);
    }
}

/// How many descriptors there are to be, for twice as many commands: on a machine of many CPUs many
/// start at once. Not as many as there may be: commands inherit the limit, and some close all
/// descriptors below it.
pub(super) fn fds_wanted(asked: Option<u32>, fds_per_command: u64) -> u64 {
    2 * (FDS_RESERVED + u64::from(asked.unwrap_or(USUAL)) * fds_per_command)
}

/// How many descriptors a command takes while it runs.
pub(super) fn fds_per_command(capture: Capture, has_timeout: bool) -> u64 {
    let worker = 1;
    match capture {
        Capture::Nothing => worker + u64::from(has_timeout),
        // Pipes, and what is large on a disk.
        Capture::Whole => worker + 2 + 2 + u64::from(has_timeout),
        // Pipes, and its end.
        Capture::Lines => worker + 2 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_gets_as_many_as_have_room() {
        let limit = |asked, fds| {
            let limit = Limit::new(asked, fds, 5);
            (limit.most, limit.why)
        };
        let many = 1 << 20;
        assert_eq!(limit(None, many), (512, Why::Usual));
        assert_eq!(limit(Some(2048), many), (2048, Why::Asked), "more than usual");
        assert_eq!(limit(Some(2048), u64::MAX), (2048, Why::Asked));
        assert_eq!(limit(None, 1024), (192, Why::Files(1024)));
        assert_eq!(limit(Some(512), 1024), (192, Why::Files(1024)));
        assert_eq!(limit(Some(192), 1024), (192, Why::Asked));
        assert_eq!(limit(Some(8), 3), (1, Why::Files(3)), "one in any case");
    }

    #[test]
    fn what_is_wanted_has_room_for_all() {
        for (asked, most) in [(None, USUAL), (Some(1), 1), (Some(2048), 2048)] {
            let limit = Limit::new(asked, fds_wanted(asked, 6), 6);
            assert_eq!(limit.most, most);
            assert!(!matches!(limit.why, Why::Files(_)));
        }
    }

    #[test]
    fn it_is_said_when_it_holds_others_back() {
        let says = |asked, running, outstanding| {
            let limit = Limit::new(asked, 114, 5);
            limit.say_if_it_holds(running, outstanding);
            limit.was_said.into_inner()
        };
        assert!(!says(None, 9, 99), "there is room");
        assert!(!says(None, 10, 10), "nobody waits");
        assert!(says(None, 10, 11));
        assert!(!says(Some(10), 10, 11), "it was asked for");
    }
}
