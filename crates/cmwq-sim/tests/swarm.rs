//! Random runs, none of which may make a checker complain.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use cmwq_sim::config::TickRole;
use cmwq_sim::swarm::{FaultSet, Options, run_bytes};
use cmwq_sim::{Report, Rng, Scope, Shape, run_seed, simulate};

/// Runs the seeds on all CPUs; panics with the first complaint and the command that repeats it.
#[track_caller]
fn check_seeds(seeds: std::ops::Range<u64>, options: &Options) {
    let total = seeds.end - seeds.start;
    let next = AtomicU64::new(seeds.start);
    let run = || {
        let mut found = Vec::new();
        loop {
            // ORDERING: no pairing: a counter.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return found;
            }
            let report = run_seed(seed, options);
            if report.violation().is_some() {
                found.push(report);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut found: Vec<Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    found.sort_by_key(|report| report.seed);
    if let Some(first) = found.first() {
        panic!("{} of {total} seeds have complaints; the first:\n{first}", found.len());
    }
}

/// As [`check_seeds`], of a seed that was found when managed and unbound queues had pods by caches.
#[track_caller]
fn check_where_pods_are_caches(seed: u64, options: Options) {
    let Report { plan, mut config, .. } =
        run_seed(seed, &Options { scope: Some(Scope::Cache), ..options });
    config.managed_scope = Scope::Cache;
    // Found when there were none.
    config.isolated = 0;
    assert_eq!(simulate(&plan, &config).violation, None, "seed {seed}");
}

#[test]
fn a_thousand_seeds_with_faults() {
    check_seeds(0..1_000, &Options::default());
}

#[test]
fn seeds_without_faults() {
    check_seeds(0..500, &Options { faults: FaultSet::NONE, ..Options::default() });
}

/// No report comes: only the tick notices who blocks, and who is back.
#[test]
fn seeds_without_reports() {
    for seed in 0..1_000 {
        let Report { plan, mut config, .. } =
            run_seed(seed, &Options { faults: FaultSet::NONE, ..Options::default() });
        config.faults.lost = 1_000_000;
        config.detect.tick = Some(TickRole::Alone);
        assert_eq!(simulate(&plan, &config).violation, None, "seed {seed}");
    }
}

/// Threads of high priority overtake those that have just been woken on their CPU.
#[test]
fn a_seed_in_which_many_flushers_wake_at_once() {
    check_where_pods_are_caches(604, Options { faults: FaultSet::NONE, ..Options::default() });
}

/// A worker that is found while its pool wants such workers to stay, and then waits again for a
/// shorter time than it takes to be found.
#[test]
fn a_seed_in_which_who_was_left_bound_waits_again() {
    check_where_pods_are_caches(82_078, Options::default());
}

/// Each is an occasion to look at the board.
#[test]
fn a_seed_in_which_cpus_leave_and_return_all_the_time() {
    let options = Options { cpus: Some(2), queues: Some(1), ..Options::default() };
    check_where_pods_are_caches(2_259, options);
}

/// One queue of each kind in turn gets all the load of a small machine.
#[test]
fn crowded_seeds() {
    let options =
        Options { cpus: Some(2), queues: Some(1), items: Some(600), ..Options::default() };
    check_seeds(0..200, &options);
}

/// Seed 4 has CPUs that leave and come all the time: a minute.
#[test]
fn large_machines() {
    check_seeds(5..10, &Options { cpus: Some(4096), items: Some(3_000), ..Options::default() });
}

/// Every named machine and scope, in turn.
#[test]
fn scopes_of_known_machines() {
    for (shape, ..) in Shape::NAMED {
        for (scope, _) in Scope::ALL {
            let (shape, scope) = (Some(shape), Some(scope));
            check_seeds(0..12, &Options { shape, scope, ..Options::default() });
        }
    }
}

#[test]
fn hotplug_storms() {
    check_seeds(0..300, &Options { hotplug: true, ..Options::default() });
    let none = FaultSet::NONE;
    check_seeds(0..300, &Options { hotplug: true, faults: none, ..Options::default() });
}

/// A cache of so many cores has other shards when one of them has left.
#[test]
fn hotplug_storms_that_cut_shards_anew() {
    for shape in ["1x12x1", "1x20x1", "2x12x2"] {
        let shape = Some(shape.parse().expect("a topology"));
        let scope = Some(Scope::CacheShard);
        check_seeds(0..50, &Options { shape, scope, hotplug: true, ..Options::default() });
    }
}

/// A pool at the limit of workers, whose only one is reported back, and then blocks: who waits is
/// watched, although no other worker was to be had for it.
#[test]
fn a_seed_in_which_the_only_worker_is_back_and_blocks_again() {
    let shape = Some("2x1x12x2".parse().expect("a topology"));
    let scope = Some(Scope::CacheShard);
    check_seeds(20_465..20_466, &Options { shape, scope, hotplug: true, ..Options::default() });
}

/// Another seed each time the environment says so: `CMWQ_SEED=12345 cargo test -p cmwq-sim`.
#[test]
fn the_seed_of_the_environment() {
    let Ok(seed) = std::env::var("CMWQ_SEED") else { return };
    let seed: u64 = seed.parse().expect("CMWQ_SEED is a number");
    // A complaint names its seed and the command that repeats it.
    check_seeds(seed..seed + 200, &Options::default());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..60 {
        let (one, other) =
            (run_seed(seed, &Options::default()), run_seed(seed, &Options::default()));
        assert_eq!(one.outcome.digest, other.outcome.digest, "seed {seed}");
        assert_eq!(one.outcome.stats, other.outcome.stats, "seed {seed}");
        assert_eq!(one.outcome.end, other.outcome.end, "seed {seed}");
    }
}

#[test]
fn other_seeds_give_other_runs() {
    let digests: std::collections::HashSet<_> =
        (0..60).map(|seed| run_seed(seed, &Options::default()).outcome.digest.value()).collect();
    assert_eq!(digests.len(), 60);
}

/// What fuzzers do; see `fuzz/README.md`.
#[test]
fn bytes_choose_runs_without_complaints() {
    let mut rng = Rng::new(1);
    let mut digests = std::collections::HashSet::new();
    for _ in 0..60 {
        let bytes: Vec<u8> = (0..rng.between(600, 1_600)).map(|_| rng.bits() as u8).collect();
        let all = run_bytes(&bytes);
        assert_eq!(run_bytes(&bytes).digest, all.digest);
        digests.insert(all.digest.value());
    }
    assert_eq!(digests.len(), 60);
}

#[test]
fn the_replay_command_has_what_was_asked_for() {
    let plain = run_seed(3, &Options::default());
    assert_eq!(plain.replay(), "cmwq sim --seed 3");
    let faults = "late,lost".parse().expect("known faults");
    let sabotage = "never-lend".parse().ok();
    let options = Options {
        cpus: Some(5),
        items: Some(9),
        queues: Some(2),
        scope: Some(Scope::Numa),
        hotplug: true,
        faults,
        sabotage,
        ..Options::default()
    };
    let special = run_seed(3, &options);
    assert_eq!(
        special.replay(),
        "cmwq sim --seed 3 --cpus 5 --items 9 --queues 2 --scope numa --hotplug --faults \
         late,lost --sabotage never-lend"
    );
}

#[test]
fn fault_sets_have_names() {
    assert_eq!("all".parse(), Ok(FaultSet::ALL));
    assert_eq!("none".parse(), Ok(FaultSet::NONE));
    let set: FaultSet = "lost, outage".parse().expect("known faults");
    assert_eq!(set.to_string(), "lost,outage");
    assert!("losst".parse::<FaultSet>().unwrap_err().to_string().contains("unknown fault 'losst'"));
}

/// What a fuzzer has found.
#[test]
fn found_bytes_make_nobody_complain() {
    let found = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/swarm");
    let files: Vec<_> = fs::read_dir(found).expect("the fuzzer's seeds").flatten().collect();
    assert!(!files.is_empty(), "no seeds in {found}");
    for file in files {
        let _outcome = run_bytes(&fs::read(file.path()).expect("a seed"));
    }
}
