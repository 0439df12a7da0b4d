//! Runs the real program on every system that runs inside it, and on the C library, with loads of a
//! few milliseconds.

use std::process::Command;

use serde_json::Value;

/// Systems of this build that need no compiler at run time.
fn in_process() -> String {
    let features = [
        (true, "cmwq,cmwq-work,cmwq-percpu,cmwq-unbound,cmwq-sentinel,cmwq-tick,cmwq-inline,futex"),
        (true, "cmwq-raw,original-mt,original-st,none,cmwq-system,cmwq-cache,cmwq-cache-strict"),
        (true, "cmwq-shown,cmwq-hidden,cmwq-traced,cmwq-other"),
        (cfg!(feature = "external"), "capi,capi-static"),
        (cfg!(feature = "rayon"), "rayon"),
        (cfg!(feature = "tokio"), "tokio,tokio-blocking,tokio-inplace,tokio-async,cmwq-tokio"),
        (cfg!(feature = "blocking"), "blocking"),
        (cfg!(feature = "crossbeam"), "crossbeam"),
    ];
    let built_in = features.into_iter().filter_map(|(is, names)| is.then_some(names));
    built_in.collect::<Vec<_>>().join(",")
}

/// The single section of a run with these arguments.
fn section(arguments: &[&str]) -> Value {
    section_of(&in_process(), arguments)
}

/// These systems, and one whose size can be chosen if there is one.
fn with_a_channel(ours: &str) -> String {
    let peer = if cfg!(feature = "crossbeam") { ",crossbeam" } else { "" };
    format!("{ours}{peer}")
}

