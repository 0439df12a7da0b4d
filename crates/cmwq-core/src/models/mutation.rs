//! Each ordering is needed: with any one of them taken away some model fails.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::ORDERING_SITES;

/// What `sync` reads.
const WEAKEN: &str = "CMWQ_WEAKEN";

/// Runs all models with `site` weakened; the names of those that fail.
fn failing_models(site: &str) -> Vec<String> {
    let this = env::current_exe().expect("a test binary knows where it is");
    let output = Command::new(this)
        .args(["models::", "--skip", "mutation", "--test-threads", "1"])
        .env(WEAKEN, site)
        .env("RUST_BACKTRACE", "0")
        .stderr(Stdio::null())
        .output()
        .expect("a test binary can be run again");
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.signal().is_some() && text.contains("running ") {
        // Two who believe they own an item may make a mess of the lists before an assertion says
        // so.
        return vec![String::from("the one that crashed")];
    }
    let failed: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .map(String::from)
        .collect();
    assert_eq!(output.status.success(), failed.is_empty(), "{site}: not a test result:\n{text}");
    assert!(text.contains(" ... ok") || !failed.is_empty(), "{site}: no model ran");
    failed
}

#[test]
fn every_ordering_is_needed() {
    let mut unnoticed = Vec::new();
    for site in ORDERING_SITES {
        let failing = failing_models(site);
        if failing.is_empty() {
            unnoticed.push(*site);
        }
    }
    assert!(unnoticed.is_empty(), "no model misses {unnoticed:?}: weaken them, or add a model");
}

#[test]
fn without_a_mutation_all_models_pass() {
    // Also a check of the test above: it would be fooled if the models failed for another reason.
    assert_eq!(failing_models("nothing"), Vec::<String>::new());
}
