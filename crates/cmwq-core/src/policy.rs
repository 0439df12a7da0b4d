//! The five predicates of concurrency management, on one screen. Two more rules are in
//! `pool/wait_first` and `pool/processes`: workers of managed pools go on at capacity while their
//! items wait first, and an alarm begins another item while a pool's processes wait soon.
//!
//! They differ from the kernel's in one generalisation: where Linux compares `nr_running` with 1
//! (per-CPU pools) or ignores it (unbound and disassociated pools), a pool here has a
//! *concurrency* ([`Belonging`](crate::place::Belonging)). With 1 and [`UNMANAGED`] they
//! are exactly the kernel's.
//!
//! Why: docs/decisions/concurrency-is-a-number.md

/// The concurrency of a pool that starts every active item at once.
pub const UNMANAGED: u32 = u32::MAX;

/// Work waits and a CPU could run it. KERNEL: `need_more_worker` — same for concurrency 1.
#[inline]
#[must_use]
pub const fn need_more_worker(work_waits: bool, nr_running: u32, concurrency: u32) -> bool {
    work_waits && nr_running < concurrency
}

/// Another worker stays as standby. KERNEL: `may_start_working` — same.
#[inline]
#[must_use]
pub const fn may_start_working(nr_idle: u32) -> bool {
    nr_idle > 0
}

/// The caller, a running worker, should take another item. KERNEL: `keep_working` — same.
#[inline]
#[must_use]
pub const fn keep_working(work_waits: bool, nr_running: u32, concurrency: u32) -> bool {
    work_waits && nr_running <= concurrency
}

/// A worker must be created first. KERNEL: `need_to_create_worker` — same.
#[inline]
#[must_use]
pub const fn need_to_create_worker(need_more_worker: bool, nr_idle: u32) -> bool {
    need_more_worker && !may_start_working(nr_idle)
}

/// Idle workers may be culled. A manager counts as idle. KERNEL: `too_many_workers` — same; `ratio`
/// 4.
#[inline]
#[must_use]
pub const fn too_many_workers(nr_workers: u32, nr_idle: u32, managing: bool, ratio: u32) -> bool {
    let nr_idle = nr_idle + managing as u32;
    let nr_busy = nr_workers.saturating_sub(nr_idle);
    nr_idle > 2 && (nr_idle - 2) * ratio >= nr_busy
}
