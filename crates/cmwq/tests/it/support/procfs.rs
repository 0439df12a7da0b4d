//! This process's threads as the kernel shows them.

use std::fs;
use std::thread;
use std::time::Duration;

use super::sanitizer::is_thread_sanitizer;
use super::sys;

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) tid: i32,
    pub(crate) name: String,
    /// Context switches, voluntary or not.
    pub(crate) switches: u64,
    pub(crate) is_asleep: bool,
    /// A bit for each signal that it has blocked, from 1 on.
    blocked: u64,
}

impl Task {
    pub(crate) fn has_blocked(&self, signal: i32) -> bool {
        self.blocked & 1 << (signal - 1) != 0
    }
}

/// All threads but the calling one and that of a sanitizer. One that ends meanwhile is left out.
pub(crate) fn other_tasks() -> Vec<Task> {
    let me = sys::gettid();
    let tids = tids().into_iter().filter(|tid| *tid != me);
    let mut tasks: Vec<Task> = tids.filter_map(read).collect();
    if is_thread_sanitizer() {
        tasks.retain(|task| !is_sanitizers(task));
    }
    tasks.sort_by_key(|task| task.tid);
    tasks
}

/// How many threads there are, with all of them.
pub(crate) fn nr_threads() -> usize {
    tids().len()
}

/// How much memory the process has.
pub(crate) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this test needs /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|size| size.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("the kernel says how much") << 10
}

fn tids() -> Vec<i32> {
    let dir = fs::read_dir("/proc/self/task").expect("this test needs /proc");
    dir.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// It is named as the thread that started it, which is the first, and answers no signals.
fn is_sanitizers(task: &Task) -> bool {
    let first = read(std::process::id().cast_signed());
    task.has_blocked(libc::SIGTERM) && first.is_some_and(|first| first.name == task.name)
}

fn read(tid: i32) -> Option<Task> {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim_start_matches('\t').to_owned())
    };
    let count = |name| field(name)?.trim().parse::<u64>().ok();
    Some(Task {
        tid,
        name: field("Name")?,
        switches: count("voluntary_ctxt_switches")? + count("nonvoluntary_ctxt_switches")?,
        is_asleep: field("State")?.starts_with('S'),
        blocked: u64::from_str_radix(field("SigBlk")?.trim(), 16).ok()?,
    })
}

/// The names of the workers, of those whose name begins like that.
pub(crate) fn workers(prefix: &str) -> Vec<String> {
    let names = other_tasks().into_iter().map(|task| task.name);
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Whether the threads that the library's threads have made have their names: one that was just
/// made has its maker's. Rescuers of queues with the same name have the same.
pub(crate) fn all_are_named() -> bool {
    let mut names: Vec<_> = other_tasks().into_iter().map(|task| task.name).collect();
    let is_one_of_us = |name: &str| name.starts_with("cmwq/") || name.starts_with("kworker/");
    names.retain(|name| is_one_of_us(name) && !name.starts_with("kworker/R"));
    names.sort_unstable();
    names.windows(2).all(|pair| pair[0] != pair[1])
}

/// The thread of this name.
pub(crate) fn tid_of(name: &str) -> Option<i32> {
    other_tasks().into_iter().find(|task| task.name == name).map(|task| task.tid)
}

/// Context switches of the thread of this name.
pub(crate) fn switches(name: &str) -> u64 {
    other_tasks().into_iter().find(|task| task.name == name).map_or(0, |task| task.switches)
}

/// The scheduling class and niceness of a thread of this process.
pub(crate) fn class_and_nice(tid: i32) -> Option<(i32, i32)> {
    let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // Behind the name, and so from the third field on.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse().ok();
    Some((number(41)?, number(19)?))
}

/// Whether a thread of this process sleeps.
pub(crate) fn is_asleep(tid: i32) -> bool {
    read(tid).is_some_and(|task| task.is_asleep)
}

/// Whether a thread of this process has slept for 8 ms. For what is to have begun to wait: on its
/// way there it may sleep for a lock, whose holder has lost its CPU.
pub(crate) fn rests(tid: i32) -> bool {
    let asleep = || read(tid).filter(|task| task.is_asleep).map(|task| task.switches);
    let since = asleep();
    let is_as_before = |_| {
        thread::sleep(Duration::from_millis(1));
        asleep() == since
    };
    since.is_some() && (0..8).all(is_as_before)
}

/// Whether a thread of this process sleeps, and not for a lock: a lock's holder runs, or would, and
/// here all others sleep. On a busy process, whether it has slept for 8 ms.
pub(crate) fn waits(tid: i32) -> bool {
    if !is_asleep(tid) {
        return false;
    }
    let tasks = other_tasks();
    let are_all_asleep = tasks.iter().all(|task| task.is_asleep) && tasks == other_tasks();
    are_all_asleep || rests(tid)
}
