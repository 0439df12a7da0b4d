//! Threads outside of the pools that queue long items: where those go, and when the pods of threads
//! that compute are called.
//!
//! The real runtime's `caller_computes` learns by samples that items are long and which callers
//! compute: here [`Config::has_long_items`](crate::Config::has_long_items) says so, and
//! [`Config::callers_wait`](crate::Config::callers_wait) that none does. A pod
//! is marked with `caller_computes` until its CPU is idle. The CPU's sentinel reports that, as late
//! as it reports a blocked worker.

use cmwq_core::help::{Instead, Length, Queuer, collects, instead_of};

use super::{Due, Engine};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::PoolNo;
use crate::places::Queue;
use crate::plan::{Attrs, ItemId, QueueId};

impl Engine<'_> {
    /// As [`queue`](Self::queue), by a thread outside of the pools.
    pub(super) fn queue_from_outside(&mut self, item: ItemId, cpu: Option<u32>, here: u32) -> bool {
        if !self.lets_in(item, None) {
            return false;
        }
        let queue = self.plan.items[item].queue;
        let Queue { kind, attrs: Attrs { scope, .. }, .. } = self.queues[queue];
        let queuer = Queuer { is_worker: false };
        let usual = self.stand_in(queue, here, false);
        let usual_pool = self.queues[queue].pool_kind(usual, &self.machine);
        let has_others = usual_pool.has_others(&self.machine);
        // No CPU's sentinel tells of a pod that has several.
        let domains = self.machine.domains();
        let is_told = domains.cpus(domains.pod(scope, usual)).len() == 1;
        let may_leave = self.config.has_long_items && kind.may_leave(cpu.is_some());
        let lets_go = may_leave && queuer.lets_go(has_others, is_told);
        let is_here = usual == here;
        let other = match lets_go {
            true if queuer.takes_cpu(!self.config.callers_wait, is_here) => {
                self.other_cpu(queue, usual)
            }
            true => self.cpu_of_backlog(queue, usual),
            false => None,
        };
        self.queue(item, cpu.or(other), here)
    }

    /// The CPU of a caller that queues an item: the scheduler moves those that wait.
    pub(super) fn queuer_cpu(&mut self) -> u32 {
        if !self.config.callers_wait {
            return self.caller_cpu();
        }
        self.turn = self.turn.wrapping_add(1);
        self.machine.online_from((self.turn % self.machine.nr_cpus() as usize) as u32)
    }

    /// A CPU of another pod whose backlog an item joins whose caller waits on `here`.
    fn cpu_of_backlog(&mut self, queue: QueueId, here: u32) -> Option<u32> {
        let Queue { is_high, attrs: Attrs { scope, .. }, .. } = self.queues[queue];
        let pod = self.machine.domains().pod(scope, here);
        let board = &self.pools.boards[usize::from(is_high)];
        let joined = collects(board, pod as usize, Length::VeryLong)?;
        Some(self.machine.domains().cpus(joined as u32).start)
    }

    /// Another CPU for an item whose caller computes on `here`; marks the pod of `here`. `None`:
    /// there is none.
    fn other_cpu(&mut self, queue: QueueId, here: u32) -> Option<u32> {
        let it = &self.queues[queue];
        let is_high = it.is_high;
        let pod = self.machine.domains().pod(it.attrs.scope, here);
        let home = self.pool(it.pool_kind(here, &self.machine), is_high);
        self.pools.set_caller_computes(home, true);
        self.arm_sentinels(here);
        self.turn = self.turn.wrapping_add(1);
        let board = &self.pools.boards[usize::from(is_high)];
        match instead_of(board, pod as usize, self.turn) {
            Instead::Pod(other) => Some(self.machine.domains().cpus(other as u32).start),
            Instead::Home(computed_on) => {
                if let Some(pod) = computed_on {
                    self.arm_sentinels(self.machine.domains().cpus(pod as u32).start);
                }
                None
            }
        }
    }

    /// The caller that computed on `cpu` has moved: removes the mark of its pod. Another caller
    /// that computes there marks the pod again with its next item.
    pub(super) fn give_back(&mut self, queue: QueueId, cpu: u32) {
        let it = &self.queues[queue];
        if let Some(pool) = self.pools.find(it.pool_kind(cpu, &self.machine), it.is_high)
            && self.pools.list[pool].caller_computes
        {
            self.pools.set_caller_computes(pool, false);
        }
    }

    /// If `cpu` is idle, its sentinel will run, and end `caller_computes` of the CPU's pods.
    pub(super) fn arm_sentinels(&mut self, cpu: u32) {
        if !self.config.has_long_items || !self.machine.is_idle(cpu) {
            return;
        }
        let at = self.now + self.config.detect.blocked;
        let pods = self.machine.domains().of(cpu).iter();
        for &pool in pods.flat_map(|&pod| self.pools.managed_at(pod)) {
            if self.pools.list[pool].caller_computes {
                self.agenda.add(at, Rank::Wake, Due::Sentinel(pool));
            }
        }
    }

    /// The sentinel of the pod's CPU runs: no caller computes there any more, and the pod may help
    /// others again, unless another thread was quicker.
    pub(super) fn end_caller_computes(&mut self, pool: PoolNo) {
        let is_idle = self.machine.nr_idle(self.pools.list[pool].kind.place()) > 0;
        if is_idle && self.config.sabotage != Some(Sabotage::StayTaken) {
            self.pools.set_caller_computes(pool, false);
            if self.pools.list[pool].is_watched {
                self.alarm(pool);
            }
        }
    }

    /// Wakes the standby, which looks for work in other pods if there is none here.
    fn alarm(&mut self, pool: PoolNo) {
        if let Some(id) = self.pools.list[pool].read().standby() {
            self.unpark_worker(pool, id);
        }
    }
}
