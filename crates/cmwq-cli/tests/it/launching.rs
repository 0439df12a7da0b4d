//! Programs that `cmwq trace` and `cmwq top` start.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::support::{check_code, stderr, tree};

const CMWQ: &str = env!("CARGO_BIN_EXE_cmwq");

fn cmwq(args: &[&str]) -> Output {
    Command::new(CMWQ).args(args).stdin(Stdio::null()).output().unwrap()
}

/// This program, running one of those below.
pub(crate) fn program(name: &str) -> [String; 4] {
    let this = std::env::current_exe().unwrap().into_os_string().into_string().unwrap();
    [this, "--exact".to_owned(), format!("launching::{name}"), "--ignored".to_owned()]
}

fn cmwq_on(args: &[&str], name: &str) -> Output {
    let program = program(name);
    let args: Vec<_> = args.iter().copied().chain(program.iter().map(String::as_str)).collect();
    cmwq(&args)
}

#[test]
#[ignore = "a program for other tests"]
fn runs_an_item_and_leaves_with_7() {
    let wq = Workqueue::new("launched").unwrap();
    wq.queue(|| ()).join().unwrap();
    // The handle knows of the value before the worker says that the item has ended.
    wq.flush();
    std::process::exit(7);
}

#[test]
#[ignore = "a program for other tests"]
fn runs_an_item_and_stays() {
    let wq = Workqueue::new("launched").unwrap();
    wq.queue(|| ()).join().unwrap();
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

#[test]
fn a_program_is_traced_from_its_first_item_and_its_exit_code_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.txt");
    let file = file.to_str().unwrap();
    let args = ["trace", "--format", "text", "-o", file, "--json", "--"];
    let output = cmwq_on(&args, "runs_an_item_and_leaves_with_7");
    check_code(&output, 7);
    let trace = fs::read_to_string(file).unwrap();
    for event in ["workqueue_queue_work", "workqueue_execute_start", "workqueue_execute_end"] {
        assert!(trace.contains(event), "{event}: {trace}");
    }
    // What the harness says comes before it, without a line's end.
    let out = String::from_utf8(output.stdout).unwrap();
    let document: Value = serde_json::from_str(&out[out.rfind('{').unwrap()..]).unwrap();
    assert_eq!(document["files"][0], file);
    assert!(document["events"].as_u64() >= Some(3) && document["lost"] == 0, "{document}");
}

#[test]
fn the_command_itself_is_a_program_and_queues_are_chosen_before_the_dashes() {
    let tree = tree(&["a", "b"]);
    let root = tree.path().to_str().unwrap();
    let args = ["trace", "--format", "text", "-o", "-", "--events", "queue_work"];
    let all = cmwq(&[&args[..], &["--", CMWQ, "sum", root]].concat());
    check_code(&all, 0);
    assert!(String::from_utf8_lossy(&all.stdout).contains("workqueue_queue_work"));
    let none = cmwq(&[&args[..], &["no-such-queue", "--", CMWQ, "sum", root]].concat());
    check_code(&none, 0);
    assert!(!String::from_utf8_lossy(&none.stdout).contains("workqueue_queue_work"));
}

#[test]
fn programs_without_queues_and_programs_that_are_not_there() {
    let output = cmwq(&["trace", "-o", "-", "--", "true"]);
    check_code(&output, 1);
    assert!(stderr(&output).contains("used no workqueue"), "{}", stderr(&output));
    let output = cmwq(&["top", "--once", "--", "true"]);
    check_code(&output, 1);
    assert!(stderr(&output).contains("without a workqueue"), "{}", stderr(&output));
    for verb in ["trace", "top"] {
        let mut args = vec![verb];
        args.extend((verb == "top").then_some("--once"));
        check_code(&cmwq(&[&args[..], &["--", "/nowhere/at-all"]].concat()), 127);
        check_code(&cmwq(&[&args[..], &["--", "/dev/null"]].concat()), 126);
    }
}

/// A script in this folder, and where it is.
fn script(folder: &tempfile::TempDir, text: &str) -> String {
    let path = folder.path().join("script");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.into_os_string().into_string().unwrap()
}

/// Nothing says who is to read it: a shell does, as for whatever a shell starts.
#[test]
fn a_script_without_a_first_line_is_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let script = &*script(&folder, "exit $1\n");
    check_code(&cmwq(&["run", "--jobserver", "--", script, "7"]), 7);
    for args in [&["trace", "-o", "/dev/null"][..], &["top", "--once"]] {
        let output = cmwq(&[args, &["--", script, "7"]].concat());
        check_code(&output, 1);
        assert!(stderr(&output).contains("workqueue"), "{}", stderr(&output));
    }
}

