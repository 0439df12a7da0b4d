//! Whether a process or one of its descendants uses a CPU, as procfs shows it.
//!
//! *Owns* some descriptors: of the thread that is most likely to run, so that the usual question
//! costs one read, and of the first processes, which are looked at again when one of them has run.
//! While none of the processes has used a CPU since all were found waiting, their clocks tell.
//! Otherwise all of them are looked at.
//!
//! *Does* allocate, other than its neighbours: whoever asks is no sentinel.
//!
//! *Kernel*: `/proc/PID/task/TID/stat` and `…/children` in `proc_pid_task(5)`. A descendant whose
//! parent has ended belongs to another process there, and is not found.
//!
//! Why: docs/decisions/descendants-by-proc.md

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{io, mem};

use cmwq_core::detect::processes;

use super::budget::{above_streams, budget, is_within};
use super::clock::CpuClock;
use super::lasting_fd::LastingFd;
use super::signal::is_process;
use super::stat::{StatFile, ThreadState};
use crate::os::sync::plain::Arc;

/// LIMIT: threads and processes that are looked at in one go; of a larger family nobody can tell.
const MOST: usize = 1024;
/// LIMIT: so many processes and threads are remembered from a look; of a larger family the
/// clocks tell less.
const REMEMBERED: usize = 16;
/// LIMIT: of so many processes the files are kept open, two each at most.
const KEPT: usize = 2;

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
    files: Files,
    /// It was found waiting before.
    has_waited: bool,
    /// The thread that ran when all were looked at last, or the one that was looked at last.
    likely: Option<Arc<StatFile>>,
    /// All who might start somebody, if the last look at all found nobody running: the processes,
    /// and the thread of ours whose children they are.
    still: Vec<Still>,
}

/// A process, or our own thread, and the CPU time that it had used before it was looked at.
#[derive(Debug)]
struct Still {
    clock: CpuClock,
    used: u64,
}

impl Still {
    fn of(clock: CpuClock) -> Option<Self> {
        Some(Self { clock, used: clock.now_ns()? })
    }

    fn has_not_run(&self) -> bool {
        self.clock.now_ns() == Some(self.used)
    }
}

/// What is kept open from look to look.
#[derive(Debug, Default)]
struct Files {
    /// The list of our own thread's children, if the family begins with them.
    ours: Option<LastingFd<File>>,
    processes: Vec<Kept>,
}

/// A process whose files are open.
#[derive(Debug)]
struct Kept {
    pid: u32,
    /// Of its first thread.
    stat: Arc<StatFile>,
    /// Of its first thread's children, once it was found waiting. It is read each time: also who
    /// has not run may get children, namely orphans.
    list: Option<LastingFd<File>>,
}

/// What a look at all found.
#[derive(Debug, Default)]
struct Round {
    threads: usize,
    /// Somebody came or went while we looked.
    has_changed: bool,
    is_running: bool,
    /// The threads; if one runs, it is the last. Some of them, if there are many.
    looked_at: Vec<Arc<StatFile>>,
    /// Files of processes that have gone are closed.
    has_tidied: bool,
    /// How many have a clock: each process, and our own thread.
    clocks: usize,
    /// One for each of them, unless it could not be read or there are too many.
    still: Vec<Still>,
}

impl Files {
    /// The children of a thread of ours. It is there: where procfs does not show it, that is an
    /// error, and not the thread's end.
    fn children_of(&mut self, tid: libc::pid_t) -> io::Result<Vec<u32>> {
        if let Some(list) = &self.ours {
            return children_in(list);
        }
        let (children, list) = open_children(format!("/proc/self/task/{tid}").as_ref())?;
        self.ours = Some(list);
        Ok(children)
    }
}

impl processes::Family for Family {
    /// Whether it was found waiting, and nobody has had a CPU since: who has not run has started
    /// nobody, and woken nobody either. Reads some clocks, which stand between ticks of the
    /// scheduler: one that has just begun to run may count as waiting until the next.
    fn has_not_run(&self) -> bool {
        !self.still.is_empty() && self.still.iter().all(Still::has_not_run)
    }

    /// Whether the thread that is most likely to run does. Costs one read.
    fn is_likely_running(&self) -> bool {
        let state = self.likely.as_ref().and_then(|stat| stat.state().ok());
        state.is_some_and(|state| !state.is_blocked())
    }

