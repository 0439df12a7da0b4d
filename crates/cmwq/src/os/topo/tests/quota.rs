use std::path::Path;

use super::fixture::Tree;

fn cpu_quota(proc: &Path, fs_root: &Path) -> Option<f64> {
    crate::os::topo::cpu_quota(proc, fs_root).map(|quota| quota.cpus)
}

#[track_caller]
fn check_fixture(name: &str, expected: Option<f64>) {
    let tree = Tree::fixture(name);
    assert_eq!(cpu_quota(&tree.path().join("proc"), tree.path()), expected, "{name}");
}

#[track_caller]
fn check_file(name: &str, expected: &str) {
    let tree = Tree::fixture(name);
    let quota = crate::os::topo::cpu_quota(&tree.path().join("proc"), tree.path());
    assert_eq!(quota.map(|quota| quota.file), Some(tree.path().join(expected)), "{name}");
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
fn the_file_that_limits_is_named() {
    check_file("cgroup-v2", "sys/fs/cgroup/app.slice/job.service/cpu.max");
    check_file("cgroup-v2-parent", "sys/fs/cgroup/app.slice/batch/cpu.max");
    let tree = Tree::fixture("cgroup-v1");
    let quota = crate::os::topo::cpu_quota(&tree.path().join("proc"), tree.path()).unwrap();
    assert!(quota.file.ends_with("cpu.cfs_quota_us") && quota.file.is_file(), "{quota:?}");
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
