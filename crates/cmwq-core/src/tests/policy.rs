//! The predicates against the kernel's truth tables.

use crate::consts::MAX_IDLE_WORKERS_RATIO;
use crate::policy::{
    UNMANAGED, keep_working, may_start_working, need_more_worker, need_to_create_worker,
    too_many_workers,
};

#[test]
fn with_concurrency_one_they_are_the_kernels() {
    for nr_running in 0..5 {
        assert!(!need_more_worker(false, nr_running, 1));
        assert!(!keep_working(false, nr_running, 1));
        assert_eq!(need_more_worker(true, nr_running, 1), nr_running == 0);
        assert_eq!(keep_working(true, nr_running, 1), nr_running <= 1);
    }
}

#[test]
fn unmanaged_pools_ignore_nr_running() {
    for nr_running in [0, 1, 2, 1000, u32::MAX - 1] {
        assert!(need_more_worker(true, nr_running, UNMANAGED));
        assert!(keep_working(true, nr_running, UNMANAGED));
        assert!(!need_more_worker(false, nr_running, UNMANAGED));
        assert!(!keep_working(false, nr_running, UNMANAGED));
    }
}

#[test]
fn concurrency_n_lets_n_run() {
    let starts = [true, true, true, false, false];
    let stays = [true, true, true, true, false];
    for nr_running in 0..5 {
        assert_eq!(need_more_worker(true, nr_running, 3), starts[nr_running as usize]);
        // The asking worker counts itself.
        assert_eq!(keep_working(true, nr_running, 3), stays[nr_running as usize]);
    }
}

#[test]
fn a_worker_is_created_only_when_needed_and_nobody_is_idle() {
    assert!(!may_start_working(0));
    assert!(may_start_working(1));
    assert!(need_to_create_worker(true, 0));
    assert!(!need_to_create_worker(true, 1));
    assert!(!need_to_create_worker(false, 0));
}

/// Idle workers that remain when culling stops, starting from 50.
fn survivors(busy: u32, managing: bool) -> u32 {
    let managers = u32::from(managing);
    let mut idle = 50;
    while too_many_workers(busy + idle + managers, idle, managing, MAX_IDLE_WORKERS_RATIO) {
        idle -= 1;
    }
    idle
}

#[test]
fn culling_leaves_two_and_one_for_every_four_busy() {
    assert_eq!(survivors(0, false), 2);
    for busy in 1..60 {
        assert_eq!(survivors(busy, false), 2 + (busy - 1) / 4, "{busy} busy");
    }
    // The boundaries spelt out, so that the formula above is not all there is.
    assert_eq!([1, 4, 5, 8, 9].map(|busy| survivors(busy, false)), [2, 2, 3, 3, 4]);
}

#[test]
fn a_manager_counts_as_idle() {
    for busy in 0..20 {
        assert_eq!(survivors(busy, true) + 1, survivors(busy, false), "{busy} busy");
    }
}

#[test]
fn two_idle_workers_are_never_too_many() {
    for workers in 0..10 {
        for idle in 0..=workers.min(2) {
            assert!(!too_many_workers(workers, idle, false, MAX_IDLE_WORKERS_RATIO));
            // Nor is a count that does not add up a reason to underflow.
            assert!(!too_many_workers(0, idle, false, MAX_IDLE_WORKERS_RATIO));
        }
    }
    assert!(too_many_workers(3, 3, false, MAX_IDLE_WORKERS_RATIO));
}
