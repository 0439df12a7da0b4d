use std::path::Path;

use super::fixture::Tree;
use crate::topo::{cpu_quota, effective_cpus};

#[track_caller]
fn check_fixture(name: &str, expected: Option<f64>) {
    let tree = Tree::fixture(name);
    assert_eq!(cpu_quota(&tree.path().join("proc"), tree.path()), expected, "{name}");
}

#[test]
fn unified_hierarchy() {
    check_fixture("cgroup-v2", Some(1.5));
    check_fixture("cgroup-v2-max", None);
}

#[test]
fn the_tightest_ancestor_counts() {
    check_fixture("cgroup-v2-parent", Some(0.5));
    let tree = Tree::fixture("cgroup-v2-parent");
    tree.remove("sys/fs/cgroup/app.slice/batch/cpu.max");
    assert_eq!(cpu_quota(&tree.path().join("proc"), tree.path()), Some(4.0));
}

#[test]
fn version_1() {
    check_fixture("cgroup-v1", Some(2.5));
    check_fixture("cgroup-v1-container", Some(2.0));
    check_fixture("cgroup-hybrid", Some(3.0));
}

#[test]
fn namespaces() {
    check_fixture("cgroup-v2-namespace", Some(1.5));
    check_fixture("cgroup-v2-outer-mount", Some(0.5));
    check_fixture("cgroup-v2-moved-out", Some(1.2));
    check_fixture("cgroup-v2-not-shown", None);
}

#[test]
fn anything_missing_or_odd_means_no_limit() {
    assert_eq!(cpu_quota(Path::new("/nonexistent"), Path::new("/nonexistent")), None);
    for limit in ["", "max", "0 100000", "100000 0", "-1 100000", "abc 100000", "100000 abc"] {
        let tree = Tree::fixture("cgroup-v2");
        tree.write("sys/fs/cgroup/app.slice/job.service/cpu.max", limit);
        assert_eq!(cpu_quota(&tree.path().join("proc"), tree.path()), None, "{limit:?}");
    }
    let tree = Tree::fixture("cgroup-v2");
    tree.write("sys/fs/cgroup/app.slice/job.service/cpu.max", "50000");
    assert_eq!(cpu_quota(&tree.path().join("proc"), tree.path()), Some(0.5), "default period");
    tree.write("proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup rw");
    assert_eq!(cpu_quota(&tree.path().join("proc"), tree.path()), None, "a line that was cut off");
}

#[test]
fn cpus_worth_using() {
    assert_eq!(effective_cpus(8, None), 8);
    assert_eq!(effective_cpus(8, Some(1.5)), 2);
    assert_eq!(effective_cpus(8, Some(2.0)), 2);
    assert_eq!(effective_cpus(8, Some(0.01)), 1);
    assert_eq!(effective_cpus(2, Some(1e300)), 2);
    assert_eq!(effective_cpus(0, None), 1);
}
