//! CPUs leave and come back: what that means for pools and limits.
//!
//! The machine moves the threads (`machine::hotplug`). Here the pools learn of it: one whose CPU
//! has left is disassociated, so its workers, wherever they run now, start everything at once; a
//! managed pod has as many CPUs as are online, and if that is none, one of its workers runs
//! elsewhere. The pods of unbound queues are cut anew, from the CPUs that are online, and the
//! queues led to these. And `max_active` is split anew over the nodes, by the CPUs they have left.

use super::{Due, Engine};
use crate::Nanos;
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::machine::WHOLE;
use crate::places::{PoolKind, managed_pod};
use crate::rng::Rng;
use crate::topology::Scope;
use cmwq_core::LockFor;

/// So many CPUs leave at the usual pace while no call comes and no item ends.
const LEAVES_IN_VAIN: u32 = 100;

/// What decides when CPUs leave.
#[derive(Debug)]
pub(super) struct Storm {
    /// Its own, so that a storm does not change other random choices.
    rng: Rng,
    /// Calls to come, owners and items that are left, at the last change of these.
    left: (usize, usize, usize),
    /// CPUs that have left since, or tried to.
    in_vain: u32,
}

impl Storm {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed).fork(3), left: (0, 0, 0), in_vain: 0 }
    }

    /// The longest time until the next CPU leaves. `gap`: the average at the usual pace. The time
    /// doubles again and again while all threads wait for a timer of two minutes, say; otherwise
    /// millions would leave.
    fn gap(&mut self, gap: Nanos, left: (usize, usize, usize)) -> Nanos {
        self.in_vain = if self.left == left { self.in_vain + 1 } else { 0 };
        self.left = left;
        let doublings = self.in_vain.saturating_sub(LEAVES_IN_VAIN).min(62);
        gap.saturating_mul(2).saturating_mul(1 << doublings).max(1)
    }
}

impl Engine<'_> {
    pub(super) fn plan_hotplug(&mut self) {
        if let Some(hotplug) = self.config.hotplug {
            let left = (self.calls_left, self.owners_left, self.outstanding);
            let gap = self.storm.gap(hotplug.gap, left);
            let at = self.now.saturating_add(self.storm.rng.between(1, gap));
            self.agenda.add(at, Rank::Wake, Due::CpuLeaves);
        }
    }

    /// Lets some CPU leave, unless too many have left already, or the run is quiet.
    pub(super) fn some_cpu_leaves(&mut self) {
        let Some(hotplug) = self.config.hotplug.filter(|_| !self.is_quiet()) else { return };
        self.plan_hotplug();
        let (all, online) = (self.machine.nr_cpus(), self.machine.nr_online());
        let cpu = self.storm.rng.below(u64::from(all)) as u32;
        let away = self.storm.rng.between(1, hotplug.away.max(1));
        if all - online < hotplug.at_most && self.cpu_leaves(cpu) {
            self.agenda.add(self.now + away, Rank::Wake, Due::CpuReturns(cpu));
        }
    }

    /// `false`: the CPU is the last one, or has left already.
    pub(super) fn cpu_leaves(&mut self, cpu: u32) -> bool {
        let domains = self.machine.domains();
        let is_last = |domain| domains.nr_online(domain) == 1 && domains.has(domain, cpu);
        // Nor the last one that is not isolated: then isolated ones would be used, too.
        if is_last(WHOLE) || is_last(domains.managed()) || !self.machine.is_online(cpu) {
            return false;
        }
        self.machine.take_down(cpu, self.now);
        self.note(What::CpuLeft(cpu));
        self.cpus_changed(cpu, self.config.sabotage == Some(Sabotage::IgnoreLeave));
        true
    }

    pub(super) fn cpu_returns(&mut self, cpu: u32) {
        if self.machine.is_online(cpu) {
            return;
        }
        let strands = self.config.sabotage == Some(Sabotage::Strand);
        self.machine.bring_up(cpu, self.now, !strands);
        self.note(What::CpuReturned(cpu));
        self.cpus_changed(cpu, self.config.sabotage == Some(Sabotage::IgnoreReturn));
    }

    /// Tells pools, queues and limits. `silently`: a sabotaged driver does not tell the pools.
    fn cpus_changed(&mut self, cpu: u32, silently: bool) {
        let nr_writes = self.pools.boards.each_ref().map(|board| board.cost().1);
        if !silently {
            self.open_pods_of(cpu);
        }
        let own = [PoolKind::Cpu(cpu), PoolKind::Bh(cpu)].into_iter();
        let pods = Scope::ALL.map(|(scope, _)| managed_pod(cpu, scope, &self.machine));
        // Several scopes may have the same pod: then its pool is told twice, which does no harm.
        let managed = pods.into_iter().map(PoolKind::Managed);
        for kind in own.chain(managed) {
            for is_high in [false, true] {
                if let Some(pool) = self.pools.find(kind, is_high) {
                    self.cpus_of_pool_changed(pool, silently);
                }
            }
        }
        for (board, nr_writes) in self.pools.boards.iter().zip(nr_writes) {
            board.set_writes(nr_writes);
        }
        (0..self.queues.len()).for_each(|queue| self.follow_pods(queue));
        if self.machine.domains().nr_nodes() > 1 {
            (0..self.queues.len()).for_each(|queue| self.follow_cpus(queue));
        }
    }

    fn cpus_of_pool_changed(&mut self, pool: PoolNo, silently: bool) {
        let kind = self.pools.list[pool].kind;
        let belonging = kind.belonging(&self.machine);
        self.pools.set_may_help(pool, belonging.may_help());
        let expected = kind.expected(&self.machine);
        if self.gauges[pool].concurrency != expected {
            self.gauges[pool].concurrency = expected;
            self.checkers.touch(pool);
        }
        let known = self.pools.list[pool].read().config().concurrency;
        if silently || known == belonging.concurrency {
            return;
        }
        let kick = self.pools.list[pool].lock(LockFor::Find).set_concurrency(belonging.concurrency);
        self.kick(pool, kick);
    }

    /// The CPU of callers that are no workers: an isolated one, if there are any.
    pub(super) fn caller_cpu(&self) -> u32 {
        self.machine.online_from(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_calms_down_while_everybody_waits_for_a_timer() {
        let mut storm = Storm::new(1);
        let minutes = |storm: &mut Storm, left| {
            let (mut now, mut leaves) = (0_u64, 0);
            while now < 120_000_000_000 {
                now = now.saturating_add(storm.gap(10_000, left));
                leaves += 1;
            }
            leaves
        };
        let leaves = minutes(&mut storm, (0, 1, 1));
        assert!((LEAVES_IN_VAIN..LEAVES_IN_VAIN + 40).contains(&leaves), "{leaves}");
        assert_eq!(storm.gap(10_000, (0, 1, 0)), 20_000, "an item has ended");
        let leaves = minutes(&mut storm, (0, 1, 0));
        assert!(leaves > LEAVES_IN_VAIN, "{leaves}");
    }
}
