//! The documented comparison of affinity scopes: its shape comes out, and nothing else is asked of
//! a model that was calibrated on one of nine figures.

use cmwq_sim::Nanos;
use cmwq_sim::studies::crypt::{self, Figures, ISSUERS, Way};

/// Of virtual time; ratios of single runs differ by some 2 %.
const LENGTH: Nanos = 500_000_000;
const SEEDS: std::ops::Range<u64> = 1..5;

fn mean(way: Way, issuers: usize, part: fn(&Figures) -> f64) -> f64 {
    let runs = SEEDS.map(|seed| part(&crypt::run(seed, way, issuers, LENGTH)));
    runs.sum::<f64>() / SEEDS.count() as f64
}

fn bandwidth(way: Way, issuers: usize) -> f64 {
    mean(way, issuers, |figures| figures.mib_per_s)
}

/// How much more than `system`, in per cent.
fn gain(way: Way, issuers: usize) -> f64 {
    100.0 * (bandwidth(way, issuers) / bandwidth(Way::System, issuers) - 1.0)
}

fn documented_gain(way: Way, issuers: usize) -> f64 {
    let of = |way| crypt::documented(way, issuers).expect("a documented row").mib_per_s;
    100.0 * (of(way) / of(Way::System) - 1.0)
}

#[track_caller]
fn check_gain(way: Way, issuers: usize, tolerance: f64) {
    let (here, there) = (gain(way, issuers), documented_gain(way, issuers));
    assert!((here - there).abs() <= tolerance, "{way:?}, {issuers}: {here:.2} %, not {there:.2} %");
}

#[test]
fn a_seed_does_the_same_every_time() {
    let run = |seed| crypt::run(seed, Way::CacheStrict, 8, 50_000_000);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn the_documentation_is_quoted_in_full() {
    let missing = |way| ISSUERS.iter().any(|&issuers| crypt::documented(way, issuers).is_none());
    assert!(![Way::System, Way::Cache, Way::CacheStrict].into_iter().any(missing));
    assert!((documented_gain(Way::CacheStrict, 8) + 3.7).abs() < 0.1);
    assert!((documented_gain(Way::Cache, 4) + 2.0).abs() < 0.1);
}

#[test]
fn four_issuers_on_system_are_what_the_model_was_given() {
    let documented = crypt::documented(Way::System, 4).expect("a documented row");
    let (here, cpu) = (bandwidth(Way::System, 4), mean(Way::System, 4, |figures| figures.cpu));
    assert!((here / documented.mib_per_s - 1.0).abs() < 0.03, "{here} MiB/s");
    assert!((cpu - documented.cpu).abs() < 2.0, "{cpu} % of the CPUs");
}

#[test]
fn with_issuers_everywhere_scopes_hardly_matter() {
    check_gain(Way::Cache, 24, 0.5);
    check_gain(Way::CacheStrict, 24, 1.0);
}

#[test]
fn strict_loses_some_with_eight_issuers_and_loose_nothing() {
    check_gain(Way::Cache, 8, 1.0);
    check_gain(Way::CacheStrict, 8, 3.0);
    assert!(gain(Way::CacheStrict, 8) < -0.7);
}

#[test]
fn strict_loses_much_with_four_issuers_and_loose_little() {
    check_gain(Way::Cache, 4, 3.0);
    // The table there gives 17 %, the text beneath it 20 %.
    check_gain(Way::CacheStrict, 4, 4.0);
}

#[test]
fn managed_queues_lose_nothing() {
    for issuers in ISSUERS {
        let gain = gain(Way::Managed, issuers);
        assert!(gain > 0.0, "{issuers} issuers: {gain:.2} %");
    }
}

#[test]
fn what_is_near_need_not_be_fetched() {
    let remote = |way| mean(way, 24, |figures| figures.remote.expect("counted"));
    let (system, cache) = (remote(Way::System), remote(Way::Cache));
    // Three of four caches are other ones.
    assert!((70.0..80.0).contains(&system), "{system} %");
    assert!(cache < 40.0, "{cache} %");
}
