//! `cmwq set` against programs that listen, and such that do not.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use cmwq::Workqueue;
use serde_json::Value;
use tempfile::TempDir;

use crate::refusing::hide_proc;
use crate::support::{check_code, not_tested, stderr};

/// A program with queues, in a process of its own: this binary, running [`victim`] alone.
pub(crate) struct Victim {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    directory: TempDir,
}

const READY: &str = "the victim is ready";

#[test]
#[ignore = "for the processes that other tests start"]
fn victim() {
    if std::env::var_os("CMWQ_VICTIM").is_none() {
        return;
    }
    let builder = Workqueue::builder;
    let _queues = [
        builder("disk").unbound().sysfs().build().unwrap(),
        builder("a b\u{1b}[31m").percpu().sysfs().max_active(7).build().unwrap(),
        builder("in order").ordered().sysfs().build().unwrap(),
        builder("private").unbound().build().unwrap(),
    ];
    let say = |text: &str| {
        use std::io::Write as _;
        writeln!(std::io::stdout(), "\n{text}").unwrap();
    };
    say(READY);
    // Until nobody wants it any more.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

impl Victim {
    fn new(prepare: impl FnOnce(&mut Command)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "set::victim", "--ignored", "--nocapture", "--test-threads", "1"])
            .env("CMWQ_VICTIM", "1")
            .env("CMWQ_QUIET", "1")
            .env("XDG_RUNTIME_DIR", directory.path())
            .env_remove("CMWQ_PARAMS")
            .env_remove("CMWQ_CONTROL")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut victim = Self { child, input, output: BufReader::new(output), directory };
        let mut line = String::new();
        while line.trim() != READY {
            line.clear();
            assert_ne!(victim.output.read_line(&mut line).unwrap(), 0, "the victim has died");
        }
        victim
    }

    pub(crate) fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn listening() -> Self {
        Self::new(|command| _ = command.env("CMWQ_CONTROL", "1"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        command.args(["set", "--timeout", "60"]).arg(self.child.id().to_string()).args(arguments);
        command.env("LC_ALL", "C");
        command.env_remove("XDG_RUNTIME_DIR").env_remove("CMWQ_CONTROL").env_remove("CMWQ_PARAMS");
        command
    }

    fn set(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it prints when all is well.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.set(arguments);
        check_code(&output, 0);
        assert_eq!(stderr(&output), "");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it says when it is not.
    #[track_caller]
    fn refused(&self, arguments: &[&str], parts: &[&str]) {
        let output = self.set(arguments);
        check_code(&output, 1);
        check_message(&output, parts);
    }

    #[track_caller]
    fn json(&self, arguments: &[&str], code: i32) -> Value {
        let output = self.set(&[arguments, &["--json"]].concat());
        check_code(&output, code);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: takes numbers only; the child was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.input.take());
        let mut rest = Vec::new();
        let _ = self.output.read_to_end(&mut rest);
        let _ = self.child.wait();
    }
}

#[track_caller]
fn check_message(output: &Output, parts: &[&str]) {
    let message = stderr(output);
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in parts {
        assert!(message.contains(part), "{part} is not in {message}");
    }
}

#[test]
fn attributes_are_set_and_read_back() {
    let victim = Victim::listening();
    assert_eq!(
        victim.done(&["disk", "max_active=4", "affinity_scope=system", "affinity_strict=1"]),
        "disk max_active=4 (was 1024)\n\
         disk affinity_scope=system (was default (cache_shard))\n\
         disk affinity_strict=1 (was 0)\n"
    );
    assert_eq!(victim.done(&["disk", "max_active=4"]), "disk max_active=4 (as before)\n");
    assert_eq!(victim.done(&["disk", "max_active=5000"]), "disk max_active=2048 (was 4)\n");
    assert_eq!(
        victim.done(&["--global", "default_affinity_scope=numa"]),
        ". default_affinity_scope=numa (was cache_shard)\n"
    );
    assert_eq!(
        victim.done(&[".", "default_affinity_scope=cache"]),
        ". default_affinity_scope=cache (was numa)\n"
    );
    assert_eq!(victim.done(&["in order", "nice=0"]), "'in order' nice=0 (as before)\n");
    let changed = victim.json(&["disk", "max_active=8"], 0);
    assert_eq!(changed["name"], "disk");
    assert_eq!(changed["set"][0]["was"], "2048");
    assert_eq!(changed["set"][0]["is"], "8");
    assert_eq!(changed["error"], Value::Null);
}

#[test]
fn queues_are_listed_with_their_attributes() {
    let victim = Victim::listening();
    let text = victim.done(&["--list"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = text.lines().map(words).collect();
    assert_eq!(lines[0][..2], ["cpumask", "="]);
    assert_eq!(lines[3], ["default_affinity_scope", "=", "cache_shard"]);
    assert_eq!(lines[5][..4], ["WORKQUEUE", "WRITABLE", "per_cpu", "max_active"]);
    assert_eq!(lines[6][..5], ["disk", "yes", "0", "1024", "0"]);
    assert!(text.contains("default (cache_shard)"), "{text}");
    assert!(!text.contains('\u{1b}'), "a name sends nothing to the terminal: {text:?}");
    assert_eq!(lines.last().unwrap()[..2], ["private", "no"]);
    let one = victim.done(&["--list", "private"]);
    assert_eq!(one.lines().count(), 2, "{one}");

    let all = victim.json(&["--list"], 0);
    let queues = all["workqueues"].as_array().unwrap();
    let names: Vec<_> = queues.iter().map(|queue| queue["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["disk", "a b\u{1b}[31m", "in order", "private"]);
    assert_eq!(queues[1]["attributes"], serde_json::json!({"per_cpu": "1", "max_active": "7"}));
    assert_eq!(queues[3]["writable"], false);
    assert_eq!(all["global"]["default_affinity_scope"], "cache_shard");
    assert_eq!(all["left_out"], 0);
    let global = victim.json(&["--list", "."], 0);
    assert_eq!(global["workqueues"], serde_json::json!([]));
    assert_eq!(global["global"], all["global"]);
}

#[test]
fn what_cannot_be_set_is_explained() {
    let victim = Victim::listening();
    victim.refused(&["dsk", "nice=1"], &["no workqueue 'dsk'", "did you mean 'disk'?"]);
    victim.refused(&["zzzz", "nice=1"], &["no workqueue 'zzzz'", "--list"]);
    victim.refused(&["disk", "max-active=1"], &["no attribute 'max-active'", "max_active"]);
    victim.refused(&["disk", "nice=100"], &["nice 100 is not within -20 to 19"]);
    victim.refused(&["disk", "cpumask=0-3"], &["hexadecimal", "'0-3'"]);
    victim.refused(&["disk", "affinity_scope=node"], &["numa", "'node'"]);
    victim.refused(&["disk", "max_active="], &["takes a number"]);
    victim.refused(&["disk", "max_active=1\nshow"], &["one line"]);
    victim.refused(&["disk", "per_cpu=1"], &["read only"]);
    victim.refused(&["in order", "max_active=2"], &["one item at a time"]);
    victim.refused(&["private", "max_active=2"], &["Builder::sysfs"]);
    victim.refused(&["a b\u{1b}[31m", "nice=2"], &["per-CPU"]);
    victim.refused(&[".", "cpumask_isolated=1"], &["read only"]);
    for scope in ["bogus", "default"] {
        let value = format!("default_affinity_scope={scope}");
        let takes = "default_affinity_scope takes cpu, smt, ";
        victim.refused(&[".", &value], &[takes, &format!("'{scope}' is none")]);
    }
    victim.refused(&[".", "cpumask=0"], &["unbound work needs a CPU; here it can use "]);
    victim.refused(&["--list", "dsk"], &["did you mean 'disk'?"]);

    let output = victim.set(&["disk", "max_active=3", "nice=99", "affinity_strict=1"]);
    check_code(&output, 1);
    assert_eq!(output.stdout, b"disk max_active=3 (was 1024)\n", "what was done before is told");
    let error = victim.json(&["disk", "max_active=2", "nice=99"], 1);
    assert_eq!((&error["error"]["kind"], &error["set"][0]["is"]), (&"invalid".into(), &"2".into()));
    assert!(victim.done(&["--list", "disk"]).contains(" 2 "), "the third was not tried");
}

#[test]
fn wrong_usage_is_code_2() {
    let victim = Victim::listening();
    for arguments in [&[][..], &["disk"], &["disk", "nice"], &["--list", "disk", "nice=1"]] {
        let output = victim.set(arguments);
        check_code(&output, 2);
        assert!(stderr(&output).contains("Usage: cmwq set"), "{}", stderr(&output));
    }
    // Without the process the name is taken for it.
    for (arguments, part) in [
        (&["disk", "max_active=4"][..], "cmwq set - NAME ATTR=VALUE"),
        (&["--global", "cpumask=3"], "cmwq set - NAME ATTR=VALUE"),
        (&["-", "max_active=4"], "cmwq set - NAME ATTR=VALUE"),
        (&["-", "--global", ".", "cpumask=3"], "--global takes no NAME"),
        (&["-", "disk", "max_active"], "ATTR=VALUE after the name"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        let output = command.arg("set").args(arguments).output().unwrap();
        check_code(&output, 2);
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn who_does_not_listen_is_told_from_who_is_not_there() {
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id().to_string();
    gone.wait().unwrap();
    let set = |pid: &str| {
        Command::new(env!("CARGO_BIN_EXE_cmwq")).args(["set", pid, "--list"]).output().unwrap()
    };
    let output = set(&pid);
    check_code(&output, 1);
    check_message(&output, &[&format!("there is no process {pid}")]);

    let silent = Victim::new(|_| ());
    silent.refused(
        &["--list"],
        &["has no control socket", "CMWQ_CONTROL=1", "cmwq::control::listen"],
    );
    assert_eq!(silent.json(&["disk", "nice=1"], 1)["error"]["kind"], "not-listening");
}

#[test]
fn a_socket_elsewhere_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("my own.socket");
    let victim = Victim::new(|command| _ = command.env("CMWQ_CONTROL", &path));
    assert_eq!(victim.done(&["disk", "nice=0"]), "disk nice=0 (as before)\n");
    let path = path.to_str().unwrap();
    assert_eq!(victim.done(&["--socket", path, "disk", "nice=0"]), "disk nice=0 (as before)\n");
    victim.refused(&["--socket", "/no/such", "--list"], &["/no/such: "]);
    // It is not the one that was named.
    let other = Victim::listening();
    let there = format!("process {} listens there", victim.child.id());
    other.refused(&["--socket", path, "disk", "nice=5"], &[&there]);
    assert_eq!(victim.done(&["disk", "nice=0"]), "disk nice=0 (as before)\n");
    let usual = victim.directory.path().join(format!("cmwq-{}.sock", victim.child.id()));
    assert!(!usual.exists());
}

#[test]
fn a_process_that_stands_still_is_not_waited_for() {
    let victim = Victim::listening();
    victim.signal(libc::SIGSTOP);
    let pid = victim.child.id().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    let output = command.args(["set", "--timeout", "1", &pid, "--list"]).output().unwrap();
    victim.signal(libc::SIGCONT);
    check_code(&output, 1);
    check_message(&output, &["has not answered", "stopped"]);
    victim.done(&["--list"]);
}

#[test]
fn a_process_that_was_killed_leaves_nothing_to_talk_to() {
    let mut victim = Victim::listening();
    let usual = victim.directory.path().join(format!("cmwq-{}.sock", victim.child.id()));
    assert!(usual.exists());
    victim.signal(libc::SIGKILL);
    victim.child.wait().unwrap();
    victim.refused(&["--list"], &["there is no process"]);
}

#[test]
fn without_proc_the_usual_places_are_tried() {
    if !rustix::process::geteuid().is_root() {
        return not_tested("only root can hide /proc");
    }
    let victim = Victim::listening();
    let mut command = victim.command(&["disk", "nice=0"]);
    hide_proc(&mut command);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return not_tested(&format!("cannot hide /proc: {error}")),
    };
    check_code(&output, 1);
    check_message(&output, &["cannot find the control socket", "/proc/"]);
    let mut command = victim.command(&["disk", "nice=0"]);
    hide_proc(command.env("XDG_RUNTIME_DIR", victim.directory.path()));
    check_code(&command.output().unwrap(), 0);
}

#[test]
fn another_user_is_told_why_not() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return not_tested("only root can become another user");
    }
    let victim = Victim::listening();
    // The command's own file must be where the other user can get at it.
    let directory = tempfile::tempdir_in("/tmp").unwrap();
    let program = directory.path().join("cmwq");
    fs::copy(env!("CARGO_BIN_EXE_cmwq"), &program).unwrap();
    for (path, mode) in [(directory.path(), 0o755), (&*program, 0o755)] {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = Command::new(&program);
    command.arg("set").arg(victim.child.id().to_string()).arg("--list");
    let output = match command.uid(NOBODY).gid(NOBODY).current_dir("/").output() {
        Ok(output) => output,
        Err(error) => return not_tested(&format!("as another user: {error}")),
    };
    check_code(&output, 1);
    check_message(&output, &["permission denied", "belongs to user 0", "root"]);
}
