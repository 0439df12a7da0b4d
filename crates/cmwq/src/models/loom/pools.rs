//! What detectors, who take no lock, see of a pool.

use cmwq_core::{Lend, LockFor, PoolId, WorkerId};
use loom::thread;

use super::check;
use crate::engine::pool::{Holder, Pool, PoolKind, PoolSpec};
use crate::engine::process::on_one_cpu;
use crate::engine::tools::attrs::Priority;
use crate::engine::tools::thread::Thread;
use crate::os::park::CHECK;
use crate::os::park::Parker;
use crate::os::sync::Arc;
use crate::os::topo::CpuSet;

/// A pool of a runtime without threads.
fn pool() -> &'static Pool {
    let (runtime, cpus) = (on_one_cpu(), CpuSet::single(0));
    let spec = PoolSpec {
        kind: PoolKind::Cpu(0),
        priority: Priority::default(),
        pod: cpus.clone(),
        is_strict: false,
        cpus,
        node: None,
    };
    Box::leak(Pool::new(PoolId(0), spec, None, runtime))
}

/// A worker goes idle and stands by.
fn add_worker(pool: &'static Pool) -> &'static Parker {
    hire(pool).1
}

/// As [`add_worker`], with the worker's id.
pub(super) fn hire(pool: &'static Pool) -> (WorkerId, &'static Parker) {
    let thread = Arc::new(Thread::new("worker".into(), Default::default()));
    let parker = thread.parker;
    let mut guard = pool.lock(LockFor::Counts);
    let id = guard.core.worker_new();
    guard.set_thread(id, Some(thread));
    let _ = guard.core.worker_created(id, None, 0);
    guard.refresh_standby(pool);
    (id, parker)
}

/// Work waits: somebody is to watch.
fn watch(pool: &'static Pool) {
    let _ = pool.lock(LockFor::Counts).watch(pool, Holder::Other);
}

/// The sentinel's whole action. Whether it had reason to.
fn look(pool: &'static Pool) -> bool {
    let is_watched = pool.is_watched();
    if is_watched {
        pool.alarm();
    }
    is_watched
}

/// The worker is made, stands by, and the pool is watched, while a detector looks.
#[test]
fn who_sees_that_a_pool_is_watched_finds_its_standby() {
    check(|| {
        let pool = pool();
        let detector = thread::spawn(move || look(pool));
        let parker = add_worker(pool);
        watch(pool);
        if detector.join().unwrap() {
            assert_eq!(parker.take(), CHECK, "the alarm went nowhere");
        }
    });
}

/// Another worker, whose parker is new, stands by in a pool that is watched already.
#[test]
fn a_new_standby_is_found_whole() {
    check(|| {
        let pool = pool();
        watch(pool);
        let detector = thread::spawn(move || look(pool));
        add_worker(pool);
        assert!(detector.join().unwrap());
    });
}

/// The worker that stands by goes to help another pod, in a pool that is watched already, while a
/// detector looks: the next alarm is for who stands by then.
#[test]
fn who_was_lent_stands_by_no_more() {
    check(|| {
        let pool = pool();
        let (other, (helper, _)) = (add_worker(pool), hire(pool));
        watch(pool);
        let detector = thread::spawn(move || look(pool));
        let mut guard = pool.lock(LockFor::Counts);
        assert!(matches!(guard.core.lend(helper, false), Lend::Lent(_)));
        pool.unlock_lent(guard);
        assert!(detector.join().unwrap());
        assert!(look(pool));
        assert_eq!(other.take(), CHECK, "the alarm went to who runs");
    });
}