/// The same with a choice of systems.
fn section_of(peers: &str, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-bench"))
        .args(arguments)
        .args(["--runs", "1", "--json", "--seed", "7", "--peers", peers])
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

/// This build is as good as another one to compare with.
#[test]
fn showing() {
    let this = env!("CARGO_BIN_EXE_cmwq-bench");
    let figures =
        ["reusable item, CPU time", "reusable item, time", "closure, CPU time", "closure, time"];
    for (against, rows) in [(&[][..], 3), (&["--against", this], 4)] {
        let section = section(&[&["showing", "--count", "8000"], against].concat());
        assert_eq!(section["rows"].as_array().unwrap().len(), rows);
        check_rows(&section, &figures);
        let notes = section["notes"].to_string();
        assert!(notes.contains("ns more") && notes.contains("ratio within a round"), "{notes}");
        assert_eq!(notes.contains("and cmwq-other"), rows == 4, "{notes}");
    }
}

#[test]
fn crypt() {
    let section = section(&["crypt", "--issuers", "2", "--depth", "2", "--length-ms", "20"]);
    check_rows(&section, &["bandwidth", "CPU", "x system"]);
    let of_system =
        section["rows"].as_array().unwrap().iter().find(|row| row["system"] == "cmwq-system");
    assert_eq!(of_system.and_then(|row| median(row, "x system")), Some(1.0));
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
    check_rows(&section, &["makespan", "x ideal", "computing at once", "CPU / work"]);
    for row in section["rows"].as_array().unwrap() {
        let makespan = row["figures"]["makespan"]["median"].as_f64().unwrap();
        assert!(makespan >= 700e3, "less than one item computes and blocks: {row}");
    }
}

#[test]
fn mixed_beside_foreign_load() {
    let section = section(&["mixed", "--foreign", "--items-per-cpu", "2", "--sleep-us", "500"]);
    check_rows(&section, &["makespan", "CPU / work", "foreign share"]);
    for row in section["rows"].as_array().unwrap() {
        assert!(median(row, "CPU / work").unwrap() >= 1.0, "less than its items burn: {row}");
    }
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

#[cfg(feature = "tokio")]
#[test]
fn tasks() {
    let section = section(&["tasks", "--quick"]);
    assert_eq!(section["rows"].as_array().map(Vec::len), Some(3));
    check_rows(&section, &["makespan", "latency p99", "task late p99", "computing at once"]);
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

fn median(row: &Value, figure: &str) -> Option<f64> {
    row["figures"][figure]["median"].as_f64()
}

#[test]
fn ten() {
    let section = section(&["ten", "--second-ms", "4"]);
    check_rows(&section, &["0 s, 1", "1 s, 1", "5 s, 1"]);
    for row in section["rows"].as_array().unwrap() {
        let columns = [("1 s, 1", 40), ("1 s, 5", 8), ("1 s, 256", 4), ("5 s, 1", 200)];
        for (column, ideal_ms) in columns {
            let took = median(row, column);
            assert!(took.is_none_or(|ns| ns >= f64::from(ideal_ms) * 1e6), "{column}: {row}");
            assert_eq!(took.is_some(), row["role"] == "ours" || column.ends_with(" 1"), "{row}");
        }
    }
}

#[test]
fn perf_wq() {
    let load = ["perf-wq", "--workloads", "5", "--variants", "l", "--scale", "0.002"];
    let section = section(&[&load[..], &["--foreground", "builtin"]].concat());
    check_rows(&section, &["foreground", "slowdown"]);
    for row in section["rows"].as_array().unwrap() {
        let cycles = row["figures"]["cycles beside it"]["max"].as_f64();
        if row["system"] == "none" {
            assert_eq!((median(row, "slowdown"), cycles), (Some(1.0), None), "{row}");
            continue;
        }
        assert!(median(row, "x ideal").unwrap() >= 1.0, "{row}");
        // One cycle for each of 24 works, none of it before its time.
        assert!(cycles.is_some_and(|cycles| cycles <= 24.0), "{row}");
        assert!(median(row, "late p50").is_some_and(|late| late > 0.0), "{row}");
        assert_eq!(median(row, "short p99"), None, "there are no short works: {row}");
    }
}

#[test]
fn perf_wq_on_one_cpu() {
    let load = ["perf-wq", "--workloads", "5", "--variants", "s", "--scale", "0.002", "--one-cpu"];
    let load = [&load[..], &["--foreground", "builtin"]].concat();
    let section = section_of("cmwq-percpu,original-mt,none", &load);
    check_rows(&section, &["foreground"]);
    let rows = section["rows"].as_array().unwrap();
    let original = rows.iter().find(|row| row["system"] == "original-mt").unwrap();
    // At most, since they are sampled: one thread for each of 14 queues, and the timers'.
    assert!(median(original, "threads").is_some_and(|threads| threads <= 15.0), "{original}");
}

#[test]
fn sizes() {
    let arguments = ["sizes", "--largest", "3", "--workloads", "5", "--scale", "0.002"];
    let section = section_of(&with_a_channel("cmwq"), &arguments);
    check_rows(&section, &["makespan", "x ideal"]);
    for row in section["rows"].as_array().unwrap() {
        let size = median(row, "best size");
        let is_ours = row["role"] == "ours";
        assert!(
            if is_ours { size.is_none() } else { (1.0..=3.0).contains(&size.unwrap()) },
            "{row}"
        );
    }
    for curve in section["curves"].as_array().unwrap() {
        let sizes: Vec<f64> =
            curve["points"].as_array().unwrap().iter().map(|p| p[0].as_f64().unwrap()).collect();
        let is_level = curve["name"] == "cmwq";
        assert_eq!(sizes, if is_level { vec![1.0, 3.0] } else { vec![1.0, 2.0, 3.0] }, "{curve}");
    }
}

#[test]
fn sizes_for_a_directory_hash() {
    let peers = with_a_channel("cmwq");
    let section = section_of(&peers, &["sizes", "--hash", "--files", "20", "--largest", "2"]);
    // Every file was hashed, or there would be no time. Whether the cache was cold is the file
    // system's business.
    check_rows(&section, &["makespan"]);
    assert_eq!(section["benchmark"], "sizes-hash");
}

#[test]
fn a_report_is_written_and_resumed() {
    let out = std::env::temp_dir().join(format!("cmwq-report-{}", std::process::id()));
    let report = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_cmwq-bench"))
            .args(["report", "--quick", "--runs", "1", "--seed", "7", "--peers", "cmwq,futex,go"])
            .arg("--out")
            .arg(&out)
            .args(arguments)
            .output()
            .expect("the benchmark program starts");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), complaint)
    };
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let (done, said) = report(&["--only", "roundtrip"]);
    assert!(done && said.contains("roundtrip (5 of "), "{said}");
    let text = read("REPORT.md");
    for expected in [
        "## roundtrip",
        "`cmwq-bench roundtrip --quick --runs 1 --peers cmwq,futex,go --seed 7`",
        "| cmwq | ",
        "Other programs had",
        "report/roundtrip-p50.svg",
        "\n| [roundtrip](#roundtrip) | ",
        ", commit ",
        "without a section: mixed, ",
    ] {
        assert!(text.contains(expected), "{expected} is missing in {text}");
    }
    assert!(read("report/roundtrip-p50.svg").contains("futex"));
    let kept = read("report/roundtrip.json");
    assert!(report(&["--only", "roundtrip", "--resume"]).0);
    assert_eq!(read("report/roundtrip.json"), kept, "measured again");
    std::fs::write(out.join("REPORT.md"), "stale").unwrap();
    assert_eq!(report(&["--rewrite"]), (true, String::new()), "nothing is measured");
    assert_eq!(read("REPORT.md"), text);
    assert_eq!(read("report/roundtrip.json"), kept);
    let (done, said) = report(&["--only", "nonsense"]);
    assert!(!done && said.contains("nonsense"), "{said}");
    std::fs::remove_dir_all(&out).unwrap();
}