    /// Whether any thread of the family runs, by a look at all of them; a family that has ended
    /// does not. `None`: procfs does not tell, or there are too many.
    fn scan(&mut self) -> Option<bool> {
        self.likely = None;
        self.still = Vec::new();
        let mut round = self.round()?;
        let is_one = round.threads < 2 && !round.has_changed;
        if !round.is_running && !is_one && !round.stands_still() {
            // One of those that were looked at first may have been woken by one that was looked at
            // later: nobody was found running at any time, and somebody ran all the time.
            round = self.round()?;
        }
        if !round.is_running && round.has_all_clocks() {
            self.still = round.still;
        }
        if round.is_running || self.has_waited {
            self.likely = round.looked_at.pop();
            self.keep_to_budget();
        } else {
            // Most wait once, and end then; and what is open meanwhile, who forks copies.
            self.files = Files::default();
        }
        self.has_waited |= !round.is_running;
        Some(round.is_running)
    }
}

impl Family {
    pub(crate) fn new(root: Root) -> Self {
        let files = Files::default();
        Self { root, files, has_waited: false, likely: None, still: Vec::new() }
    }

    /// Closes what the library has no room for.
    fn keep_to_budget(&mut self) {
        let Some(limit) = budget() else { return };
        let has_room = |list: &LastingFd<File>| is_within(limit, &**list);
        let Files { ours, processes } = &mut self.files;
        ours.take_if(|list| !has_room(list));
        for kept in processes.iter_mut() {
            kept.list.take_if(|list| !has_room(list));
        }
        processes.retain(|kept| kept.stat.is_within(limit));
        self.likely.take_if(|stat| !stat.is_within(limit));
    }

