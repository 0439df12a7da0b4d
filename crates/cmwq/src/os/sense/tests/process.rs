use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use cmwq_core::detect::processes::Family as _;

use super::eventually;
use crate::os::sense::sched::gettid;
use crate::os::sense::{Family, Root};

/// A shell's function that computes for ten seconds or so, and ends even if nobody kills it.
const COMPUTES: &str = "computes() { i=0; while [ $i -lt 9999999 ]; do i=$((i+1)); done; }";

/// A shell that is killed when it is dropped, with all that it has started.
struct Shell(Child);

impl Shell {
    fn new(script: &str) -> Self {
        Self(Self::command(script).spawn().unwrap())
    }

    /// One that gets the children of descendants that end.
    fn subreaper(script: &str) -> Self {
        let mut command = Self::command(script);
        // SAFETY: one system call, of numbers.
        let become_one = || match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: that may be done in a forked child.
        unsafe { command.pre_exec(become_one) };
        Self(command.spawn().unwrap())
    }

    fn command(script: &str) -> Command {
        let script = format!("{COMPUTES}; {script}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).process_group(0);
        command
    }

    fn type_return(&mut self) {
        self.0.stdin.as_mut().expect("a pipe").write_all(b"\n").unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Once somebody has waited for it, its number may be another's.
        if let Ok(None) = self.0.try_wait() {
            let group = format!("-{}", self.0.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = self.0.wait();
        }
    }
}

/// A thread that starts shells, and waits in between. It ends them when it ends.
struct Starter {
    tid: libc::pid_t,
    scripts: Option<mpsc::Sender<&'static str>>,
    thread: Option<JoinHandle<()>>,
}

impl Starter {
    fn new() -> Self {
        let (tell, told) = mpsc::channel();
        let (scripts, asked) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(gettid()).unwrap();
            let _shells: Vec<_> = asked.into_iter().map(Shell::new).collect();
        });
        Self { tid: told.recv().unwrap(), scripts: Some(scripts), thread: Some(thread) }
    }

    fn start(&self, script: &'static str) {
        self.scripts.as_ref().expect("until it is dropped").send(script).unwrap();
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        drop(self.scripts.take());
        let _ = self.thread.take().expect("dropped once").join();
    }
}

fn found_waiting(shell: &Shell) -> Family {
    wait_for(Family::new(Root::Process(shell.0.id())))
}

/// The family, when it was found waiting.
fn wait_for(mut family: Family) -> Family {
    // A shell that has not got as far as its `read` may wait for a page of its program.
    eventually("the family waits, and stays so", || {
        family.scan() == Some(false) && family.has_not_run()
    });
    family
}

#[test]
fn a_family_that_waited_is_looked_at_again_when_one_of_it_has_run() {
    for script in [
        "read line; computes",
        "sleep 1000 & read line; kill $!; computes",
        "read line; computes & read line",
        "sleep 1000 & sleep 1000 & sleep 1000 & read line; kill $!; computes & read line",
    ] {
        let mut shell = Shell::new(script);
        let mut family = found_waiting(&shell);
        shell.type_return();
        eventually("the clocks say that somebody ran", || !family.has_not_run());
        eventually("a look says that it runs", || family.scan() == Some(true));
        eventually("one read says so, too", || {
            family.is_likely_running() || {
                let _ = family.scan();
                false
            }
        });
    }
}

/// The others still wait, and have not had a CPU since.
#[test]
fn a_program_that_is_started_beside_others_that_wait_is_looked_at() {
    let starter = Starter::new();
    starter.start("read line");
    let mut family = Family::new(Root::ChildrenOf(starter.tid));
    eventually("it has started", || first_child_of(starter.tid).is_some());
    family = wait_for(family);
    starter.start("computes");
    eventually("a clock says that somebody ran", || !family.has_not_run());
    eventually("a look says that it runs", || family.scan() == Some(true));
}

#[test]
fn of_a_thread_that_has_started_nobody_no_program_runs() {
    let starter = Starter::new();
    let family = wait_for(Family::new(Root::ChildrenOf(starter.tid)));
    assert!(family.has_not_run() && !family.is_likely_running());
}

/// As where procfs is that of another system, or nowhere: the thread is there.
#[test]
fn of_a_thread_that_procfs_does_not_show_nobody_can_tell() {
    let mut family = Family::new(Root::ChildrenOf(libc::pid_t::MAX));
    assert_eq!(family.scan(), None);
    assert!(!family.has_not_run());
}

#[test]
fn a_family_that_has_ended_does_not_run() {
    let mut shell = Shell::new("read line");
    let mut family = found_waiting(&shell);
    shell.type_return();
    shell.0.wait().unwrap();
    assert!(!family.is_likely_running());
    assert_eq!(family.scan(), Some(false));
}

/// A process that sleeps until it is killed, without caring for its children; its child, which
/// waits for the grandchild; and that one, which computes when it has read a line.
const THREE: &str = "exec 3<&0; { { read line; computes; } <&3 & wait; } & exec sleep 1000";

/// The first child of a process, by their numbers.
fn child_of(pid: u32) -> Option<u32> {
    first_in(&format!("/proc/{pid}/task/{pid}/children"))
}

/// The same, of a thread of this process.
fn first_child_of(tid: libc::pid_t) -> Option<u32> {
    first_in(&format!("/proc/self/task/{tid}/children"))
}

fn first_in(list: &str) -> Option<u32> {
    fs::read_to_string(list).ok()?.split_whitespace().next()?.parse().ok()
}

/// What stands in the file of a process behind its name: its state, and its parent.
fn state_and_parent(pid: u32) -> (String, u32) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat.rsplit_once(") ").expect("a name").1.split(' ');
    let mut next = || fields.next().expect("a field");
    (next().to_owned(), next().parse().expect("a number"))
}

/// Kills the child of those [`THREE`] while the others wait, and lets the grandchild compute. What
/// a look at the family says then.
#[track_caller]
fn look_at_orphan(mut shell: Shell) -> Option<bool> {
    let first = shell.0.id();
    let mut grandchild = None;
    eventually("there are three", || {
        grandchild = child_of(first).and_then(child_of);
        grandchild.is_some()
    });
    let (child, grandchild) = (child_of(first).expect("it is there"), grandchild.expect("found"));
    let mut family = found_waiting(&shell);
    assert!(Command::new("kill").args(["-KILL", &child.to_string()]).status().unwrap().success());
    eventually("it is an orphan", || state_and_parent(grandchild).1 != child);
    assert_eq!(family.scan(), Some(false), "nobody computes yet");
    shell.type_return();
    eventually("it computes", || state_and_parent(grandchild).0 == "R");
    family.scan()
}

/// Their new parent has not run since the family was found waiting.
#[test]
fn an_orphan_of_the_family_that_one_of_it_adopts_is_found() {
    assert_eq!(look_at_orphan(Shell::subreaper(THREE)), Some(true));
}

/// It belongs to another process, outside of the family.
#[test]
fn an_orphan_that_nobody_of_the_family_adopts_is_not_looked_at() {
    assert_eq!(look_at_orphan(Shell::new(THREE)), Some(false));
}
