//! `cmwq sim` from outside.

use std::process::{Command, Output};

use serde_json::Value;

fn cmwq_sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cmwq"))
        .arg("sim")
        .args(args)
        .output()
        .expect("the command runs")
}

#[track_caller]
fn stdout(args: &[&str]) -> String {
    let output = cmwq_sim(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    String::from_utf8(output.stdout).expect("the output is text")
}

#[test]
fn seeds_are_counted() {
    let document: Value =
        serde_json::from_str(&stdout(&["--seeds", "5..25", "--json"])).expect("a document");
    assert_eq!(document["seeds"], 20);
    assert_eq!(document["complaints"], Value::Array(Vec::new()));
    assert!(document["items"].as_u64().is_some_and(|items| items > 20));
}

#[test]
fn text_says_that_nothing_is_wrong() {
    let text = stdout(&["--seed", "7"]);
    assert!(text.starts_with("1 seed, ") && text.contains("no complaint"), "{text}");
}

#[test]
fn a_seed_tells_the_same_story_twice() {
    let args = ["--seed", "11", "--events"];
    let story = stdout(&args);
    assert!(story.lines().count() > 10, "{story}");
    assert_eq!(story, stdout(&args));
    assert_ne!(story, stdout(&["--seed", "12", "--events"]));
}

#[test]
fn events_that_cannot_be_written_are_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("there is one");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    let output = command.args(["sim", "--seed", "3", "--events"]).stdout(full).output();
    let output = output.expect("the command runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot write to standard output"), "{said}");
}

/// What nobody can read is not computed: at full height the rest takes minutes.
#[test]
fn a_ladder_is_not_climbed_for_nobody() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("there is one");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    let small = ["sim", "--scale", "--cpus", "2", "--queues", "1", "--items", "10"];
    let output = command.args(small).stdout(full).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("cannot write to standard output").count(), 1, "{said}");
}

#[test]
fn the_options_are_kept() {
    let args = [
        "--seed", "1", "--cpus", "2", "--items", "9", "--queues", "1", "--faults", "none",
        "--events",
    ];
    let story = stdout(&args);
    assert!(!story.contains("cpu: 2") && !story.contains("CreateFailed"), "{story}");
    assert!(!story.contains("item: 9") && !story.contains("queue: 1 "), "{story}");
}

#[test]
fn a_scenario_under_many_conditions() {
    let document: Value =
        serde_json::from_str(&stdout(&["--scenario", "doc-max3", "--seeds", "0..50", "--json"]))
            .expect("a document");
    assert_eq!(document["items"], 3 * 50);
}

#[test]
fn complaints_have_a_code_and_a_replay() {
    let args = ["--seeds", "0..50", "--faults", "none", "--sabotage", "drop-wake", "--json"];
    let output = cmwq_sim(&args);
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let first = &document["complaints"][0];
    assert_eq!(first["checker"], "stall", "{first}");
    let replay = first["replay"].as_str().expect("a command");
    let mut words = replay.split(' ');
    assert_eq!((words.next(), words.next()), (Some("cmwq"), Some("sim")));
    let again = cmwq_sim(&words.collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(again.status.code(), Some(1), "{text}");
    assert!(text.contains(first["message"].as_str().expect("a message")), "{text}");
    assert!(text.contains(&format!("again: {replay}")), "{text}");
}

#[test]
fn nonsense_is_refused() {
    for args in [
        ["--faults", "gremlins"],
        ["--sabotage", "sugar-in-the-tank"],
        ["--seeds", "9..3"],
        ["--cpus", "4097"],
        ["--seeds", "x"],
        ["--events", "--json"],
    ] {
        assert_eq!(cmwq_sim(&args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(cmwq_sim(&["--scenario", "no-such-thing"]).status.code(), Some(1));
}

#[test]
fn machines_and_scopes_can_be_chosen() {
    let args =
        ["--topology", "amd-12", "--scope", "numa", "--hotplug", "--seeds", "0..6", "--json"];
    let document: Value = serde_json::from_str(&stdout(&args)).expect("a document");
    assert_eq!(document["seeds"], 6);
    assert_eq!(document["complaints"], Value::Array(Vec::new()));
    let events = stdout(&["--topology", "1x4x1", "--hotplug", "--seed", "3", "--events"]);
    assert!(events.contains("CpuLeft(") && events.contains("CpuReturned("));
}

#[test]
fn what_is_no_machine_is_refused() {
    for (args, word) in [
        (["--topology", "2x2"], "NODESxCORESxTHREADS"),
        (["--topology", "64x64x2"], "1 to 4096"),
        (["--scope", "core"], "cache_shard"),
    ] {
        let output = cmwq_sim(&args);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{args:?}");
    }
}

#[test]
fn a_rung_of_the_ladder() {
    let args = ["--scale", "--cpus", "8", "--queues", "20", "--items", "500", "--json"];
    let document = || -> Value { serde_json::from_str(&stdout(&args)).expect("a document") };
    let (one, other) = (document(), document());
    let rung = &one["rungs"][0];
    assert_eq!((&rung["cpus"], &rung["items"]), (&8.into(), &500.into()));
    assert!(rung["queued"].as_u64() >= Some(500) && rung["complaint"].is_null(), "{rung}");
    assert_eq!(rung["digest"], other["rungs"][0]["digest"]);
    let per_cpu: Vec<_> = one["bytes_per_additional_cpu"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["bytes"].as_u64().expect("a number"))
        .collect();
    assert!(per_cpu[0] == 0 && per_cpu.is_sorted() && per_cpu.len() == 4, "{per_cpu:?}");
}

#[test]
fn affinity_scopes_are_compared() {
    let text = stdout(&["--crypt", "--seed", "3", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 15, "five queues, three numbers of issuers");
    let of = |issuers: u64, queue: &str| {
        let is_it = |row: &&serde_json::Value| row["issuers"] == issuers && row["queue"] == queue;
        rows.iter().find(is_it).expect("a row for each")
    };
    assert_eq!(of(8, "system")["ratio_percent"], 0.0);
    assert_eq!(of(4, "cache (strict)")["documented_mib_per_s"], 828.2);
    assert!(of(4, "cache (strict)")["ratio_percent"].as_f64().is_some_and(|ratio| ratio < -5.0));
    assert!(of(4, "managed")["documented_mib_per_s"].is_null());
}
