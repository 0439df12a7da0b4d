//! Runs the real program on every system that runs inside it, and on the C library, with loads of a few milliseconds.

use std::process::Command;

use serde_json::Value;

/// Systems of this build that need no compiler at run time.
fn in_process() -> String {
    let features = [
        (true, "cmwq,cmwq-work,cmwq-percpu,cmwq-sentinel,cmwq-tick,cmwq-inline,cmwq-raw,futex"),
        (cfg!(feature = "external"), "capi,capi-static"),
        (cfg!(feature = "rayon"), "rayon"),
        (cfg!(feature = "tokio"), "tokio,tokio-blocking,tokio-inplace,tokio-async"),
        (cfg!(feature = "blocking"), "blocking"),
        (cfg!(feature = "crossbeam"), "crossbeam"),
    ];
    let built_in = features.into_iter().filter_map(|(is, names)| is.then_some(names));
    built_in.collect::<Vec<_>>().join(",")
}

/// The single section of a run with these arguments.
fn section(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-bench"))
        .args(arguments)
        .args(["--runs", "1", "--json", "--seed", "7", "--peers", &in_process()])
        .output()
        .expect("the benchmark program starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    let mut report: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    assert_eq!(report["seed"], 7);
    report["sections"][0].take()
}

/// The C program is built with the machine's compiler, and only if it has one.
#[test]
fn capi() {
    let mut section = section(&["capi", "--count", "2000"]);
    let rows = section["rows"].as_array_mut().expect("a section has rows");
    assert_eq!(rows.len(), 3);
    let has_no_compiler = |row: &Value| {
        row["problem"].as_str().is_some_and(|problem| problem.contains("no C compiler"))
    };
    rows.retain(|row| !has_no_compiler(row));
    check_rows(&section, &["queue, run, done", "queue and flush", "queue a pending one"]);
}

/// Every system has a row, none failed, and the named figures were measured.
fn check_rows(section: &Value, figures: &[&str]) {
    let rows = section["rows"].as_array().expect("a section has rows");
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["problem"], Value::Null, "{row}");
        for figure in figures {
            let median = row["figures"][figure]["median"].as_f64();
            assert!(median.is_some_and(|median| median > 0.0), "{figure} of {row}");
        }
    }
}

#[test]
fn mixed() {
    let section =
        section(&["mixed", "--items-per-cpu", "4", "--burn-us", "200", "--sleep-us", "500"]);
    // Not the threads: they are sampled, and so short a run may end between two samples.
    check_rows(&section, &["makespan", "x ideal", "computing at once"]);
    for row in section["rows"].as_array().unwrap() {
        let makespan = row["figures"]["makespan"]["median"].as_f64().unwrap();
        assert!(makespan >= 700e3, "less than one item computes and blocks: {row}");
    }
}

#[test]
fn mixed_beside_foreign_load() {
    let section = section(&["mixed", "--foreign", "--items-per-cpu", "2", "--sleep-us", "500"]);
    check_rows(&section, &["makespan", "foreign share"]);
}

#[test]
fn block() {
    let section = section(&["block", "--trials", "3", "--give-up-ms", "50"]);
    check_rows(&section, &["trials"]);
}

#[test]
fn items() {
    let section = section(&["items", "--count", "1000"]);
    check_rows(&section, &["one producer", "a producer per CPU", "from inside"]);
}

#[test]
fn roundtrip() {
    let section = section(&["roundtrip", "--trips", "50"]);
    check_rows(&section, &["p50", "p99"]);
}

#[test]
fn the_list_names_every_system_asked_for() {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-bench"))
        .args(["--list", "--peers", &in_process()])
        .output()
        .expect("the benchmark program starts");
    let text = String::from_utf8(output.stdout).expect("the list is UTF-8");
    for name in in_process().split(',') {
        assert!(text.contains(name), "{name} is missing in:\n{text}");
    }
}

#[test]
fn a_benchmark_without_entrants_is_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-bench"))
        .args(["items", "--peers", "futex"])
        .output()
        .expect("the benchmark program starts");
    assert!(!output.status.success());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("--peers"), "{complaint}");
}

#[test]
fn delayed() {
    let section = section(&["delayed", "--count", "2000", "--window-ms", "20"]);
    check_rows(&section, &["arm", "cancel", "arm + cancel", "cancel, shuffled"]);
    for row in section["rows"].as_array().unwrap().iter().filter(|row| row["role"] != "reference") {
        assert!(
            row["figures"]["late max"]["median"].as_f64().is_some_and(|late| late > 0.0),
            "{row}"
        );
    }
}

#[test]
fn idle() {
    let section = section(&["idle", "--count", "2000"]);
    check_rows(&section, &["time to make one", "bytes each", "threads"]);
}
