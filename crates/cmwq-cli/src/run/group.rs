//! What a command that was ended has left behind: processes of its group that do not end with it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::deadline::Deadline;
use super::grace::grace;
use super::running::{Running, send};
use crate::stat;

/// The longest time between two looks whether they are there.
const LONGEST: Duration = Duration::from_millis(50);

/// The groups that live, as of some time: hundreds of commands may be ended at once, and each asks.
#[derive(Debug, Default)]
pub(super) struct Living(Mutex<Option<(Instant, HashSet<i32>)>>);

impl Living {
    fn has(&self, proc: &Path, group: Pid) -> bool {
        let asked = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((begun, groups)) if *begun >= asked => groups.contains(&Pid::as_raw(Some(group))),
            _ => {
                let begun = Instant::now();
                let groups = living(proc);
                let has = groups.contains(&Pid::as_raw(Some(group)));
                *known = Some((begun, groups));
                has
            }
        }
    }
}

/// Waits until a group that was asked to end has, and kills it if it takes too long. Its leader has
/// ended and was not waited for, so that the number is its own.
pub(super) fn outlast(group: Pid, running: &Running) {
    let deadline = Deadline::after(running, grace());
    let mut pause = Duration::from_millis(1);
    while running.living().has("/proc".as_ref(), group) {
        if deadline.is_some_and(|deadline| deadline.left(running).is_zero()) {
            let _ = send(group, Signal::KILL);
            return;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST);
    }
}

/// The groups that have a process that has not ended. None where procfs does not tell.
fn living(proc: &Path) -> HashSet<i32> {
    let Ok(processes) = fs::read_dir(proc) else { return HashSet::new() };
    let group = |process: fs::DirEntry| {
        // Others are no processes, and have no such file.
        group_of(&stat::read(process.path().join("stat")).ok()?)
    };
    processes.flatten().filter_map(group).collect()
}

/// The group of a process that has not ended.
fn group_of(stat: &str) -> Option<i32> {
    if stat::has_ended(stat::state(stat)?) {
        return None;
    }
    stat::fields(stat)?.nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn who_has_a_name_that_is_no_text_lives_too() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("8")).unwrap();
        fs::write(proc.path().join("8/stat"), b"8 (fourteen bytes\xc3) S 1 7 6 0 -1\n").unwrap();
        assert_eq!(living(proc.path()), HashSet::from([7]));
    }

    #[test]
    fn who_lives_in_a_group_is_found() {
        assert_eq!(group_of("8 (a) Z 1 9) S 1 7 6 0 -1\n"), Some(7));
        for other in ["7 (a) Z 1 7 7 0", "7 (a) X 1 7 7 0", "8 (a) S 7", "8 (a", ""] {
            assert_eq!(group_of(other), None, "{other}");
        }
        // The test's own may have its leader, and so its number, in another PID namespace.
        let mut leader = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let group = Pid::from_child(&leader);
        let living = Living::default();
        assert!(living.has("/proc".as_ref(), group));
        assert!(!living.has("/nowhere".as_ref(), group), "what was known before is not asked");
        leader.kill().unwrap();
        leader.wait().unwrap();
        assert!(!living.has("/proc".as_ref(), group));
    }
}
