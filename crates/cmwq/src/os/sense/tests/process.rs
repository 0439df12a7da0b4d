use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::eventually;
use crate::os::sense::{Family, Root};

/// A shell's function that computes for ten seconds or so, and ends even if nobody kills it.
const COMPUTES: &str = "computes() { i=0; while [ $i -lt 9999999 ]; do i=$((i+1)); done; }";

/// A shell that is killed when it is dropped, with all that it has started.
struct Shell(Child);

impl Shell {
    fn new(script: &str) -> Self {
        let script = format!("{COMPUTES}; {script}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).process_group(0);
        Self(command.spawn().unwrap())
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

fn found_waiting(shell: &Shell) -> Family {
    let mut family = Family::new(Root::Process(shell.0.id()));
    // A shell that has not got as far as its `read` may wait for a page of its program.
    eventually("the family waits, and stays so", || {
        family.look() == Some(false) && family.has_not_run()
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
        eventually("a look says that it runs", || family.look() == Some(true));
        eventually("one read says so, too", || {
            family.is_likely_running() || {
                let _ = family.look();
                false
            }
        });
    }
}

#[test]
fn a_family_that_has_ended_does_not_run() {
    let mut shell = Shell::new("read line");
    let mut family = found_waiting(&shell);
    shell.type_return();
    shell.0.wait().unwrap();
    assert!(!family.is_likely_running());
    assert_eq!(family.look(), Some(false));
}
