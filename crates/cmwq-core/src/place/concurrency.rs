//! How many workers of a pool may run at once, by its kind and the CPUs there are.

use super::PoolKind;
use crate::policy::UNMANAGED;

/// How many workers of a pool may run at once. `cpus`: how many CPUs of the pool are there now;
/// `granted`: how many CPUs the process's quota keeps busy, at least 1, or [`u32::MAX`] without a
/// quota.
///
/// - A per-CPU pool whose CPU has gone is disassociated: its workers run wherever they can, all at
///   once.
/// - A managed pool whose CPUs have gone keeps one running worker, elsewhere: so no item waits for
///   ever, and its items do not all start at once. Rejected: no worker, and guests from other pods:
///   under load these have no time.
/// - A BH pool has no workers; the BH context of its CPU serves it as a guest, so each kick says
///   [`Kick::Watch`](crate::Kick::Watch), which wakes the context.
///
/// KERNEL: `unbind_workers`, `rebind_workers` — same for per-CPU pools. Managed pools have no twin.
#[must_use]
pub(crate) const fn concurrency(kind: PoolKind, cpus: u32, granted: u32) -> u32 {
    match kind {
        PoolKind::Percpu if cpus > 0 => 1,
        PoolKind::Percpu | PoolKind::Unbound => UNMANAGED,
        PoolKind::Managed => {
            let cpus = if cpus < granted { cpus } else { granted };
            if cpus > 0 { cpus } else { 1 }
        }
        PoolKind::Bh => 0,
    }
}

/// How many of `allowed` CPUs to use: at most as many as the `quota`, in CPUs' worth of time, keeps
/// busy, and at least one.
#[must_use]
pub fn granted(allowed: u32, quota: Option<f64>) -> u32 {
    let Some(quota) = quota else { return allowed.max(1) };
    // A float-to-integer cast saturates, so an absurdly large quota is simply no limit.
    let whole = quota as u32;
    let is_part_used = f64::from(whole) < quota;
    allowed.min(whole.saturating_add(u32::from(is_part_used))).max(1)
}
