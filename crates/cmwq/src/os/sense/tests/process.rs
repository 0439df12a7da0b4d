use std::io::Write;
use std::process::{Child, Command, Stdio};

use super::eventually;
use crate::os::sense::{Family, Root};

/// A shell that is killed when it is dropped.
struct Shell(Child);

impl Shell {
    fn new(script: &str) -> Self {
        Self(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap())
    }

    fn type_return(&mut self) {
        self.0.stdin.as_mut().expect("a pipe").write_all(b"\n").unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn found_waiting(shell: &Shell) -> Family {
    let mut family = Family::new(Root::Process(shell.0.id()));
    // A shell that has not got as far as its `read` may wait for a page of its program.
    eventually("the family waits, and stays so", || {
        family.look() == Some(false) && family.glance() == Some(false)
    });
    family
}

#[test]
fn a_family_that_waited_is_looked_at_again_when_one_of_it_has_run() {
    for script in [
        "read line; while :; do :; done",
        "sh -c 'exec sleep 1000' & read line; kill $!; while :; do :; done",
        "read line; sh -c 'while kill -0 $PPID 2>/dev/null; do :; done' & read line",
    ] {
        let mut shell = Shell::new(script);
        let mut family = found_waiting(&shell);
        shell.type_return();
        eventually("a glance does not say that it waits", || family.glance() != Some(false));
        eventually("a look says that it runs", || family.look() == Some(true));
        eventually("a glance says so, too", || {
            family.glance() == Some(true) || {
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
    assert_ne!(family.glance(), Some(true));
    assert_eq!(family.look(), Some(false));
}
