//! Each ordering is needed: with any one of them taken away some model fails.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::os::sync::ORDERING_SITES;

/// Set in the processes this test starts.
const WEAKEN: &str = "CMWQ_WEAKEN";

const ALL: &str = "models::loom::";

/// Models of these take a second or more each.
const SLOW: [&str; 3] = ["loom::closure", "loom::flushing", "loom::plan"];

/// The models of that name, but for `skipped`, with `site` weakened.
fn start_models(models: &str, skipped: &[&str], site: &str) -> Child {
    let this = env::current_exe().expect("a test binary knows where it is");
    Command::new(this)
        .args([models, "--skip", "mutation", "--test-threads", "1"])
        .args(skipped.iter().flat_map(|skipped| ["--skip", skipped]))
        .env(WEAKEN, site)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a test binary can be run again")
}

/// Runs models with `site` weakened up to the first that fails; its name. Those come first whose
/// name begins as the site's does, and then the quick ones: the first failure saves all the others.
fn failing_model(site: &str) -> Option<String> {
    let likely = format!("{ALL}{}", &site[..4]);
    failing_model_of(&likely, &[], site)
        .or_else(|| failing_model_of(ALL, &SLOW, site))
        .or_else(|| failing_model_of(ALL, &[], site))
}

fn failing_model_of(models: &str, skipped: &[&str], site: &str) -> Option<String> {
    let mut child = start_models(models, skipped, site);
    let output = child.stdout.take().expect("it is piped");
    let mut text = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.expect("test results are text");
        let failed = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
        if let Some(name) = failed {
            // The others could only say the same.
            let _ = child.kill();
            let _ = child.wait();
            return Some(name.to_owned());
        }
        text.push(line);
    }
    let status = child.wait().expect("nobody else waits for it");
    assert!(status.success(), "{site}: not a test result: {status}\n{}", text.join("\n"));
    let ran = text.iter().any(|line| line.ends_with(" ... ok"));
    assert!(ran || models != ALL, "{site}: no model ran");
    None
}

/// Those of `sites` with which all models pass; tried on all CPUs.
fn unnoticed<'a>(sites: &[&'a str]) -> Vec<&'a str> {
    let next = AtomicUsize::new(0);
    let search = || {
        let mut found = Vec::new();
        while let Some(site) = sites.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failing_model(site).is_none() {
                found.push(*site);
            }
        }
        found
    };
    thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let searches: Vec<_> = (0..cpus).map(|_| scope.spawn(search)).collect();
        searches
            .into_iter()
            .flat_map(|search| search.join().expect("it told its own failure"))
            .collect()
    })
}

#[test]
fn every_ordering_is_needed() {
    let unnoticed = unnoticed(ORDERING_SITES);
    assert!(unnoticed.is_empty(), "no model misses {unnoticed:?}: weaken them, or add a model");
}

/// Also a check of the test above: it would be fooled if the models failed for another reason.
#[test]
fn without_a_mutation_all_models_pass() {
    assert_eq!(failing_model_of(ALL, &[], "nothing"), None);
}
