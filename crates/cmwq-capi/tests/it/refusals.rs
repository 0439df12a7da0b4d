//! What C programs do that no function can do for them: there is an answer, or one line and the
//! end, and never a panic.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::{built, compiler, crate_dir, include_dir, program, run, scratch, succeed};

fn source(name: &str) -> PathBuf {
    crate_dir().join("tests/c").join(name)
}

/// Runs a program, which must end well, and returns our lines.
fn said(program: PathBuf) -> Vec<String> {
    let output = run(Command::new(&program).env_remove("CMWQ_QUIET"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{said}", output.status);
    said.lines().filter_map(|line| line.strip_prefix("cmwq: ")).map(str::to_owned).collect()
}

/// What each function says: how often, if it says anything.
fn by_function(lines: &[String], complaint: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for line in lines.iter().filter(|line| line.contains(complaint)) {
        let (function, _) = line.split_once(": ").unwrap_or((line, ""));
        *found.entry(function.to_owned()).or_default() += 1;
    }
    found
}

const WITHOUT_QUEUE: [&str; 16] = [
    "queue_work_on",
    "queue_work_node",
    "queue_delayed_work_on",
    "mod_delayed_work_on",
    "queue_rcu_work",
    "enable_and_queue_work",
    "__flush_workqueue",
    "drain_workqueue",
    "destroy_workqueue",
    "workqueue_set_max_active",
    "workqueue_set_min_active",
    "workqueue_congested",
    "apply_workqueue_attrs",
    "workqueue_sysfs_register",
    "show_one_workqueue",
    "cmwq_workqueue_stats",
];

const WITHOUT_ITEM: [&str; 22] = [
    "queue_work_on",
    "queue_work_node",
    "queue_delayed_work_on",
    "mod_delayed_work_on",
    "queue_rcu_work",
    "enable_and_queue_work",
    "flush_work",
    "flush_delayed_work",
    "flush_rcu_work",
    "cancel_work",
    "cancel_delayed_work",
    "cancel_work_sync",
    "cancel_delayed_work_sync",
    "disable_work",
    "disable_delayed_work",
    "disable_work_sync",
    "disable_delayed_work_sync",
    "enable_work",
    "enable_delayed_work",
    "work_busy",
    "execute_in_process_context",
    "delayed_work_timer_fn",
];

/// The programs use the header's functions, which pass `HZ`.
fn symbol(function: &str) -> String {
    match function {
        "queue_delayed_work_on" | "mod_delayed_work_on" => format!("cmwq_{function}"),
        _ => function.to_owned(),
    }
}

#[test]
fn null_pointers_have_an_answer_and_a_line_with_the_function() {
    let Some(program) = program("null", &source("null.c"), &[]) else { return };
    let lines = said(program);
    let once = |functions: &[&str]| functions.iter().map(|name| (symbol(name), 1)).collect();
    let null = |what| by_function(&lines, &format!("a null pointer in place of a {what}"));
    assert_eq!(null("workqueue"), once(&WITHOUT_QUEUE), "{lines:#?}");
    assert_eq!(null("work item"), once(&WITHOUT_ITEM), "{lines:#?}");
    let functions = ["schedule_on_each_cpu", "work_on_cpu", "cmwq_devm_add_action", "cmwq_set_rcu"];
    assert_eq!(null("function"), once(&functions), "{lines:#?}");
    let strings = ["cmwq_alloc_workqueue", "cmwq_set_worker_desc", "cmwq_param_get"];
    let mut strings: BTreeMap<String, usize> = once(&strings);
    strings.insert("cmwq_param_set".to_owned(), 2);
    assert_eq!(null("string"), strings, "{lines:#?}");
    assert_eq!(null("set of attributes"), once(&["apply_workqueue_attrs"]), "{lines:#?}");
    let all = WITHOUT_QUEUE.len() + WITHOUT_ITEM.len() + functions.len() + 6;
    assert_eq!(lines.len(), all, "nothing else is said: {lines:#?}");
}

#[test]
fn first_uses_without_threads_have_an_answer() {
    let flags = ["-Wl,--wrap=pthread_create"];
    let Some(program) = program("no_threads", &source("no_threads.c"), &flags) else { return };
    let lines = said(program);
    let refused = by_function(&lines, "cannot create the service thread");
    for function in ["queue_work", "__flush_workqueue", "work_on_cpu", "schedule_on_each_cpu"] {
        assert!(refused.contains_key(function), "{function} said nothing: {refused:?}");
    }
    // An item is disabled without any thread, but for an item of a parent's.
    let lost = "cannot be disabled: cannot create the service thread";
    assert_eq!(lines.iter().filter(|line| line.contains(lost)).count(), 1, "{lines:#?}");
    for function in ["flush_work", "cancel_work", "cancel_work_sync", "work_busy"] {
        assert!(!refused.contains_key(function), "{function} needs no thread: {refused:?}");
    }
}

/// Plays `tests/c/escape.c`, compiled by `language`'s compiler.
fn escape(language: &str, flags: &[&str], how: &str, place: &str) -> Option<Output> {
    let mut cc = compiler(language)?;
    let name = format!("escape_{language}_{}_{how}_{place}", flags.len());
    let out = scratch(&name).join("escape");
    let standard = if language == "cc" { "-std=gnu11" } else { "-std=gnu++17" };
    let kind = if language == "cc" { "c" } else { "c++" };
    cc.args([standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-rdynamic"]);
    cc.args(flags).arg("-I").arg(include_dir()).args(["-x", kind]).arg(source("escape.c"));
    cc.args(["-x", "none"]).arg(built("libcmwq.a")).args(["-lpthread", "-ldl", "-lm", "-o"]);
    succeed(cc.arg(&out));
    Some(run(Command::new(out).args([how, place]).env_remove("CMWQ_QUIET")))
}

#[track_caller]
fn check_escape(language: &str, how: &str) {
    for (place, who) in [
        ("line", "function leave of workqueue 'line'"),
        ("bh", "function leave of workqueue 'line'"),
        ("call", "function leave_call"),
    ] {
        let Some(output) = escape(language, &[], how, place) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{how} {place}: {said}");
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), 1, "{how} {place}: {said}");
        assert!(
            lines[0].starts_with(&format!("cmwq: {who} did not return")),
            "{how} {place}: {said}"
        );
    }
}

#[test]
fn a_function_that_ends_its_thread_ends_the_process_with_a_word() {
    check_escape("cc", "exit");
}

/// The C library finds nobody to tell then, as musl never does.
#[test]
fn a_thread_that_ends_without_unwinding_ends_the_process_too() {
    let flags = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"];
    for place in ["line", "bh", "call"] {
        let Some(output) = escape("cc", &flags, "exit", place) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{place}: {said}");
        assert_eq!(said.lines().count(), 1, "{place}: {said}");
        assert!(said.starts_with("cmwq: a work function did not return"), "{place}: {said}");
    }
}

#[test]
fn a_function_that_is_cancelled_ends_the_process_with_a_word() {
    check_escape("cc", "cancel");
}

/// Of the calls in which it may be some are cancellation points.
#[test]
fn a_thread_that_is_cancelled_inside_of_a_call_ends_the_process_with_a_word() {
    let Some(output) = escape("cc", &[], "cancel", "thread") else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    let line = "cmwq: destroy_workqueue: a function of the program's ended its thread or let an \
                exception out, or the thread was cancelled; the process ends";
    assert_eq!(said.lines().last(), Some(line), "{said}");
}

/// Each call returns, or ends the process with its line. None is left in the middle.
#[test]
fn no_call_loses_a_thread_that_is_cancelled_in_it() {
    let Some(program) = program("cancelled", &source("cancelled.c"), &[]) else { return };
    let output = run(Command::new(&program).env_remove("CMWQ_QUIET"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let ended = String::from_utf8_lossy(&output.stdout);
    let ended: Vec<_> = ended.lines().collect();
    for call in ["cmwq_rcu_read_unlock()", "__warn_flushing_systemwide_wq()", "unlock_for_others()"]
    {
        assert!(ended.contains(&&*format!("ended: {call}")), "{call}: {ended:?}");
    }
    assert!(!ended.contains(&"ended: shut_down()"), "its threads are waited for: {ended:?}");
    let lines = said.lines().filter(|line| line.ends_with("was cancelled; the process ends"));
    assert_eq!(lines.count(), ended.len(), "{ended:?}\n{said}");
}

/// What is exported is so by the two macros, the one of functions and the one of system queues.
#[test]
fn every_exported_function_has_a_face() {
    let by_itself =
        |text: &str| text.matches("no_mangle").count() + text.matches("export_name").count();
    let mut found = BTreeMap::new();
    let mut folders = vec![crate_dir().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let count = by_itself(&std::fs::read_to_string(&path).expect("a source"));
            if count > 0 {
                let name = path.file_name().expect("it has one").to_string_lossy().into_owned();
                found.insert(name, count);
            }
        }
    }
    let expected = ["queueing.rs", "system.rs"].map(|name| (name.to_owned(), 1));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn an_exception_that_leaves_a_function_ends_the_process_with_a_word() {
    check_escape("c++", "throw");
    check_escape("c++", "exit");
}

/// `exit` ends the thread's own data, too, as far as C++ and Rust go, and is nothing to complain
/// of.
#[test]
fn a_function_may_end_the_process() {
    for place in ["line", "bh", "call"] {
        let Some(output) = escape("cc", &[], "end", place) else { return };
        assert!(output.status.success(), "{place}: {output:?}");
        assert!(output.stderr.is_empty(), "{place}: {output:?}");
    }
}

#[test]
fn an_exception_that_is_caught_in_the_function_does_nothing() {
    for place in ["line", "bh", "call"] {
        let Some(output) = escape("c++", &[], "caught", place) else { return };
        assert!(output.status.success(), "{place}: {output:?}");
        assert!(output.stderr.is_empty(), "{place}: {output:?}");
    }
}
