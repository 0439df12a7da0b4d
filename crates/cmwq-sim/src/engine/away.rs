//! Threads outside of the pools that compute: where their items go, and when their own pods are called.
//!
//! As the real runtime's `away`, which learns by samples that items are long and who computes: here
//! [`Config::has_long_items`](crate::Config::has_long_items) says so. Such a thread's pod is *taken* until its CPU is idle. The CPU's sentinel
//! tells that, as late as it tells of a blocked worker.

use super::{Due, Engine};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::PoolNo;
use crate::places::{Kind, Queue};
use crate::plan::{ItemId, QueueId};
use crate::topology::Scope;

impl Engine<'_> {
    /// As [`queue`](Self::queue), by a thread outside of the pools.
    pub(super) fn queue_from_outside(&mut self, item: ItemId, cpu: Option<u32>, here: u32) -> bool {
        let queue = self.plan.items[item].queue;
        let may_leave = self.config.has_long_items && self.queues[queue].kind == Kind::Managed;
        let other = if may_leave && cpu.is_none() { self.other_cpu(queue, here) } else { None };
        self.queue(item, cpu.or(other), here)
    }

    /// A CPU for an item that is better not run on `here`, whose pod is taken from now on: of a pod that is not, and has a CPU to spare if
    /// one has; of the same last-level cache if possible. `None`: there is none, or `here` shares its pod with other CPUs.
    fn other_cpu(&mut self, queue: QueueId, here: u32) -> Option<u32> {
        let Queue { kind, is_high, scope, .. } = self.queues[queue];
        let pod = self.machine.domains().pod(scope, here);
        if self.machine.domains().cpus(pod).len() > 1 {
            return None;
        }
        let home = self.pool(kind.pool_kind(here, scope, &self.machine), is_high);
        self.pools.set_taken(home, true);
        self.arm_sentinels(here);
        let find = |cpu| {
            let pool = self.pools.find(kind.pool_kind(cpu, scope, &self.machine), is_high);
            pool.map(|pool| &self.pools.list[pool])
        };
        let nr_cpus = self.machine.nr_cpus();
        let others = (1..nr_cpus).map(|step| (here + step) % nr_cpus);
        let others = others.filter(|&cpu| self.machine.is_online(cpu));
        // A pool that was not made yet has nothing to do.
        let free = others.filter(|&cpu| find(cpu).is_none_or(|pool| !pool.is_taken));
        let cache = self.machine.domains().pod(Scope::Cache, here);
        let (near, far): (Vec<_>, Vec<_>) =
            free.partition(|&cpu| self.machine.domains().has(cache, cpu));
        let is_spare = |&&cpu: &&u32| find(cpu).is_none_or(|pool| pool.core.has_spare_cpu());
        let spare = near.iter().chain(&far).find(is_spare);
        let next = if near.is_empty() { &far } else { &near };
        self.turn = self.turn.wrapping_add(1);
        spare.or_else(|| next.get(self.turn.checked_rem(next.len())?)).copied()
    }

    /// Who computed on `cpu` is elsewhere now. Whoever else computes there takes its pod again with the next item.
    pub(super) fn give_back(&mut self, queue: QueueId, cpu: u32) {
        let Queue { kind, is_high, scope, .. } = self.queues[queue];
        if let Some(pool) = self.pools.find(kind.pool_kind(cpu, scope, &self.machine), is_high)
            && self.pools.list[pool].is_taken
        {
            self.pools.set_taken(pool, false);
            self.call_if_wanted(pool);
        }
    }

    /// If nobody wants `cpu` its sentinel will get it, for whoever computed there.
    pub(super) fn arm_sentinels(&mut self, cpu: u32) {
        if !self.config.has_long_items || !self.machine.is_idle(cpu) {
            return;
        }
        let at = self.now + self.config.detect.blocked;
        let pods = self.machine.domains().of(cpu).iter();
        for &pool in pods.flat_map(|&pod| self.pools.managed_at(pod)) {
            if self.pools.list[pool].is_taken {
                self.agenda.add(at, Rank::Wake, Due::Sentinel(pool));
            }
        }
    }

    /// The sentinel of a taken pod's CPU has it: the pod may help others again, unless somebody was quicker.
    pub(super) fn end_taken(&mut self, pool: PoolNo) {
        let is_idle = self.machine.nr_idle(self.pools.list[pool].kind.place()) > 0;
        if is_idle && self.config.sabotage != Some(Sabotage::StayTaken) {
            self.pools.set_taken(pool, false);
            self.call_if_wanted(pool);
        }
    }
}
