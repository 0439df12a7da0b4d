//! CPUs leave and come back: what that means for pools and limits.
//!
//! The machine moves the threads (`machine::hotplug`). Here the pools learn of it: one whose CPU has
//! left is disassociated, so its workers, wherever they run now, start everything at once; a managed
//! pod has as many CPUs as are online, and if that is none, its items wait for guests from other pods.
//! And `max_active` is split anew over the nodes, by the CPUs they have left.

use cmwq_core::policy::UNMANAGED;

use super::{Due, Engine};
use crate::agenda::Rank;
use crate::config::Sabotage;
use crate::event::{PoolNo, What};
use crate::places::PoolKind;
use crate::rng::Rng;
use crate::topology::Scope;

impl Engine<'_> {
    pub(super) fn plan_hotplug(&mut self) {
        if let Some(hotplug) = self.config.hotplug {
            let at = self.now + self.hotplug_rng.between(1, hotplug.gap.saturating_mul(2).max(1));
            self.agenda.add(at, Rank::Wake, Due::CpuLeaves);
        }
    }

    /// Randomness of its own: a storm does not change what else is left to chance.
    pub(super) fn hotplug_rng(seed: u64) -> Rng {
        Rng::new(seed).fork(3)
    }

    /// Time for some CPU to leave, unless too many have left already, or nobody would notice.
    pub(super) fn some_cpu_leaves(&mut self) {
        let Some(hotplug) = self.config.hotplug.filter(|_| !self.is_quiet()) else { return };
        self.plan_hotplug();
        let (all, online) = (self.machine.nr_cpus(), self.machine.nr_online());
        let cpu = self.hotplug_rng.below(u64::from(all)) as u32;
        let away = self.hotplug_rng.between(1, hotplug.away.max(1));
        if all - online < hotplug.at_most && self.cpu_leaves(cpu) {
            self.agenda.add(self.now + away, Rank::Wake, Due::CpuReturns(cpu));
        }
    }

    /// `false`: it stays, because it is the last one, or it has left already.
    pub(super) fn cpu_leaves(&mut self, cpu: u32) -> bool {
        if self.machine.nr_online() == 1 || !self.machine.is_online(cpu) {
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

    /// Tells pools and limits. `silently`: a sabotaged driver does not tell the pools.
    fn cpus_changed(&mut self, cpu: u32, silently: bool) {
        let own = [PoolKind::Cpu(cpu), PoolKind::Bh(cpu)].into_iter();
        let pods = Scope::ALL.map(|(scope, _)| self.machine.domains().pod(scope, cpu));
        // Several scopes may have the same pod; a pool that is told twice does not mind.
        let managed = pods.into_iter().map(PoolKind::Managed);
        for kind in own.chain(managed) {
            for is_high in [false, true] {
                if let Some(pool) = self.pools.find(kind, is_high) {
                    self.concurrency_changed(pool, silently);
                }
            }
        }
        if self.machine.domains().nr_nodes() > 1
            && self.config.sabotage != Some(Sabotage::ForgetNodes)
        {
            for queue in 0..self.queues.len() {
                self.split_limit(queue, true);
            }
        }
    }

    fn concurrency_changed(&mut self, pool: PoolNo, silently: bool) {
        let concurrency = self.concurrency(self.pools.list[pool].kind);
        if self.gauges[pool].concurrency == concurrency {
            return;
        }
        self.gauges[pool].concurrency = concurrency;
        self.watchers.touch(pool);
        if silently {
            return;
        }
        let kick = self.pools.list[pool].core.set_concurrency(concurrency);
        self.kick(pool, kick);
        self.see_to_help(pool);
    }

    /// The concurrency of a pool as things are.
    pub(super) fn concurrency(&self, kind: PoolKind) -> u32 {
        match kind.concurrency(&self.machine) {
            // Without guests its own workers have to do it, elsewhere.
            0 if !self.config.lending => UNMANAGED,
            concurrency => concurrency,
        }
    }

    /// A pod without CPUs needs another one that can send guests.
    pub(super) fn see_to_help(&mut self, pool: PoolNo) {
        let (kind, is_high) = (self.pools.list[pool].kind, self.pools.list[pool].is_high);
        if let PoolKind::Managed(domain) = kind
            && self.gauges[pool].concurrency == 0
        {
            let first = self.machine.domains().cpus(domain).start;
            let online = self.machine.online_from(first);
            let helper = self.machine.domains().pod(self.config.scope, online);
            self.pool(PoolKind::Managed(helper), is_high);
        }
    }

    /// Where callers that are no workers run.
    pub(super) fn caller_cpu(&self) -> u32 {
        self.machine.online_from(0)
    }
}
