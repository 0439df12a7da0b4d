//! Reports as no detector would make them: false, late, doubled, about an earlier run; and a look
//! at a pool's counts. For tests that compare what the library makes of them with what a simulation
//! does; programs have no use for them. This may change at any time.

use std::ptr;

use cmwq_core::WorkerId;
use cmwq_core::help::Set;

use crate::api::workqueue::Workqueue;
use crate::engine::pool::{Pool, PoolKind};
use crate::engine::runtime::Runtime;
use crate::engine::threads::{current, detection};

/// The pool for usual items of `cpu`, of managed queues or of per-CPU ones.
fn pool(of_managed: bool, cpu: u32) -> Option<&'static Pool> {
    let is_it = |pool: &&Pool| match pool.kind {
        PoolKind::Cpu(of) => !of_managed && of == cpu,
        PoolKind::Managed => of_managed && pool.spec().pod.contains(cpu),
        PoolKind::Unbound | PoolKind::Bh(_) => false,
    };
    let mut pools = Runtime::existing()?.pools().filter(is_it);
    pools.find(|pool| pool.spec().priority.nice == 0)
}

/// The workers of the pool for usual items of `cpu`, of managed queues or of per-CPU ones: all, and
/// those that run. Looking changes nothing there: what is in the pool's inbox stays.
#[must_use]
pub fn workers(of_managed: bool, cpu: u32) -> Option<(u32, u32)> {
    let [all, _, running] = pool(of_managed, cpu)?.headcount();
    Some((all, running))
}

/// What the board says of the pod of `cpu`, among usual managed queues: whether it is in each of
/// [`Set::SUMMED`].
///
/// [`Set::SUMMED`]: cmwq_core::help::Set::SUMMED
#[must_use]
pub fn on_board(cpu: u32) -> [bool; 4] {
    let pod = pool(true, cpu).and_then(|pool| pool.pod);
    pod.map_or([false; 4], |pod| Set::SUMMED.map(|set| pod.board.has(set, pod.number)))
}

/// The workers of each pool of unbound and ordered queues that has any, and attributes that are not
/// the usual ones: all, and those that run.
#[must_use]
pub fn unusual_workers() -> Vec<(u32, u32)> {
    let of = |runtime: &'static Runtime| {
        let pools = runtime.pools();
        pools.filter(|pool| pool.kind == PoolKind::Unbound && !runtime.is_usual(pool))
    };
    let unusual = Runtime::existing().into_iter().flat_map(of);
    unusual
        .map(Pool::headcount)
        .filter(|[all, ..]| *all > 0)
        .map(|[all, _, run]| (all, run))
        .collect()
}

/// How many timers of items that go to the queue are armed.
#[must_use]
pub fn nr_timers(wq: &Workqueue) -> u64 {
    wq.handle().nr_timers()
}

/// A worker's run of an item, which is over perhaps.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pool: &'static Pool,
    id: WorkerId,
    seq: u64,
}

impl Run {
    /// The run in which the calling thread is. `None`: it is no worker, or runs an item of a BH
    /// queue.
    #[must_use]
    pub fn current() -> Option<Self> {
        current::run().map(|(pool, id, seq)| Self { pool, id, seq })
    }

    /// Reports what one look, as a detector's, found of workers in these runs: whether they are
    /// blocked, or back from their waits. A look is at one pool, that of the first one; of others
    /// nothing is reported. From any thread; takes the lock of the pool and may wake another
    /// worker.
    pub fn report(found: &[(Self, bool)]) {
        let Some(&(Self { pool, .. }, _)) = found.first() else { return };
        let of_pool = found.iter().filter(|(run, _)| ptr::eq(run.pool, pool));
        detection::report(pool, of_pool.map(|&(run, is_blocked)| (run.id, run.seq, is_blocked)));
    }
}
