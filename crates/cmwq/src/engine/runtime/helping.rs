//! Managed pods that help each other: acting on what [`cmwq_core::help`] decides.

use cmwq_core::help::{self, Asking, Instead, Length, Whereabouts};
use cmwq_core::place::{self, OwnCpus};

use super::{Machine, PoolCpus, PoolKey, Runtime};
use crate::engine::pool::Pool;
use crate::engine::pool::board::{AtomicBoard, Pod};
use crate::engine::tools::attrs::Priority;
use crate::os::sync::leaves_out;
use crate::os::topo::CpuSet;

/// Whether a pod with these CPUs helps others, where managed queues use those.
pub(super) fn may_help(pod: &CpuSet, managed: &CpuSet) -> bool {
    let (allowed, managed) = (pod.count() as u32, pod.and(managed).count() as u32);
    OwnCpus { allowed, managed }.may_help()
}

impl Machine {
    /// A board for the managed pods; those with one of `cpus` may help.
    pub(super) fn board(&self, cpus: &CpuSet) -> AtomicBoard {
        let whereabouts: Vec<_> =
            self.managed_pods.iter().map(|pod| self.whereabouts(&pod.cpus)).collect();
        let has_several = self.managed_pods.len() > 1;
        AtomicBoard::new(&whereabouts, |pod| {
            has_several && may_help(&self.managed_pods[pod].cpus, cpus)
        })
    }

    /// A CPU of unknown topology has a cache of its own, on a node of all such CPUs.
    fn whereabouts(&self, pod: &CpuSet) -> Whereabouts {
        let first = pod.first().unwrap_or(0);
        let cpu = self.known.topology.cpu(first);
        Whereabouts {
            node: cpu.and_then(|cpu| cpu.node).unwrap_or(u32::MAX),
            cache: cpu.map_or(first, |cpu| cpu.llc),
        }
    }
}

/// A pod asks others of its priority for help.
struct ForHelp<'a> {
    runtime: &'static Runtime,
    board: &'a AtomicBoard,
    priority: Priority,
}

impl Asking for ForHelp<'_> {
    type Pool = &'static Pool;

    fn pool(&mut self, pod: usize) -> Option<&'static Pool> {
        self.runtime.managed_pool(self.board, pod, self.priority)
    }

    fn caller_computes(&mut self, pool: &'static Pool) -> bool {
        pool.caller_computes()
    }

    fn ask_when_idle(&mut self, pool: &'static Pool) {
        pool.ask_when_idle();
    }

    fn ask(&mut self, pool: &'static Pool) -> bool {
        pool.ask_to_help()
    }
}

impl Runtime {
    /// A managed pool of another pod that has a backlog.
    pub(crate) fn pool_to_help(&'static self, pool: &'static Pool) -> Option<&'static Pool> {
        let Pod { board, number } = pool.pod?;
        let of_pod = |pod| board.get(pod);
        let mut pools = help::to_visit(board, number, of_pod, |pool| pool.inbox.is_empty());
        pools.find(|pool| pool.has_backlog())
    }

    /// Work waits in `pool` at capacity: asks for a worker of another pod that has a CPU to spare.
    #[cold]
    pub(crate) fn ask_for_help(&'static self, pool: &'static Pool) {
        let pod = pool.pod.filter(|_| !leaves_out("pods.call"));
        let Some(Pod { board, number }) = pod else { return };
        let priority = pool.spec().priority;
        let mut driver = ForHelp { runtime: self, board, priority };
        help::ask_until_one_comes(help::to_ask(board, number), &mut driver);
    }

    /// The pool of a pod, made on first use. `None`: there are too many pools.
    fn managed_pool(
        &'static self,
        board: &AtomicBoard,
        pod: usize,
        priority: Priority,
    ) -> Option<&'static Pool> {
        board.get(pod).or_else(|| {
            let cpus = PoolCpus::Slot(pod);
            let key = PoolKey { kind: place::PoolKind::Managed, priority, cpus };
            self.pool_by_key(key).map(|found| found.pool)
        })
    }

    /// Work waits in `pool` at capacity: has the workers of some other pods watched, since one that
    /// blocks leaves a CPU; other pods each `turn`.
    pub(crate) fn watch_other_pods(&self, pool: &'static Pool, turn: usize) {
        let Some(Pod { board, number }) = pool.pod else { return };
        let others = help::to_watch(board, number, turn).filter_map(|pod| board.get(pod));
        others.for_each(Pool::watch_for_others);
    }

    /// The CPU of another pod whose backlog an item of a caller that waits joins, which would go to
    /// `pool`.
    pub(crate) fn cpu_of_backlog(&self, pool: &'static Pool, length: Length) -> Option<u32> {
        let Pod { board, number } = pool.pod?;
        let pod = help::collects(board, number, length)?;
        self.machine.managed_pods.get(pod)?.cpus.first()
    }

    /// Another CPU for an item that would go to `pool`, on whose CPU the caller computes. `turn`:
    /// chooses the CPU if none is idle.
    pub(crate) fn cpu_instead(&self, pool: &'static Pool, turn: usize) -> Option<u32> {
        let Pod { board, number } = pool.pod?;
        let cpu = |pod: usize| self.machine.managed_pods.get(pod)?.cpus.first();
        match help::instead_of(board, number, turn) {
            Instead::Pod(pod) => cpu(pod),
            Instead::Home(computed_on) => {
                // The sentinel finds out whether the caller there still computes.
                if let Some(cpu) = computed_on.and_then(cpu) {
                    self.sentinels.arm(cpu);
                }
                None
            }
        }
    }
}
