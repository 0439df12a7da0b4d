//! Whether a process or one of its descendants uses a CPU, as procfs shows it.
//!
//! *Owns* one descriptor: of the thread that is most likely to tell, so that the usual question
//! costs one read. Only if that thread does not run are all of them looked at.
//!
//! *Does* allocate, other than its neighbours: whoever asks is no sentinel.
//!
//! *Kernel*: `/proc/PID/task/TID/stat` and `…/children` in `proc_pid_task(5)`. A descendant whose
//! parent has ended belongs to another process there, and is not found.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::stat::{StatFile, ThreadState};

/// LIMIT: threads and processes that are looked at in one go; of a larger family nobody can tell.
const MOST: usize = 1024;

/// Where a family begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// With this process.
    Process(u32),
    /// With the processes that this thread of ours has started, and not waited for yet.
    ChildrenOf(libc::pid_t),
}

/// A process, or several, and their descendants.
#[derive(Debug)]
pub(crate) struct Family {
    root: Root,
    /// The thread that ran when all were looked at last, or the only one.
    likely: Option<StatFile>,
    /// The last look at all found one thread, and nobody running.
    is_lonely: bool,
}

/// What a look at all found.
#[derive(Debug, Default)]
struct Round {
    threads: usize,
    /// Somebody came or went while we looked.
    has_changed: bool,
    /// The `stat` file of the thread that was looked at last; if it runs, `is_running`.
    last: Option<PathBuf>,
    is_running: bool,
}

impl Family {
    pub(crate) fn new(root: Root) -> Self {
        Self { root, likely: None, is_lonely: false }
    }

    /// What can be told by one read. `None`: nothing.
    pub(crate) fn glance(&self) -> Option<bool> {
        match self.likely.as_ref()?.state().ok()? {
            ThreadState::Gone => None,
            state if !state.is_blocked() => Some(true),
            _ => self.is_lonely.then_some(false),
        }
    }

    /// Whether any thread of the family runs, by a look at all of them; a family that has ended
    /// does not. `None`: procfs does not tell, or there are too many.
    pub(crate) fn look(&mut self) -> Option<bool> {
        self.likely = None;
        let mut round = self.round()?;
        if !round.is_running && (round.threads > 1 || round.has_changed) {
            // One of those that were looked at first may have been woken by one that was looked at
            // later: nobody was found running at any time, and somebody ran all the time.
            round = self.round()?;
        }
        self.is_lonely = !round.is_running && round.threads == 1 && !round.has_changed;
        if round.is_running || self.is_lonely {
            self.likely = round.last.and_then(|path| StatFile::open_path(&path).ok());
        }
        Some(round.is_running)
    }

    fn round(&self) -> Option<Round> {
        let mut round = Round::default();
        let mut processes = Vec::new();
        match self.root {
            Root::Process(pid) => processes.push(pid),
            Root::ChildrenOf(tid) => {
                round.add_children(format!("/proc/self/task/{tid}").as_ref(), &mut processes)?;
            }
        }
        while let Some(pid) = processes.pop() {
            let listed = match fs::read_dir(format!("/proc/{pid}/task")) {
                Ok(listed) => listed,
                Err(error) if is_gone(&error) => {
                    round.has_changed |= self.root != Root::Process(pid);
                    continue;
                }
                Err(_) => return None,
            };
            for task in listed {
                let Ok(task) = task else {
                    round.has_changed = true;
                    break;
                };
                round.threads += 1;
                if round.threads > MOST {
                    return None;
                }
                round.look_at(&task.path(), &mut processes)?;
                if round.is_running {
                    return Some(round);
                }
            }
        }
        Some(round)
    }
}

impl Round {
    /// Looks at one thread. `None`: procfs does not tell.
    fn look_at(&mut self, task: &Path, processes: &mut Vec<u32>) -> Option<()> {
        let path = task.join("stat");
        match StatFile::open_path(&path).and_then(|stat| stat.state()) {
            Ok(ThreadState::Gone) => return Some(()),
            Ok(state) => self.is_running = !state.is_blocked(),
            Err(error) if is_gone(&error) => {
                self.has_changed = true;
                return Some(());
            }
            Err(_) => return None,
        }
        self.last = Some(path);
        if self.is_running { Some(()) } else { self.add_children(task, processes) }
    }

    fn add_children(&mut self, task: &Path, processes: &mut Vec<u32>) -> Option<()> {
        let mut children = String::new();
        let read = fs::File::open(task.join("children"))
            .and_then(|mut file| file.read_to_string(&mut children));
        match read {
            Ok(_) => {
                let pids = children.split_whitespace();
                processes.extend(pids.filter_map(|pid| pid.parse::<u32>().ok()));
            }
            // The kernel was built without it, if the thread is still there.
            Err(_) if task.exists() => return None,
            Err(_) => self.has_changed = true,
        }
        Some(())
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}
