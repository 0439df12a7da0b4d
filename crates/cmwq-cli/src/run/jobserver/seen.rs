//! What is seen of a build: the threads of a process and its descendants, by procfs.

use std::fs;
use std::io;
use std::path::Path;

use cmwq_core::jobserver::Build;
use rustix::io::Errno;

use crate::stat;

/// Counts them. Those that come and go meanwhile may be missed.
pub(super) fn look(proc: &Path, pid: u32) -> Build {
    let mut seen = Build::default();
    let mut processes = vec![pid];
    while let Some(process) = processes.pop() {
        let tasks = match fs::read_dir(proc.join(process.to_string()).join("task")) {
            Ok(tasks) => tasks,
            Err(error) => {
                // The first is there until its end is asked for.
                seen.is_hidden |= process == pid || !is_gone(&error);
                continue;
            }
        };
        for task in tasks.flatten() {
            look_at(&task.path(), &mut seen, &mut processes);
        }
    }
    seen
}

fn look_at(task: &Path, seen: &mut Build, children: &mut Vec<u32>) {
    let stat = match stat::read(task.join("stat")) {
        Ok(stat) => stat,
        Err(error) => {
            seen.is_hidden |= !is_gone(&error);
            return;
        }
    };
    let Some(state) = stat::state(&stat).filter(|state| !stat::has_ended(*state)) else {
        return;
    };
    seen.threads += 1;
    seen.runnable += usize::from(state == 'R');
    match fs::read_to_string(task.join("children")) {
        Ok(list) => {
            children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()))
        }
        // Without CONFIG_PROC_CHILDREN no thread has a list. One that has ended has no state,
        // either.
        Err(_) => seen.is_hidden |= task.join("stat").exists(),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Whether the numbers of processes in procfs are those that we know them by: not where it is of
/// another PID namespace, or absent.
pub(super) fn is_ours(proc: &Path) -> bool {
    fs::read_link(proc.join("self"))
        .is_ok_and(|pid| pid == Path::new(&std::process::id().to_string()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A procfs with these threads: process, thread, state, children.
    fn procfs(threads: &[(u32, u32, char, Option<&str>)]) -> TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (process, thread, state, children) in threads {
            let task = proc.path().join(format!("{process}/task/{thread}"));
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("stat"), format!("{thread} (a) b) {state} 1 2 3\n")).unwrap();
            if let Some(children) = children {
                fs::write(task.join("children"), children).unwrap();
            }
        }
        proc
    }

    #[test]
    fn threads_of_all_descendants_are_counted() {
        let none = Some("");
        let proc = procfs(&[
            (1, 1, 'S', Some("10 12 ")),
            (1, 2, 'R', Some("11 ")),
            (10, 10, 'R', none),
            (11, 11, 'Z', none),
            (13, 13, 'R', none),
        ]);
        let seen = look(proc.path(), 1);
        assert_eq!((seen.threads, seen.runnable), (3, 2), "12 has gone, 13 is somebody else's");
        assert!(!seen.is_hidden);
    }

    #[test]
    fn who_has_a_name_that_is_no_text_is_counted() {
        let proc = procfs(&[(1, 1, 'S', Some(""))]);
        let file = proc.path().join("1/task/1/stat");
        fs::write(file, b"1 (fourteen bytes\xc3) R 1 2 3\n").unwrap();
        let seen = look(proc.path(), 1);
        assert_eq!((seen.threads, seen.runnable, seen.is_hidden), (1, 1, false));
    }

    #[test]
    fn who_has_no_list_of_children_may_have_some() {
        let proc = procfs(&[(1, 1, 'S', None)]);
        let seen = look(proc.path(), 1);
        assert_eq!((seen.threads, seen.runnable), (1, 0));
        assert!(seen.is_hidden);
        assert!(look(proc.path(), 2).is_hidden, "the build itself is not there");
    }

    #[test]
    fn a_procfs_of_others_is_known_as_such() {
        assert!(is_ours(Path::new("/proc")));
        let proc = procfs(&[]);
        assert!(!is_ours(proc.path()), "there is none");
        std::os::unix::fs::symlink("0", proc.path().join("self")).unwrap();
        assert!(!is_ours(proc.path()));
    }
}