    fn round(&mut self) -> Option<Round> {
        let mut round = Round::default();
        let mut processes = Vec::new();
        match self.root {
            Root::Process(pid) => processes.push(pid),
            Root::ChildrenOf(tid) => {
                // Once it has run it may have started others.
                round.remember(CpuClock::of_thread(tid));
                processes = self.files.children_of(tid).ok()?;
            }
        }
        while let Some(pid) = processes.pop() {
            round.look_at_process(pid, &mut self.files.processes, &mut processes)?;
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
        let is_blocked = |stat: &Arc<StatFile>| stat.state().is_ok_and(|state| state.is_blocked());
        self.looked_at.len() == self.threads
            && self.looked_at.iter().all(is_blocked)
            && self.has_all_clocks()
            && self.still.iter().all(Still::has_not_run)
    }

    fn has_all_clocks(&self) -> bool {
        !self.has_changed && self.clocks == self.still.len()
    }

    fn remember(&mut self, clock: CpuClock) {
        self.clocks += 1;
        if self.still.len() < REMEMBERED {
            self.still.extend(Still::of(clock));
        }
    }

    /// Looks at its threads until one runs, the first one first. `None`: procfs does not tell.
    fn look_at_process(
        &mut self,
        pid: u32,
        kept: &mut Vec<Kept>,
        processes: &mut Vec<u32>,
    ) -> Option<()> {
        self.remember(CpuClock::of_process(pid));
        let nr_threads = match self.look_at_kept(pid, kept, processes)? {
            0 => self.look_at_first(pid, kept, processes)?,
            nr_threads => nr_threads,
        };
        if nr_threads < 2 || self.is_running {
            return Some(());
        }
        self.look_at_others(pid, processes)
    }

    /// Looks at the first thread of a process by files that are open. Returns how many it has; 0:
    /// it has gone, or its files are not open.
    fn look_at_kept(
        &mut self,
        pid: u32,
        kept: &mut Vec<Kept>,
        processes: &mut Vec<u32>,
    ) -> Option<u64> {
        let Some(place) = kept.iter().position(|kept| kept.pid == pid) else { return Some(0) };
        let (state, nr_threads) = self.look_by(&kept[place].stat)?;
        if state == ThreadState::Gone && nr_threads == 0 {
            // The number may be another's now.
            kept.swap_remove(place);
        } else if waits(state) {
            if let Some(list) = &kept[place].list {
                processes.extend(children_in(list).ok()?);
            } else {
                kept[place].list = self.add_children(&first_of(pid), processes)?;
            }
        }
        Some(nr_threads)
    }

    /// Looks at the first thread of a process, and keeps the files open. Returns as
    /// [`look_at`](Self::look_at).
    fn look_at_first(
        &mut self,
        pid: u32,
        kept: &mut Vec<Kept>,
        processes: &mut Vec<u32>,
    ) -> Option<u64> {
        let task = first_of(pid);
        let Some(stat) = self.open(&task)? else {
            // Who is there, and whom procfs does not show (`hidepid`, no procfs), may run.
            return if is_process(pid) { None } else { Some(0) };
        };
        let (state, nr_threads) = self.look_by(&stat)?;
        let list = if waits(state) { self.add_children(&task, processes)? } else { None };
        if state != ThreadState::Gone && self.has_room(kept) {
            kept.push(Kept { pid, stat, list });
        }
        Some(nr_threads)
    }

    /// Looks at the threads of a process behind its first.
    fn look_at_others(&mut self, pid: u32, processes: &mut Vec<u32>) -> Option<()> {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let first = first_of(pid);
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
        let Some(stat) = self.open(task)? else { return Some(0) };
        let (state, nr_threads) = self.look_by(&stat)?;
        if waits(state) {
            self.add_children(task, processes)?;
        }
        Some(nr_threads)
    }

    /// Opens a thread's state. `Some(None)`: it has gone.
    #[expect(clippy::option_option, reason = "the outer one is for `?`, as everywhere here")]
    fn open(&mut self, task: &Path) -> Option<Option<Arc<StatFile>>> {
        match StatFile::open_path(&task.join("stat")) {
            Ok(stat) => Some(Some(Arc::new(stat))),
            Err(error) if is_gone(&error) => {
                self.has_changed = true;
                Some(None)
            }
            Err(_) => None,
        }
    }

    fn look_by(&mut self, stat: &Arc<StatFile>) -> Option<(ThreadState, u64)> {
        self.threads += 1;
        if self.threads > MOST {
            return None;
        }
        let (state, nr_threads) = stat.state_and_threads().ok()?;
        self.is_running = !state.is_blocked();
        if state == ThreadState::Gone {
            self.has_changed |= nr_threads == 0;
            self.threads -= 1;
        } else {
            if self.looked_at.len() == REMEMBERED {
                self.looked_at.pop();
            }
            self.looked_at.push(Arc::clone(stat));
        }
        Some((state, nr_threads))
    }

    /// Adds a thread's children, and returns their list, unless it has gone.
    #[expect(clippy::option_option, reason = "the outer one is for `?`, as everywhere here")]
    fn add_children(
        &mut self,
        task: &Path,
        processes: &mut Vec<u32>,
    ) -> Option<Option<LastingFd<File>>> {
        match open_children(task) {
            Ok((children, list)) => {
                processes.extend(children);
                Some(Some(list))
            }
            // The kernel was built without it, if the thread is still there.
            Err(_) if task.exists() => None,
            Err(_) => {
                self.has_changed = true;
                Some(None)
            }
        }
    }

    /// Whether the files of one more process may be kept.
    fn has_room(&mut self, kept: &mut Vec<Kept>) -> bool {
        if kept.len() >= KEPT && !mem::replace(&mut self.has_tidied, true) {
            let is_there = |stat: &StatFile| stat.state().is_ok_and(|it| it != ThreadState::Gone);
            kept.retain(|kept| is_there(&kept.stat));
        }
        kept.len() < KEPT
    }
}

/// Where the first thread of a process is.
fn first_of(pid: u32) -> PathBuf {
    format!("/proc/{pid}/task/{pid}").into()
}

/// Opens the list of a thread's children, and reads it.
fn open_children(task: &Path) -> io::Result<(Vec<u32>, LastingFd<File>)> {
    let list = File::open(task.join("children")).and_then(above_streams)?;
    Ok((children_in(&list)?, LastingFd::new(list)))
}

fn waits(state: ThreadState) -> bool {
    state.is_blocked() && state != ThreadState::Gone
}

/// LIMIT: the kernel answers with so many bytes of a list at once, if there are so many. Of more it
/// may leave some for the next time, since it has no room for the last number.
const FILLED: usize = 2048;

/// Reads a list of children from its beginning.
fn children_in(list: &File) -> io::Result<Vec<u32>> {
    // Longer than most of these lists are; nobody knows how long one is.
    let mut text = vec![0; 128];
    let mut len = 0;
    loop {
        let asked = text.len() - len;
        match list.read_at(&mut text[len..], len as u64) {
            Ok(0) => break,
            Ok(more) => {
                len += more;
                if more < asked && asked <= FILLED {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if len == text.len() {
            text.resize(2 * len, 0);
        }
    }
    let text = str::from_utf8(&text[..len]).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}
