//! Whether a process or one of its descendants uses a CPU, as procfs shows it.
//!
//! *Owns* one descriptor: of the thread that is most likely to run, so that the usual question
//! costs one read. While none of the processes has used a CPU since all were found waiting, their
//! clocks tell. Otherwise all of them are looked at.
//!
//! *Does* allocate, other than its neighbours: whoever asks is no sentinel.
//!
//! *Kernel*: `/proc/PID/task/TID/stat` and `…/children` in `proc_pid_task(5)`. A descendant whose
//! parent has ended belongs to another process there, and is not found.
//!
//! Why: docs/decisions/descendants-by-proc.md

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::clock::CpuClock;
use super::stat::{StatFile, ThreadState};

/// LIMIT: threads and processes that are looked at in one go; of a larger family nobody can tell.
const MOST: usize = 1024;
/// LIMIT: so many processes and threads are remembered from a look; of a larger family the
/// clocks tell less.
const REMEMBERED: usize = 16;

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
    /// The thread that ran when all were looked at last, or the one that was looked at last.
    likely: Option<StatFile>,
    /// The clock of its process, if it ran.
    likely_clock: Option<CpuClock>,
    /// All processes, if the last look at all found nobody running.
    still: Vec<Still>,
}

/// A process, and the CPU time that it had used before its threads were looked at.
#[derive(Debug)]
struct Still {
    clock: CpuClock,
    used: u64,
}

impl Still {
    fn of(pid: u32) -> Option<Self> {
        let clock = CpuClock::of_process(pid)?;
        Some(Self { clock, used: clock.now_ns()? })
    }

    fn has_not_run(&self) -> bool {
        self.clock.now_ns() == Some(self.used)
    }
}

/// What a look at all found.
#[derive(Debug, Default)]
struct Round {
    threads: usize,
    /// Somebody came or went while we looked.
    has_changed: bool,
    is_running: bool,
    /// The threads; if one runs, it is the last. Some of them, if there are many.
    looked_at: Vec<StatFile>,
    processes: usize,
    /// One for each process, unless one has no clock or there are too many.
    still: Vec<Still>,
}

impl Family {
    pub(crate) fn new(root: Root) -> Self {
        Self { root, likely: None, likely_clock: None, still: Vec::new() }
    }

    /// Whether it was found waiting, and nobody has had a CPU since: who has not run has started
    /// nobody, and woken nobody either. Reads some clocks.
    pub(crate) fn has_not_run(&self) -> bool {
        !self.still.is_empty() && self.still.iter().all(Still::has_not_run)
    }

    /// Whether the thread that is most likely to run does, or by its clock a process that waited.
    /// Costs one read.
    pub(crate) fn is_likely_running(&self) -> bool {
        // A clock that goes while it is read costs a fifth of reading a state.
        self.likely_clock.is_some_and(CpuClock::goes)
            || self.still.iter().any(|still| still.clock.goes())
            || self
                .likely
                .as_ref()
                .and_then(|stat| stat.state().ok())
                .is_some_and(|state| !state.is_blocked())
    }

    /// Whether any thread of the family runs, by a look at all of them; a family that has ended
    /// does not. `None`: procfs does not tell, or there are too many.
    pub(crate) fn look(&mut self) -> Option<bool> {
        self.likely = None;
        self.still = Vec::new();
        let mut round = self.round()?;
        let is_one = round.threads < 2 && !round.has_changed;
        if !round.is_running && !is_one && !round.stands_still() {
            // One of those that were looked at first may have been woken by one that was looked at
            // later: nobody was found running at any time, and somebody ran all the time.
            round = self.round()?;
        }
        self.likely_clock = None;
        if round.has_all_clocks() {
            if round.is_running {
                self.likely_clock = round.still.last().map(|last| last.clock);
            } else {
                self.still = round.still;
            }
        }
        self.likely = round.looked_at.pop().and_then(|stat| stat.keep().ok());
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
            round.look_at_process(pid, &mut processes)?;
            if round.is_running {
                break;
            }
        }
        Some(round)
    }
}

impl Round {
    /// Whether nobody runs still, and nobody has run since it was looked at.
    fn stands_still(&self) -> bool {
        let is_blocked = |stat: &StatFile| stat.state().is_ok_and(|state| state.is_blocked());
        self.looked_at.len() == self.threads
            && self.looked_at.iter().all(is_blocked)
            && self.has_all_clocks()
            && self.still.iter().all(Still::has_not_run)
    }

    fn has_all_clocks(&self) -> bool {
        !self.has_changed && self.processes == self.still.len()
    }

    /// Looks at its threads until one runs, the first one first. `None`: procfs does not tell.
    fn look_at_process(&mut self, pid: u32, processes: &mut Vec<u32>) -> Option<()> {
        self.processes += 1;
        if self.still.len() < REMEMBERED {
            self.still.extend(Still::of(pid));
        }
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let first = tasks.join(pid.to_string());
        let nr_threads = self.look_at(&first, processes)?;
        if nr_threads < 2 || self.is_running {
            return Some(());
        }
        let listed = match fs::read_dir(&tasks) {
            Ok(listed) => listed,
            Err(error) if is_gone(&error) => {
                self.has_changed = true;
                return Some(());
            }
            Err(_) => return None,
        };
        for task in listed {
            let Ok(task) = task else {
                self.has_changed = true;
                break;
            };
            let task = task.path();
            if task != first {
                self.look_at(&task, processes)?;
            }
            if self.is_running {
                break;
            }
        }
        Some(())
    }

    /// Looks at one thread, and returns how many its process has. `None`: procfs does not tell, or
    /// there are too many.
    fn look_at(&mut self, task: &Path, processes: &mut Vec<u32>) -> Option<u64> {
        self.threads += 1;
        if self.threads > MOST {
            return None;
        }
        let opened = StatFile::open_path(&task.join("stat"));
        let (stat, found) = match opened.and_then(|stat| Ok((stat.state_and_threads()?, stat))) {
            Ok((found, stat)) => (stat, found),
            Err(error) if is_gone(&error) => {
                self.has_changed = true;
                return Some(0);
            }
            Err(_) => return None,
        };
        let (state, nr_threads) = found;
        self.is_running = !state.is_blocked();
        if state == ThreadState::Gone {
            self.has_changed |= nr_threads == 0;
            self.threads -= 1;
            return Some(nr_threads);
        }
        if self.looked_at.len() == REMEMBERED {
            self.looked_at.pop();
        }
        self.looked_at.push(stat);
        if !self.is_running {
            self.add_children(task, processes)?;
        }
        Some(nr_threads)
    }

    fn add_children(&mut self, task: &Path, processes: &mut Vec<u32>) -> Option<()> {
        // As long as most of these lists are, and read without asking how long: nobody knows.
        let mut children = String::with_capacity(128);
        let read = fs::File::open(task.join("children"))
            .and_then(|file| file.take(u64::MAX).read_to_string(&mut children));
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
