//! What it costs that managed pods help each other does not depend on how many there are.

use cmwq_sim::config::{Sabotage, TickRole};
use cmwq_sim::plan::{Call, Item, Op, Plan};
use cmwq_sim::scenario::{Flag, QueueSpec};
use cmwq_sim::{Config, Helping, Rng, Scope, Shape, simulate};

const US: u64 = 1_000;

/// Items that compute and wait, some to a CPU, queued here and there or all on one CPU.
fn plan(cpus: u32, per_cpu: u32, is_even: bool) -> Plan {
    let mut rng = Rng::new(5);
    let ops = [Op::Burn(50 * US), Op::Sleep(100 * US), Op::Burn(30 * US)];
    let nr_items = (cpus * per_cpu) as usize;
    let call = |item| {
        let cpu = if is_even { rng.below(u64::from(cpus)) as u32 } else { 0 };
        Call {
            at: item as u64 * 200 * US / u64::from(cpus),
            op: Op::Queue { item, cpu: Some(cpu) },
        }
    };
    Plan {
        queues: vec![QueueSpec {
            name: "q".into(),
            flags: [Flag::Managed].into_iter().collect(),
            ..QueueSpec::default()
        }],
        items: vec![Item { ops: ops.into(), ..Item::default() }; nr_items],
        calls: (0..nr_items).map(call).collect(),
        ..Plan::default()
    }
}

fn config(cpus: u32) -> Config {
    let shape = Shape::Regular([cpus.div_ceil(64), 64.min(cpus).div_ceil(8), 8.min(cpus), 1]);
    let mut config = Config { shape, scope: Scope::Cpu, ..Config::exact(cpus) };
    config.detect.tick = Some(TickRole::Alone);
    config
}

fn cost(cpus: u32, is_even: bool, sabotage: Option<Sabotage>) -> (Helping, Option<&'static str>) {
    let config = Config { sabotage, ..config(cpus) };
    assert_eq!(config.shape.cpus(), cpus);
    let outcome = simulate(&plan(cpus, 20, is_even), &config);
    (outcome.helping, outcome.violation.map(|violation| violation.checker))
}

#[test]
fn each_occasion_costs_the_same_with_2_to_256_cpus() {
    for is_even in [true, false] {
        for cpus in [2, 16, 64, 256] {
            let (cost, complaint) = cost(cpus, is_even, None);
            assert_eq!(complaint, None);
            assert!(cost.occasions > u64::from(cpus) * 20 && cost.is_bounded(), "{cpus}: {cost:?}");
        }
    }
}

#[test]
fn a_driver_that_walks_all_pods_is_noticed() {
    assert_eq!(cost(256, true, Some(Sabotage::WalkPods)).1, Some("board"));
}
