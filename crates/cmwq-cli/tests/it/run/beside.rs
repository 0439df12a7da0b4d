//! Commands that compute: how many there are at once, alone and beside another run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::{command, eventually, printed, run_in};
use crate::support::check_code;

/// Starts no process and never waits: a shell that computes until `go` is there.
const COMPUTES: &str = "echo $$ > pid.{}; while [ ! -e go ]; do :; done; echo {}";

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn cpus() -> usize {
    thread::available_parallelism().unwrap().get()
}

/// A `cmwq run` of commands that compute. It is ended when this is dropped, and they with it.
struct Computing {
    folder: PathBuf,
    child: Option<Child>,
}

impl Computing {
    fn begin(folder: &Path, count: usize) -> Self {
        fs::create_dir(folder).unwrap();
        let names = names(count);
        let mut args = vec!["-k", "sh", "-c", COMPUTES, ":::"];
        args.extend(names.iter().map(String::as_str));
        let child = command(folder, &args).spawn().unwrap();
        Self { folder: folder.to_owned(), child: Some(child) }
    }

    /// The processes that have begun. While `go` is not there none of them has ended.
    fn begun(&self) -> Vec<u32> {
        let files = fs::read_dir(&self.folder).unwrap().filter_map(Result::ok);
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.filter_map(|text| text.trim_end().parse().ok()).collect()
    }

    /// The CPU time of those that compute now, in ticks of `sysconf(_SC_CLK_TCK)`.
    fn used(&self) -> u64 {
        self.begun().into_iter().map(used).sum()
    }

    fn go(&mut self) -> String {
        fs::write(self.folder.join("go"), "").unwrap();
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        check_code(&output, 0);
        printed(&output).to_owned()
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let _ = child.wait();
    }
}

/// User and system time of a process, in ticks; 0 if it has ended.
fn used(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Each counts its own commands only, so both have as many as there are CPUs, and the system's
/// scheduler shares the CPUs among them all. None of them ever waits while this looks, so neither
/// has a reason to start more.
#[test]
fn two_runs_beside_each_other_share_the_cpus() {
    let folder = tempfile::tempdir().unwrap();
    let count = 8 * cpus();
    // The shell is in memory then.
    check_code(&run_in(folder.path(), &["sh", "-c", ":", ":::", "a"], b""), 0);
    let mut runs = ["one", "other"].map(|name| Computing::begin(&folder.path().join(name), count));
    for run in &runs {
        eventually("each has as many as CPUs", || run.begun().len() >= cpus());
        // Half a second.
        eventually("each gets CPU time", || run.used() >= 50);
    }
    for run in &runs {
        // A command may wait for the disk while it starts, and then another one may start, too.
        let begun = run.begun().len();
        assert!(begun <= 4 * cpus(), "{begun} of {count} at once, on {} CPUs", cpus());
    }
    let expected: String = names(count).iter().map(|name| format!("{name}\n")).collect();
    for run in &mut runs {
        assert_eq!(run.go(), expected);
    }
}

/// Each computes until all of them are there. Without the option this has no end.
#[test]
fn cpu_intensive_commands_do_not_keep_others_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let count = 2 * cpus() + 2;
    let script =
        format!(": > in.{{}}; set -- in.*; while [ $# -lt {count} ]; do set -- in.*; done");
    let names = names(count);
    let mut args = vec!["--cpu-intensive", "sh", "-c", &script, ":::"];
    args.extend(names.iter().map(String::as_str));
    check_code(&run_in(folder.path(), &args, b""), 0);
}