#[test]
fn why_a_build_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let script = &*script(&folder, "#!/no/such/shell\n");
    for (program, why) in [
        (script, "the interpreter that it asks for is not"),
        ("make -k", "words are separate arguments"),
        ("/nowhere/at-all", "there is no such program"),
    ] {
        let output = cmwq(&["run", "--jobserver", "--", program]);
        check_code(&output, 127);
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

/// What is wrong with the command is said before the program runs, not when the trace is lost.
#[test]
fn a_program_is_not_started_for_a_trace_that_cannot_be() {
    let folder = tempfile::tempdir().unwrap();
    let [ran, missing] = ["ran", "missing/trace"].map(|name| folder.path().join(name));
    let [ran, missing] = [ran.to_str().unwrap(), missing.to_str().unwrap()];
    for (args, code, says) in [
        (&["(", "-o", "-"][..], 2, "regex"),
        (&["--svg", "-", "--from", "5", "--to", "5"], 2, "--from must be less than --to"),
        (&["-o", missing], 1, missing),
        (&["--svg", missing], 1, missing),
    ] {
        let output = cmwq(&[&["trace"], args, &["--", "touch", ran]].concat());
        check_code(&output, code);
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
        assert!(!fs::exists(ran).unwrap(), "{args:?}: it was started");
    }
}

#[test]
fn an_old_trace_is_kept_where_there_is_no_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace");
    fs::write(&file, "old").unwrap();
    let args = ["trace", "-o", file.to_str().unwrap(), "--"];
    for (program, code) in [("/nowhere/at-all", 127), ("true", 1)] {
        check_code(&cmwq(&[&args[..], &[program]].concat()), code);
        assert_eq!(fs::read(&file).unwrap(), b"old", "{program}");
        let fresh = folder.path().join("fresh");
        check_code(&cmwq(&["trace", "-o", fresh.to_str().unwrap(), "--", program]), code);
        assert!(!fresh.exists(), "{program}: there is an empty one");
    }
    check_code(&cmwq_on(&args, "runs_an_item_and_leaves_with_7"), 7);
    assert!(fs::read(&file).unwrap().starts_with(b"{"));
}

/// The bound of the address space is for the command, which reads what others have made.
#[test]
fn a_program_that_is_traced_has_the_limits_that_it_would_have() {
    let script = "ulimit -v";
    let expected = Command::new("sh").args(["-c", script]).output().unwrap().stdout;
    let output = cmwq(&["trace", "-o", "/dev/null", "--", "sh", "-c", script]);
    assert_eq!(String::from_utf8(output.stdout), String::from_utf8(expected));
}

#[test]
fn top_watches_what_it_started_and_ends_it() {
    let output =
        cmwq_on(&["top", "--once", "--json", "-i", "0.05", "--"], "runs_an_item_and_stays");
    check_code(&output, 0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid = document["pid"].as_i64().unwrap();
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    assert!(test_kill_process(pid).is_err(), "{pid:?} is still there");
}

#[test]
fn top_finds_what_a_script_started_and_ends_both() {
    let [this, exact, name, ignored] = program("runs_an_item_and_stays");
    // The shell stays: it has something to do afterwards.
    let script = r#""$0" "$@"; true"#;
    let args = ["top", "--once", "--json", "-i", "0.05", "--", "sh", "-c", script];
    let output = cmwq(&[&args[..], &[&this, &exact, &name, &ignored]].concat());
    check_code(&output, 0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["command"].as_str().is_some_and(|name| name != "sh"), "{document}");
    let pid = Pid::from_raw(document["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    // Its parent is gone; who inherits it takes note of its end in time of its own.
    while test_kill_process(pid).is_ok() && state(pid) != Some('Z') {
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// As when the connection to another machine breaks: it is told to this command alone, or to both.
#[test]
fn who_loses_the_terminal_ends_the_program_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let told = folder.path().join("pid");
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let script = format!("echo $$ > {0}.new && mv {0}.new {0} && exec sleep 600", told.display());
    for verb in [&["trace", "-o", "/dev/null"][..], &["top", "--once"]] {
        let mut command = Command::new(CMWQ);
        command.args(verb).args(["--", "sh", "-c", &script]).env("TMPDIR", &temporary);
        let mut tool = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let pid: i32 = loop {
            match fs::read_to_string(&told) {
                Ok(pid) => break pid.trim().parse().unwrap(),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        };
        fs::remove_file(&told).unwrap();
        let patience = Instant::now() + Duration::from_secs(100);
        while !catches_hangups(tool.id()) {
            assert!(tool.try_wait().unwrap().is_none(), "{verb:?} has ended");
            assert!(Instant::now() < patience, "{verb:?} does not catch them");
            thread::sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&tool), Signal::HUP).unwrap();
        assert_eq!(tool.wait().unwrap().code(), Some(1), "{verb:?}");
        let pid = Pid::from_raw(pid).unwrap();
        assert!(test_kill_process(pid).is_err(), "{verb:?}: the program is still there");
        let left: Vec<_> = fs::read_dir(&temporary).unwrap().collect();
        assert!(left.is_empty(), "{verb:?}: {left:?}");
    }
}

fn catches_hangups(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1)
}
