use super::*;

/// What a workload consists of: queues, and works of each length.
fn census(workload: usize) -> (usize, [usize; 3]) {
    let works = works(workload, Variant::L, 1.0, 1);
    let of = |length| works.iter().filter(|work| work.length == length).count();
    let queues = works.iter().map(|work| work.queue).max().unwrap() + 1;
    (queues, Length::ALL.map(of))
}

#[test]
fn the_workloads_are_those_of_2010() {
    assert_eq!(census(0), (26, [52, 12, 12]));
    assert_eq!(census(1), (22, [36, 12, 12]));
    assert_eq!(census(2), (18, [20, 12, 12]));
    assert_eq!(census(3), (16, [12, 12, 12]));
    assert_eq!(census(4), (16, [8, 12, 12]));
    assert_eq!(census(5), (14, [0, 12, 12]));
}

#[test]
fn the_works_are_those_of_2010() {
    let all = works(0, Variant::L, 1.0, 1);
    let first = |works: &[Work], length| {
        let work = works.iter().find(|work| work.length == length).unwrap();
        (work.burn_ns, work.mean_sleep_us, work.mean_pause_us, work.cycles)
    };
    assert_eq!(first(&all, Length::Short), (50_000, 1_000, 10_000, 454));
    assert_eq!(first(&all, Length::Medium), (50_000, 10_000, 50_000, 125));
    assert_eq!(first(&all, Length::Long), (50_000, 100_000, 250_000, 42));
    let small = works(0, Variant::S, 1.0, 1);
    assert_eq!(Length::ALL.map(|length| first(&small, length).0), [1_000, 2_000, 4_000]);
}

#[test]
fn works_survive_the_command_line() {
    let works = works(4, Variant::S, 0.01, u64::MAX);
    assert_eq!(parse(&spell(&works)).unwrap(), works);
    assert_eq!(parse("").unwrap(), []);
    assert!(parse("x:1:2:3:4:5:6").is_err() && parse("s:1:2:3:4:5").is_err());
}

#[test]
fn chance_is_the_same_for_the_same_seed_and_within_its_bounds() {
    let of = |seed| works(2, Variant::L, 1.0, seed);
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    for work in of(7) {
        let cycles: Vec<Cycle> = work.cycles().collect();
        assert_eq!(cycles, work.cycles().collect::<Vec<_>>());
        assert_eq!(cycles.len() as u64, work.cycles);
        for cycle in cycles {
            assert!(cycle.pause <= Duration::from_micros(2 * work.mean_pause_us));
            assert!(cycle.sleep <= Duration::from_micros(2 * work.mean_sleep_us));
            assert_eq!(cycle.burn_first + cycle.burn_then, Duration::from_nanos(work.burn_ns));
        }
    }
}

#[test]
fn means_are_the_means() {
    let works: Vec<Work> = (0..20).flat_map(|seed| works(0, Variant::L, 1.0, seed)).collect();
    for length in Length::ALL {
        let (sleep_ms, pause_ms) = length.means_ms();
        let of = works.iter().filter(|work| work.length == length);
        let cycles: Vec<Cycle> = of.flat_map(Work::cycles).collect();
        let mean = |value: fn(&Cycle) -> Duration| {
            cycles.iter().map(|cycle| value(cycle).as_secs_f64()).sum::<f64>() / cycles.len() as f64
                * 1000.0
        };
        for (mean, expected) in [
            (mean(|cycle| cycle.sleep), sleep_ms as f64),
            (mean(|cycle| cycle.pause), pause_ms as f64),
            (mean(|cycle| cycle.burn_first), 0.025),
        ] {
            assert!((mean / expected - 1.0).abs() < 0.05, "{length:?}: {mean}, not {expected}");
        }
    }
}

/// Known answers of SplitMix64 (seed 1234567), by which other languages can be checked, too.
#[test]
fn random_numbers_are_splitmix64() {
    let mut draws = Draws(1_234_567);
    let first = [draws.next(), draws.next(), draws.next()];
    assert_eq!(
        first,
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
    );
}

#[test]
fn the_ideal_is_the_longest_work_without_a_wait() {
    let works = works(5, Variant::L, 0.01, 3);
    let longest = works.iter().map(|work| {
        work.cycles().map(|c| c.pause + c.burn_first + c.sleep + c.burn_then).sum::<Duration>()
    });
    assert_eq!(ideal(&works), longest.max().unwrap());
    assert_eq!(ideal(&[]), Duration::ZERO);
}

#[test]
fn a_load_is_through_after_the_last_cycle_of_each_work() {
    let works = works(5, Variant::S, 0.01, 3);
    let cycles: u64 = works.iter().map(|work| work.cycles).sum();
    let load = Load::new(works);
    let mut slept = Duration::ZERO;
    for work in 0..load.len() {
        let mut pause = load.arm(work);
        while pause.is_some() {
            pause = load.cycle(work, |sleep| slept += sleep);
        }
    }
    load.wait();
    assert!(slept > Duration::ZERO);
    let made: usize = load.each().map(|progress| progress.ended_ns.len()).sum();
    let begun: usize = load.each().map(|progress| progress.late_ns.len()).sum();
    assert_eq!((made as u64, begun as u64), (cycles, cycles));
}
