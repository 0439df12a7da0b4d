//! What the operating system is asked, made safe.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::{mem, ptr};

/// To be started again also by a user who may not enter the folders above its file.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

/// Ends the process without running anything more.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number; nothing of this process is used afterwards.
    unsafe { libc::_exit(code) }
}

/// A niceness that is `by` above the one that this process was given, if there is one: without
/// privileges it may have none below.
pub(crate) fn nicer_by(by: i32) -> i32 {
    // SAFETY: takes numbers.
    nicer(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }, by)
}

/// Soaks are not to have more of the machine than others, hence nothing below 0.
fn nicer(own: i32, by: i32) -> i32 {
    (own.max(0) + by).min(19)
}

/// A line of `/proc/self/status`, as a number.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

pub(crate) fn rss_mib() -> u64 {
    status("VmRSS") / 1_024
}

pub(crate) fn nr_threads() -> u64 {
    status("Threads")
}

/// The ids of this process's threads.
pub(crate) fn threads() -> Vec<i32> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let ids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    ids.collect()
}

/// The names of threads that the library has made.
pub(crate) fn workers() -> Vec<String> {
    let name = |id: i32| fs::read_to_string(format!("/proc/self/task/{id}/comm")).ok();
    let names = threads().into_iter().filter_map(name).map(|name| name.trim().to_owned());
    names.filter(|name| name.starts_with("kworker") || name.starts_with("kwq")).collect()
}

/// Lets the process be killed by SIGALRM if it is still there in so many seconds; 0: not any more.
pub(crate) fn alarm(seconds: u32) {
    nix::unistd::alarm::set(seconds.max(1));
}

/// Forks: in the child `part` is done, and the process ends with what it returns.
pub(crate) fn fork(part: impl FnOnce() -> i32) -> io::Result<nix::unistd::Pid> {
    // SAFETY: the child calls what the library promises to be callable there, and the allocator,
    // which the C library keeps usable; it takes no lock that other threads of this program take.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(child),
        nix::unistd::ForkResult::Child => exit_now(part()),
    }
}

type Part = Box<dyn FnOnce() + Send>;

/// Starts a thread that Rust's library knows nothing of: in a forked child, those that it starts
/// may wait for ever for a lock that another thread of the parent held. `false`: there is none to
/// be had.
pub(crate) fn plain_thread(part: impl FnOnce() + Send + 'static) -> bool {
    extern "C" fn begin(part: *mut c_void) -> *mut c_void {
        // SAFETY: made below, for this thread.
        let part = unsafe { Box::from_raw(part.cast::<Part>()) };
        part();
        ptr::null_mut()
    }
    let part: *mut Part = Box::into_raw(Box::new(Box::new(part)));
    // SAFETY: a number, which the call writes.
    let mut thread = unsafe { mem::zeroed() };
    // SAFETY: `begin` gets the part that is its.
    let rc = unsafe { libc::pthread_create(&raw mut thread, ptr::null(), begin, part.cast()) };
    if rc != 0 {
        // SAFETY: just made, and no thread has it.
        drop(unsafe { Box::from_raw(part) });
        return false;
    }
    // SAFETY: just created, and not waited for.
    unsafe { libc::pthread_detach(thread) };
    true
}

/// What the threads of a process do, as the system tells it.
pub(crate) fn threads_of(pid: nix::unistd::Pid) -> String {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return String::new() };
    let line = |task: fs::DirEntry| {
        let parts = ["comm", "wchan", "syscall"];
        let read = |part| fs::read_to_string(task.path().join(part)).unwrap_or_default();
        let parts = parts.map(|part| read(part).trim().to_owned());
        format!("{}: {}\n", task.file_name().display(), parts.join(", "))
    };
    tasks.flatten().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::nicer;

    #[test]
    fn no_pool_asks_for_more_than_this_process_has() {
        for own in -20..=19 {
            for by in 0..10 {
                assert!((own.max(0)..=19).contains(&nicer(own, by)), "{by} above {own}");
            }
        }
    }
}