#[test]
fn queues() {
    let arguments = ["queues", "--count", "300", "--threads", "40", "--memory-mib", "32"];
    let section = section(&arguments);
    check_rows(&section, &["queues", "time each", "threads"]);
    for row in section["rows"].as_array().unwrap() {
        let (queues, threads) = (median(row, "queues").unwrap(), median(row, "threads").unwrap());
        let is_new = row["role"] == "ours";
        // The limit of threads holds for all, and ends only those whose queues are threads.
        assert!(threads <= 40.0, "{row}");
        assert!(if is_new { queues == 300.0 } else { queues < 40.0 }, "{row}");
    }
    assert_eq!(section["rows"].as_array().unwrap().len(), 8);
}

/// Memory ends what threads do not.
#[test]
fn queues_until_memory_is_full() {
    let section = section_of("cmwq-percpu", &["queues", "--memory-mib", "16"]);
    let rows = section["rows"].as_array().unwrap();
    let notes = section["notes"].to_string();
    assert!(notes.contains("cmwq-percpu by memory; cmwq-percpu, used by "), "{notes}");
    // A machine with much else to do may take too long for those that are used.
    assert!(notes.contains("used by memory") || notes.contains("used by time"), "{notes}");
    for row in rows {
        let taken = median(row, "queues").unwrap() * median(row, "bytes each").unwrap();
        // Resident is also what is shared with those who look on, which is not limited.
        assert!(taken < f64::from(32 << 20), "{row}");
    }
}

#[test]
fn power() {
    let section = section(&["power", "--periods", "5", "--period-us", "10000"]);
    let rows = section["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert_eq!(row["problem"], Value::Null, "{row}");
        let away = median(row, "away from its CPU");
        match row["label"].as_str().unwrap() {
            "none" => assert_eq!(away, None, "{row}"),
            // Their timers wake nobody: perhaps none ran.
            "cmwq, on, deferrable" => assert!(away.is_some(), "{row}"),
            "cmwq, on" => assert!(median(row, "runs /s").unwrap() > 0.0, "{row}"),
            // On a per-CPU queue a work runs where it was queued.
            _ => assert!(median(row, "runs /s").unwrap() > 0.0 && away == Some(0.0), "{row}"),
        }
    }
}

#[test]
fn scaling() {
    let section = section(&["scaling", "--count", "2000", "--cpus", "16"]);
    assert_eq!(section["rows"].as_array().unwrap().len(), 4);
    check_rows(&section, &["1, CPU", "1000, CPU", "1, wall", "1000, wall"]);
}

#[test]
fn waits() {
    let arguments =
        ["waits", "--steps", "sleep:500 burn:100 pipe:200", "--items", "12", "--largest", "2"];
    let section = section_of(&with_a_channel("cmwq,cmwq-unbound"), &arguments);
    assert_eq!(section["benchmark"], "waits-own");
    check_rows(&section, &["makespan", "x ideal"]);
    for row in section["rows"].as_array().unwrap() {
        assert!(median(row, "x ideal").unwrap() >= 1.0, "{row}");
    }
}

#[test]
fn pictures() {
    let arguments = ["pictures", "--pictures", "4", "--fetch-us", "1000", "--largest", "2"];
    let section = section_of(&with_a_channel("cmwq"), &arguments);
    assert_eq!(section["benchmark"], "pictures");
    check_rows(&section, &["makespan"]);
}

#[test]
fn woken() {
    let section =
        section_of("cmwq,cmwq-unbound", &["woken", "--items-per-cpu", "4", "--burn-us", "200"]);
    assert_eq!(section["benchmark"], "woken");
    check_rows(&section, &["all done", "half done", "computing at once"]);
    for row in section["rows"].as_array().unwrap() {
        assert!(median(row, "half done") <= median(row, "all done"), "{row}");
        assert!(median(row, "x ideal").unwrap() >= 1.0, "{row}");
    }
}
