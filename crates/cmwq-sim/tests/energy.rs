//! Energy: the sums, and what power-efficient queues save.

use cmwq_sim::Scope;
use cmwq_sim::event::{Event, Queueing, Runner, Site, What};
use cmwq_sim::studies::energy::{Cluster, Load, Model, Works, integrate};

const MS: u64 = 1_000_000;

fn cluster() -> Cluster {
    Cluster {
        name: "only",
        cpus: 0..2,
        core: 1_000.0,
        core_wake: 0.5,
        active: 10_000.0,
        waiting: 100.0,
        asleep: 0.0,
        residency: 10 * MS,
        latency: 2 * MS,
        wake: 3.0,
    }
}

fn run(ticket: u64, cpu: u32, from: u64, until: u64) -> [Event; 2] {
    let what = Queueing { item: 0, ticket, queue: 0 };
    let (site, runner) = (Site { pool: 0, group: 0 }, Runner { worker: 1, cpu });
    let event = |t, what| Event { t: t * MS, what };
    [event(from, What::Started(what, site, runner)), event(until, What::Finished(what, runner))]
}

/// By hand: two cores compute for 4 and 3 ms, together for 5; gaps of 5, 5 and 85 ms.
#[test]
fn sums_by_hand() {
    let mut events = [run(1, 0, 5, 8), run(2, 1, 6, 9), run(3, 0, 14, 15)].concat();
    events.sort_by_key(|event| event.t);
    let energy = integrate(&Model(vec![cluster()]), &events, 100 * MS)[0];
    assert!((energy.computing - (7.0 + 50.0)).abs() < 1e-9, "{energy:?}");
    // Two gaps are too short for sleeping.
    assert!((energy.idle - 1.0).abs() < 1e-9, "{energy:?}");
    // One is not: 2 ms at half the cluster's power, its waking, and three wakings of cores.
    assert!((energy.waking - (10.0 + 3.0 + 1.5)).abs() < 1e-9, "{energy:?}");
    assert_eq!((energy.core_wakes, energy.cluster_wakes), (3, 1));
}

#[test]
fn a_machine_that_does_nothing_sleeps() {
    let energy = integrate(&Model(vec![cluster()]), &[], 1_000 * MS)[0];
    assert_eq!((energy.core_wakes, energy.computing), (0, 0.0));
}

/// The experiment for which power-efficient queues were made: 15.7 % are documented.
#[test]
fn power_efficient_queues_save_about_what_is_documented() {
    let (load, model) = (Load::default(), Model::tc2());
    let saving = load.saving(&model, Works::Unbound(Scope::System));
    assert!((0.10..=0.22).contains(&saving), "{saving}");
    // The reason: fast cores are not woken any more.
    let (before, after) =
        (load.run(&model, Works::PerCpu), load.run(&model, Works::Unbound(Scope::System)));
    assert!(before[0].core_wakes > 350, "{before:?}");
    assert_eq!(after[0].core_wakes, 0, "{after:?}");
    assert!(
        after[1].total() > before[1].total(),
        "somebody has to do the work: {before:?} {after:?}"
    );
}

/// With any phases, and a sign that does not depend on the load's size.
#[test]
fn the_saving_has_the_same_sign_for_other_loads() {
    let model = Model::tc2();
    for seed in 1..6 {
        for (works, music) in [(1, 1), (2, 1), (1, 2)] {
            let load = Load { seed, length: 2_000 * MS, ..Load::default() };
            let load = Load { work: load.work / works, music: load.music / music, ..load };
            let saving = load.saving(&model, Works::Unbound(Scope::System));
            assert!((0.0..0.4).contains(&saving), "seed {seed}, {works}, {music}: {saving}");
        }
    }
}
