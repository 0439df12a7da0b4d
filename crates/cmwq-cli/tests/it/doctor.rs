//! `cmwq doctor`: what it says on this machine, and what it says where things are refused.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use rustix::process::{Resource, geteuid, getrlimit};
use serde_json::Value;

use crate::refusing::{deny, hide_proc, limit};
use crate::sum_terminal::terminal;
use crate::support::{check_code, not_tested, stderr};

fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.arg("doctor").args(arguments).stdin(Stdio::null());
    for name in ["CMWQ_PARAMS", "CMWQ_DETECT", "CMWQ_QUIET", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

#[track_caller]
fn document(mut command: Command) -> Value {
    let output = command.arg("--json").output().unwrap();
    check_code(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The document, or `None` where the restrictions that the command asks for cannot be had.
fn document_if_possible(mut command: Command) -> Option<Value> {
    match command.arg("--json").output() {
        Ok(output) => {
            check_code(&output, 0);
            Some(serde_json::from_slice(&output.stdout).unwrap())
        }
        Err(error) => {
            not_tested(&format!("the restrictions are refused: {error}"));
            None
        }
    }
}

fn source<'a>(document: &'a Value, name: &str) -> &'a Value {
    let sources = document["detection"]["sources"].as_array().unwrap();
    sources.iter().find(|source| source["source"] == name).unwrap()
}

/// The text of the one degradation that has `part` in what it is.
#[track_caller]
fn degradation(document: &Value, part: &str) -> String {
    let all = document["degradations"].as_array().unwrap();
    let found: Vec<_> =
        all.iter().filter(|it| it["what"].as_str().unwrap().contains(part)).collect();
    assert_eq!(found.len(), 1, "{part} in {all:?}");
    found[0].to_string()
}

#[track_caller]
fn check_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

fn text(output: Output) -> String {
    check_code(&output, 0);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_measures_every_source_that_works() {
    let document = document(doctor(&["--trials", "6"]));
    let sources = document["detection"]["sources"].as_array().unwrap();
    let names: Vec<_> = sources.iter().map(|source| source["source"].as_str().unwrap()).collect();
    assert_eq!(names, ["perf", "sentinel", "tick", "inline"]);
    for source in sources {
        let latency = &source["latency"];
        if source["state"] == "refused" {
            assert!(latency.is_null() && source["not_measured"].is_string(), "{source}");
            assert!(source["why"].is_string() && source["advice"].is_string(), "{source}");
            continue;
        }
        assert!(source["not_measured"].is_null(), "{source}");
        assert_eq!(latency["trials"], 6, "{source}");
        let us = |key: &str| latency[key].as_f64().unwrap();
        assert!(us("p50_us") <= us("p99_us") && us("p99_us") <= us("max_us"), "{source}");
        assert!(latency["early"].as_u64() < Some(6), "no item waited: {source}");
        assert!(latency["late"].is_u64() && latency["cpus"].is_array(), "{source}");
    }
    assert_eq!(source(&document, "inline")["state"], "works");
}

#[test]
fn it_agrees_with_the_system() {
    let document = document(doctor(&["--no-measure"]));
    let read = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
    let status = read("/proc/self/status");
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let machine = &document["machine"];
    assert_eq!(machine["kernel"], read("/proc/sys/kernel/osrelease"));
    assert_eq!(machine["allowed"], field("Cpus_allowed_list:"));
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    assert_eq!(machine["online"].as_str(), online.as_deref().map(str::trim));
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").ok();
    assert_eq!(machine["possible"].as_str(), possible.as_deref().map(str::trim));
    let euid = geteuid().as_raw();
    assert_eq!(document["confinement"]["user"], euid);
    assert_eq!(document["confinement"]["filtered"], field("Seccomp:") != "0");

    let limits = &document["limits"];
    let open_files = getrlimit(Resource::Nofile);
    assert_eq!(limits["nofile"]["soft"].as_u64(), open_files.current);
    assert_eq!(limits["nofile"]["hard"].as_u64(), open_files.maximum);
    for key in ["nproc", "memlock", "nice", "rtprio"] {
        assert!(limits[key].is_object(), "{key} in {limits}");
    }
    assert!(limits.get("cgroup_pids").is_some(), "{limits}");
    assert_eq!(limits["threads_max"].as_u64(), read("/proc/sys/kernel/threads-max").parse().ok());
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok();
    let paranoid = paranoid.map(|level| level.trim().parse::<i64>().unwrap());
    assert_eq!(limits["perf_event_paranoid"].as_i64(), paranoid);

    let scopes = document["pods"]["by_scope"].as_array().unwrap();
    let names: Vec<_> = scopes.iter().map(|scope| scope["scope"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu", "smt", "cache", "cache_shard", "numa", "system"]);
    assert_eq!(scopes[5]["pods"].as_array().unwrap().len(), 1);
    assert_eq!(scopes[5]["pods"][0], machine["allowed"]);
    assert_eq!(document["pods"]["default_scope"], "cache_shard");
}

#[test]
fn without_measuring_nothing_is_measured() {
    let document = document(doctor(&["--no-measure"]));
    for source in document["detection"]["sources"].as_array().unwrap() {
        assert!(source["latency"].is_null() && source["not_measured"].is_string(), "{source}");
    }
    let text = text(doctor(&["--no-measure"]).output().unwrap());
    check_contains(&text, &["Nothing was measured (--no-measure)"]);
    assert!(!text.contains("µs") && !text.contains("not measured:"), "{text}");
}

#[test]
fn the_verdict_counts_the_degradations() {
    let document = document(doctor(&["--no-measure"]));
    let expected = match document["degradations"].as_array().unwrap().len() {
        0 => "everything works".to_owned(),
        1 => "works with 1 degradation".to_owned(),
        count => format!("works with {count} degradations"),
    };
    assert_eq!(document["verdict"], expected);
    let text = text(doctor(&["--no-measure"]).output().unwrap());
    assert_eq!(text.lines().next().unwrap().trim_end_matches(':'), expected);
    for section in [
        "Machine",
        "Pods by affinity scope",
        "Detection of blocked workers",
        "Limits",
        "Settings",
        "Notices so far",
    ] {
        assert!(text.lines().any(|line| line.starts_with(section)), "{section} in:\n{text}");
    }
}

#[test]
fn settings_and_who_chose_the_source() {
    let plain = document(doctor(&["--no-measure"]));
    assert_eq!(plain["detection"]["chosen_by"], "trying");

    let mut command = doctor(&["--no-measure"]);
    command.env("CMWQ_DETECT", "tick").env("CMWQ_PARAMS", "idle_timeout=3 cache_shard_size=8");
    let document = document(command);
    assert_eq!(document["detection"]["in_use"], "tick");
    assert_eq!(document["detection"]["chosen_by"], "CMWQ_DETECT");
    let settings = document["settings"].as_array().unwrap();
    let setting = |name: &str| settings.iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(setting("idle_timeout")["value"], "3");
    assert_eq!(setting("idle_timeout")["default"], false);
    assert_eq!(setting("cache_shard_size")["default"], true);
    assert_eq!(setting("CMWQ_DETECT")["value"], "tick");
}

#[test]
fn settings_that_are_not_understood() {
    let mut command = doctor(&["--no-measure"]);
    command.env("CMWQ_DETECT", "sentinal").env("CMWQ_PARAMS", "idle_timeout=soon");
    let document = document(command);
    let degradation = degradation(&document, "setting");
    check_contains(&degradation, &["sentinal", "idle_timeout=soon"]);
    let notices = document["notices"].to_string();
    check_contains(&notices, &["sentinal"]);
}

#[test]
fn a_filter_against_perf_event_open_is_explained() {
    let mut command = doctor(&["--trials", "4"]);
    deny(&mut command, libc::SYS_perf_event_open);
    let Some(document) = document_if_possible(command) else { return };
    let perf = source(&document, "perf");
    assert_eq!(perf["state"], "refused");
    let why = "a system call filter (seccomp) forbids perf_event_open";
    assert_eq!(perf["why"], why);
    check_contains(perf["advice"].as_str().unwrap(), &["CAP_PERFMON", "allows perf_event_open"]);
    assert_eq!(perf["not_measured"], "it does not work here");
    check_contains(&degradation(&document, "switch records"), &[why]);
    assert_eq!(document["detection"]["in_use"], "sentinel");
    assert_eq!(document["confinement"]["filtered"], true);
    assert_eq!(source(&document, "sentinel")["latency"]["trials"], 4, "the others are measured");

    let mut command = doctor(&["--no-measure"]);
    deny(&mut command, libc::SYS_perf_event_open);
    let text = text(command.output().unwrap());
    assert!(text.starts_with("works with "), "{text}");
    check_contains(&text, &[&format!("why: {why}"), "do:  ", "perf: refused: "]);
}

#[test]
fn a_filter_against_the_idle_class_is_explained() {
    let mut command = doctor(&["--trials", "2"]);
    command.env("CMWQ_DETECT", "sentinel");
    deny(&mut command, libc::SYS_sched_setscheduler);
    let Some(document) = document_if_possible(command) else { return };
    let sentinel = source(&document, "sentinel");
    assert_eq!(sentinel["state"], "refused");
    check_contains(sentinel["why"].as_str().unwrap(), &["SCHED_IDLE"]);
    check_contains(&degradation(&document, "tick alone"), &["sched_setscheduler"]);
    assert_eq!(source(&document, "tick")["state"], "works");
    assert_eq!(source(&document, "tick")["latency"]["trials"], 2);
}

#[test]
fn a_filter_against_pinning_is_explained() {
    let mut command = doctor(&["--no-measure"]);
    deny(&mut command, libc::SYS_sched_setaffinity);
    let Some(document) = document_if_possible(command) else { return };
    check_contains(&degradation(&document, "not kept on the CPUs"), &["sched_setaffinity"]);
    assert_eq!(source(&document, "sentinel")["state"], "refused");
}

#[test]
fn a_user_without_privilege() {
    let mut command = doctor(&["--trials", "2"]);
    if geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    limit(&mut command, Resource::Nice, 0);
    let Some(document) = document_if_possible(command) else { return };
    assert_eq!(document["limits"]["nice"]["soft"], 0);
    let degradation = degradation(&document, "normal priority");
    check_contains(&degradation, &["nice -20", "CAP_SYS_NICE", "RLIMIT_NICE"]);
    assert_eq!(source(&document, "sentinel")["state"], "works", "it takes no privilege");
    assert_eq!(source(&document, "sentinel")["latency"]["trials"], 2);
}

#[test]
fn few_descriptors_are_told() {
    let mut command = doctor(&["--no-measure"]);
    command.env("CMWQ_DETECT", "sentinel");
    limit(&mut command, Resource::Nofile, 10);
    let Some(document) = document_if_possible(command) else { return };
    check_contains(&degradation(&document, "workers can be watched"), &["RLIMIT_NOFILE is 10"]);
}

#[test]
fn without_threads_there_is_no_report() {
    if !geteuid().is_root() {
        not_tested("another user's limit on threads: this takes root");
        return;
    }
    let mut command = doctor(&["--no-measure"]);
    command.uid(65534).gid(65534);
    limit(&mut command, Resource::Nproc, 0);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return not_tested(&format!("another user cannot run it: {error}")),
    };
    check_code(&output, 3);
    check_contains(stderr(&output), &["nothing works", "RLIMIT_NPROC"]);
    assert_eq!(output.stdout, b"");
}

#[test]
fn without_procfs() {
    let mut command = doctor(&["--trials", "2"]);
    hide_proc(&mut command);
    let Some(document) = document_if_possible(command) else { return };
    let tick = source(&document, "tick");
    assert_eq!(tick["state"], "limited");
    check_contains(tick["advice"].as_str().unwrap(), &["mount procfs"]);
    check_contains(tick["not_measured"].as_str().unwrap(), &["/proc/self/exe"]);
    assert!(document["confinement"]["filtered"].is_null(), "{}", document["confinement"]);
}

#[test]
fn colours_only_on_a_terminal() {
    let piped = text(doctor(&["--no-measure"]).env("TERM", "xterm").output().unwrap());
    assert!(!piped.contains('\x1b'), "{piped:?}");

    let on_terminal = |variables: &[(&str, &str)]| {
        let (mut user, program) = terminal();
        let mut command = doctor(&["--no-measure"]);
        let mut child = command.envs(variables.iter().copied()).stdout(program).spawn().unwrap();
        // The command holds the other copy of the terminal's side: its end is the end of what can
        // be read.
        drop(command);
        let mut seen = Vec::new();
        // A terminal whose other side is closed reads as an error.
        let _ = user.read_to_end(&mut seen);
        assert!(child.wait().unwrap().success());
        String::from_utf8(seen).unwrap()
    };
    assert!(on_terminal(&[("TERM", "xterm")]).contains("\x1b[1mMachine\x1b[0m"));
    assert!(!on_terminal(&[("TERM", "xterm"), ("NO_COLOR", "1")]).contains('\x1b'));
    assert!(!on_terminal(&[("TERM", "dumb")]).contains('\x1b'));
}

#[test]
fn output_that_cannot_be_written() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = doctor(&["--no-measure"]).stdout(full).output().unwrap();
    check_code(&output, 1);
    check_contains(stderr(&output), &["cannot write to standard output"]);

    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    check_code(&doctor(&["--no-measure"]).stdout(writer).output().unwrap(), 141);
}

#[test]
fn help_is_complete_and_fits_a_terminal() {
    let help = text(doctor(&["--help"]).output().unwrap());
    let parts = ["--json", "--no-measure", "--trials", "CMWQ_DETECT", "not_measured", "Exit code:"];
    check_contains(&help, &parts);
    check_contains(&help, &["whether or not something is degraded", "Examples:"]);
    assert!(!help.contains("measure-child"), "for children only");
    let longest = help.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "a line of {longest:?} columns");

    // Every key of the document is described.
    let document = document(doctor(&["--no-measure"]));
    let mut keys = Vec::new();
    collect_keys(&document, &mut keys);
    assert!(keys.len() > 30, "{keys:?}");
    for key in keys {
        assert!(help.contains(&format!("\"{key}\"")), "{key} is not in:\n{help}");
    }
}

fn collect_keys(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                keys.push(key.clone());
                collect_keys(value, keys);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_keys(value, keys)),
        _ => {}
    }
}

#[test]
fn wrong_usage() {
    for arguments in [&["--trials", "0"][..], &["--trials", "many"], &["extra"]] {
        let output = doctor(arguments).output().unwrap();
        check_code(&output, 2);
    }
}
