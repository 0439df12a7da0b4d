use std::path::Path;

use super::fixture::Tree;
use crate::os::topo::{AffinityScope, CpuSet, Topology, pods};

fn read(fixture: &str, allowed: &str) -> Topology {
    let tree = Tree::fixture(fixture);
    Topology::read(tree.path(), &allowed.parse().expect("a CPU list"))
}

/// Checks the pods of a scope, written as lists of CPUs, and that all of them are in `node`.
#[track_caller]
fn check_pods(topology: &Topology, scope: AffinityScope, shard_size: u32, expected: &[&str]) {
    let pods = pods(scope, topology, shard_size);
    let lists: Vec<_> = pods.iter().map(|pod| pod.cpus.to_string()).collect();
    assert_eq!(lists, expected, "{scope} at {shard_size}");
}

#[test]
fn desktop_with_four_caches() {
    use AffinityScope::{Cache, CacheShard, Numa, Smt, System};
    let topology = read("sys-desktop-12c24t-4llc", "0-23");
    let caches = ["0-2,12-14", "3-5,15-17", "6-8,18-20", "9-11,21-23"];
    check_pods(&topology, Cache, 8, &caches);
    // Three cores by two is one and a half shards, which rounds up.
    check_pods(&topology, CacheShard, 8, &caches);
    check_pods(&topology, CacheShard, 3, &caches);
    check_pods(
        &topology,
        CacheShard,
        2,
        &["0-1,12-13", "2,14", "3-4,15-16", "5,17", "6-7,18-19", "8,20", "9-10,21-22", "11,23"],
    );
    check_pods(&topology, Numa, 8, &["0-23"]);
    check_pods(&topology, System, 8, &["0-23"]);
    let smt = pods(Smt, &topology, 8);
    assert_eq!(smt.len(), 12);
    assert_eq!(smt[11].cpus.to_string(), "11,23");
    assert!(smt.iter().all(|pod| pod.node == Some(0)));
}

#[test]
fn server_with_two_nodes() {
    use AffinityScope::{Cache, CacheShard, Cpu, Numa, System};
    let topology = read("sys-server-2s16c32t", "0-31");
    check_pods(&topology, Cache, 8, &["0-7,16-23", "8-15,24-31"]);
    check_pods(&topology, CacheShard, 8, &["0-7,16-23", "8-15,24-31"]);
    // 8 / 3 rounds to 3 shards; the two cores that are left over go to the first two.
    let by_three =
        ["0-2,16-18", "3-5,19-21", "6-7,22-23", "8-10,24-26", "11-13,27-29", "14-15,30-31"];
    check_pods(&topology, CacheShard, 3, &by_three);
    check_pods(&topology, Numa, 8, &["0-7,16-23", "8-15,24-31"]);
    assert_eq!(pods(Cpu, &topology, 8).len(), 32);
    let nodes = |scope| pods(scope, &topology, 8).iter().map(|p| p.node).collect::<Vec<_>>();
    assert_eq!(nodes(Numa), [Some(0), Some(1)]);
    assert_eq!(nodes(System), [None], "no node holds all CPUs");
}

#[test]
fn only_allowed_cores_are_counted_into_shards() {
    // Of the first socket 3 cores are left, one of them with its upper sibling only.
    let topology = read("sys-server-2s16c32t", "0-1,16,18,8-15");
    let pods_at = |size| pods(AffinityScope::CacheShard, &topology, size).len();
    assert_eq!(pods_at(8), 2);
    check_pods(
        &topology,
        AffinityScope::CacheShard,
        2,
        &["0-1,16", "8-9", "10-11", "12-13", "14-15", "18"],
    );
}

#[test]
fn cores_of_two_kinds() {
    use AffinityScope::{Cache, CacheShard, Numa, Smt};
    let topology = read("sys-biglittle-4-4", "0-7");
    check_pods(&topology, Cache, 8, &["0-3", "4-7"]);
    check_pods(&topology, CacheShard, 2, &["0-1", "2-3", "4-5", "6-7"]);
    check_pods(&topology, Smt, 8, &["0", "1", "2", "3", "4", "5", "6", "7"]);
    check_pods(&topology, Numa, 8, &["0-7"]);
}

#[test]
fn one_cpu_is_one_pod_in_every_scope() {
    let topology = read("sys-vm-1cpu", "0");
    for scope in AffinityScope::ALL {
        check_pods(&topology, scope, 8, &["0"]);
    }
}

/// The number and sizes of the shards of one cache with `cores` cores.
#[track_caller]
fn check_shards(cores: u32, shard_size: u32, sizes: &[usize]) {
    let allowed: CpuSet = (0..cores).collect();
    let topology = Topology::read(Path::new("/nonexistent"), &allowed);
    let pods = pods(AffinityScope::CacheShard, &topology, shard_size);
    let counts: Vec<_> = pods.iter().map(|pod| pod.cpus.count()).collect();
    assert_eq!(counts, sizes, "{cores} cores by {shard_size}");
}

#[test]
fn shards_are_rounded_and_the_first_ones_are_larger() {
    check_shards(1, 8, &[1]);
    check_shards(8, 8, &[8]);
    check_shards(11, 8, &[11]);
    check_shards(12, 8, &[6, 6]);
    check_shards(13, 8, &[7, 6]);
    check_shards(19, 8, &[10, 9]);
    check_shards(20, 8, &[7, 7, 6]);
    check_shards(7, 3, &[4, 3]);
    check_shards(3, 1, &[1, 1, 1]);
    check_shards(3, 0, &[1, 1, 1]);
    check_shards(3, u32::MAX, &[3]);
}

#[test]
fn no_cpus_make_no_pods() {
    for scope in AffinityScope::ALL {
        assert_eq!(pods(scope, &Topology::default(), 8), []);
    }
}

#[test]
fn names_go_both_ways() {
    for scope in AffinityScope::ALL {
        assert_eq!(scope.name().parse(), Ok(scope));
        assert_eq!(AffinityScope::parse_setting(scope.name()), Ok(Some(scope)));
    }
    assert_eq!("cache_shard\n".parse(), Ok(AffinityScope::CacheShard));
    assert_eq!("NUMA".parse(), Ok(AffinityScope::Numa));
    assert_eq!(AffinityScope::parse_setting("default"), Ok(None));
    for name in ["default", "", "cach", "cache_", "node"] {
        let error = name.parse::<AffinityScope>().expect_err(name).to_string();
        assert!(error.ends_with("cpu smt cache cache_shard numa system"), "{error}");
    }
}
