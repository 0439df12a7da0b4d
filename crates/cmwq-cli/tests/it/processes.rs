//! `cmwq ps`, and processes that are named instead of numbered.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use serde_json::Value;

use crate::looking::{Victim, stay, wait_for_a_line};
use crate::support::{check_code, stderr, unshared};

fn cmwq(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cmwq")).args(args).output().unwrap()
}

#[test]
#[ignore = "a program for other tests"]
fn has_a_queue() {
    let wq = Workqueue::new("named").unwrap();
    wq.queue(|| ()).join().unwrap();
    // Joined is told before the books are closed.
    wq.flush();
    stay();
}

/// It runs under a name that nobody else has.
fn victim(name: &str) -> (Victim, String) {
    let name = format!("{name}-{}", std::process::id());
    (Victim::run_as("processes::has_a_queue", Some(&format!("/some/where/{name}"))), name)
}

#[test]
fn ps_lists_a_process_with_what_it_has() {
    let (victim, name) = victim("listed");
    let output = cmwq(&["ps", "--json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let processes = document["processes"].as_array().unwrap();
    let it = processes.iter().find(|process| process["pid"].as_u64() == victim.pid().parse().ok());
    let it = it.unwrap_or_else(|| panic!("{} is not in {document}", victim.pid()));
    assert!(it["command"].as_str().unwrap().contains(&name), "{it}");
    assert!(it["workqueues"].as_u64() >= Some(1) && it["workers"].as_u64() >= Some(1), "{it}");
    assert_eq!((&it["busy"], &it["in_flight"]), (&0.into(), &0.into()));

    let table = String::from_utf8(cmwq(&["ps"]).stdout).unwrap();
    assert!(table.starts_with("    PID QUEUES"), "{table}");
    let row = table.lines().find(|line| line.contains(&name)).unwrap();
    assert!(row.trim_start().starts_with(&victim.pid()), "{row}");
}

/// As in a sandbox: nothing is mounted there, or what belongs to other processes.
#[test]
fn where_procfs_does_not_show_processes_that_is_said() {
    let (victim, _) = victim("hidden");
    let pid = victim.pid();
    let script = r#"mount -t tmpfs none /proc && exec "$@""#;
    let words = ["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"];
    let Some(run) = unshared(&words) else { return };
    for (args, says) in [
        (&["ps"][..], "/proc shows none"),
        (&["dump"], "/proc shows none"),
        (&["dump", "name"], "/proc shows none"),
        (&["dump", &pid], "/proc does not show it"),
        (&["top", "--once", &pid], "/proc does not show it"),
        (&["trace", "-d", "0", "-o", "/dev/null", &pid], "/proc does not show it"),
        (&["dump", "4194304"], "there is no such process"),
        (&["run", "--jobserver", "--", "true"], "/proc/self/fd/"),
    ] {
        let output = run(&[&[env!("CARGO_BIN_EXE_cmwq")], args].concat());
        assert!(!output.status.success(), "{args:?}");
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_process_goes_by_its_name_with_every_verb() {
    let (victim, name) = victim("called");
    let dump = cmwq(&["dump", "--json", &name]);
    check_code(&dump, 0);
    let document: Value = serde_json::from_slice(&dump.stdout).unwrap();
    assert_eq!(document["pid"].to_string(), victim.pid());
    for args in [
        &["monitor", "-i", "0", &name][..],
        &["top", "--once", "-i", "0.05", &name],
        &["trace", "-d", "0.01", "--format", "text", "-o", "-", &name],
    ] {
        check_code(&cmwq(args), 0);
    }
    // It does not listen: that is known of it, so it was found.
    let set = cmwq(&["set", &name, "--list"]);
    check_code(&set, 1);
    assert!(stderr(&set).contains(&victim.pid()), "{}", stderr(&set));
}

#[test]
fn a_name_of_nobody_or_of_several_is_said() {
    let (one, name) = victim("several");
    let wrong = name.replace("several", "severla");
    let output = cmwq(&["dump", &wrong]);
    check_code(&output, 1);
    let said = stderr(&output);
    assert!(said.contains(&format!("no process called '{wrong}'")), "{said}");
    assert!(said.contains(&format!("did you mean '{name}'")), "{said}");

    let (other, _) = victim("several");
    let output = cmwq(&["dump", &name]);
    check_code(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("2 processes are called"), "{said}");
    assert!(said.contains(&one.pid()) && said.contains(&other.pid()), "{said}");
}

/// What a process calls itself cannot forge a line or reach the terminal.
#[test]
fn names_that_mean_harm_are_shown_without_it() {
    let name = format!("forged\n\x1b[31m-{}", std::process::id());
    let [one, other] = [(); 2].map(|()| Victim::run_as("processes::has_a_queue", Some(&name)));
    let output = cmwq(&["dump", &name]);
    check_code(&output, 1);
    let said = stderr(&output);
    assert!(said.contains(&one.pid()) && said.contains(&other.pid()), "{said}");
    assert!(said.lines().count() == 1 && !said.contains('\x1b'), "{said:?}");
    for (args, shown) in
        [(&["ps"][..], "forged??[31m-"), (&["ps", "--json"], "forged\\n\\u001b[31m-")]
    {
        let text = String::from_utf8(cmwq(args).stdout).unwrap();
        assert!(text.lines().any(|line| line.contains(&one.pid())) && !text.contains('\x1b'));
        assert!(text.contains(shown), "{text:?}");
    }
}

#[test]
fn numbers_that_no_process_has_are_refused() {
    for verb in ["dump", "monitor", "top", "trace", "set"] {
        let output = cmwq(&[verb, "99999999999999"]);
        assert!(!output.status.success(), "{verb}");
        assert!(stderr(&output).contains("not the number of a process"), "{}", stderr(&output));
    }
}

#[test]
#[ignore = "a program for other tests"]
fn becomes_another() {
    let wq = Workqueue::new("before").unwrap();
    wq.queue(|| ()).join().unwrap();
    wait_for_a_line();
    // It keeps its number.
    panic!("{}", Command::new("sleep").arg("600").exec());
}

/// A server that executes itself to become a newer one, say.
#[test]
fn who_has_become_another_program_is_not_shown_as_it_was() {
    for verb in [
        &["monitor", "-i", "0.05", "--json"][..],
        &["top", "-i", "0.05", "--json"],
        &["trace", "-d", "100", "--format", "text", "-o", "-"],
    ] {
        let begin = Instant::now();
        let mut victim = Victim::run("processes::becomes_another");
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
        command.args(verb).arg(victim.pid()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut tool = command.spawn().unwrap();
        let mut lines = BufReader::new(tool.stdout.take().unwrap()).lines();
        if verb[0] == "trace" {
            let link = |entry: std::io::Result<std::fs::DirEntry>| {
                std::fs::read_link(entry.unwrap().path()).unwrap_or_default()
            };
            let has_begun = || {
                let listed = std::fs::read_dir(format!("/proc/{}/fd", tool.id())).unwrap();
                listed.map(link).any(|to| to.to_string_lossy().contains("cmwq-trace"))
            };
            while !has_begun() {
                std::thread::yield_now();
            }
        } else {
            assert!(lines.next().unwrap().unwrap().contains("before"));
        }
        victim.say("go on");
        let ends = lines.map(Result::unwrap).take(1000).count() < 1000;
        let ends_at_once = ends && begin.elapsed() < Duration::from_secs(100);
        drop(victim);
        let _ = tool.kill();
        let status = tool.wait().unwrap();
        assert!(ends_at_once && status.success(), "{verb:?}: {status}");
    }
}
