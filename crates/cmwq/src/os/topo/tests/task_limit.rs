use std::path::Path;

use super::fixture::Tree;
use crate::os::topo::task_limit::{TaskLimit, task_limit};

const V2: &str = "proc/self/cgroup\t0::/app/job
proc/self/mountinfo\t31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
sys/fs/cgroup/app/pids.max\t1000
sys/fs/cgroup/app/pids.current\t990
sys/fs/cgroup/app/job/pids.max\t100
sys/fs/cgroup/app/job/pids.current\t7";

fn limit_of(tree: &Tree) -> Option<TaskLimit> {
    task_limit(&tree.path().join("proc"), tree.path())
}

#[test]
fn the_group_with_the_least_room_counts() {
    let tree = Tree::from_text(V2);
    let limit = limit_of(&tree).unwrap();
    assert_eq!((limit.max, limit.current, limit.room()), (1000, 990, 10));
    assert_eq!(limit.file, tree.path().join("sys/fs/cgroup/app/pids.max"));
    tree.write("sys/fs/cgroup/app/pids.max", "max");
    assert_eq!(limit_of(&tree).map(|limit| limit.room()), Some(93));
}

#[test]
fn version_1_has_a_hierarchy_of_its_own() {
    let tree = Tree::from_text(
        "proc/self/cgroup\t8:pids:/docker/abc\\n1:cpu:/elsewhere\\n0::/
proc/self/mountinfo\t40 30 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\\n\
         41 30 0:34 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
sys/fs/cgroup/pids/pids.max\t64
sys/fs/cgroup/pids/pids.current\t65
sys/fs/cgroup/cpu/elsewhere/pids.max\t1",
    );
    let limit = limit_of(&tree).unwrap();
    assert_eq!((limit.max, limit.current, limit.room()), (64, 65, 0), "more than there may be");
}

#[test]
fn anything_missing_or_odd_means_no_limit() {
    assert_eq!(task_limit(Path::new("/nonexistent"), Path::new("/nonexistent")), None);
    let tree = Tree::from_text(V2);
    tree.remove("sys/fs/cgroup/app/pids.max");
    tree.write("sys/fs/cgroup/app/job/pids.max", "abc");
    assert_eq!(limit_of(&tree), None);
    tree.write("sys/fs/cgroup/app/job/pids.max", "5");
    tree.remove("sys/fs/cgroup/app/job/pids.current");
    assert_eq!(limit_of(&tree).map(|limit| limit.room()), Some(5), "a count that cannot be read");
}
