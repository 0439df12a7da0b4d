//! Pools and queues of a run: which pool serves which queue where, and what shares a limit.

use std::collections::HashMap;

use cmwq_core::help::{self, Set};
use cmwq_core::place::{self, Belonging, Cpus, OwnCpus};
use cmwq_core::{LockFor, PoolConfig, PoolId};

use crate::board::Board;
use crate::config::{Config, Sabotage};
use crate::event::PoolNo;
use crate::grown::grown;
use crate::machine::{Machine, Place, WHOLE};
use crate::topology::Scope;

mod pool;
mod queue;

pub(crate) use pool::Pool;
pub(crate) use queue::{CpuPwq, Kind, Life, NodeLimit, Queue, flag_of, kind_of, managed_pod};

/// What a pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Pinned to a CPU.
    Cpu(u32),
    /// Runs bottom halves on a CPU.
    Bh(u32),
    /// Serves the pod that is this domain, every active item at once, for unbound and ordered
    /// queues with the usual attributes. Ordered queues have that of all CPUs.
    Unbound(u32),
    /// Serves a pod likewise, as many running workers as it has CPUs online.
    Managed(u32),
    /// Serves a pod for unbound and ordered queues with attributes that are not the usual ones. It
    /// is closed while there are none.
    Own {
        /// The pod, as far as it is among the queues' CPUs.
        domain: u32,
        /// The CPUs that its workers may use: those of the pod, or all of the queues'.
        cpus: u32,
        /// What they have in common.
        nice: u8,
        /// They stay in their pod.
        is_strict: bool,
    },
}

/// Whether the domain has all CPUs that managed queues use unasked.
fn is_whole(domain: u32, machine: &Machine) -> bool {
    let domains = machine.domains();
    domains.cpus(domain).len() >= domains.cpus(domains.managed()).len()
}

impl PoolKind {
    /// Where its workers may run.
    pub(crate) const fn place(self) -> Place {
        match self {
            Self::Cpu(cpu) | Self::Bh(cpu) => Place::Cpu(cpu),
            Self::Unbound(domain) | Self::Managed(domain) | Self::Own { domain, .. } => {
                Place::Domain(domain)
            }
        }
    }

    /// What it is to the core.
    pub(crate) const fn in_core(self) -> place::PoolKind {
        match self {
            Self::Cpu(_) => place::PoolKind::Percpu,
            Self::Bh(_) => place::PoolKind::Bh,
            Self::Managed(_) => place::PoolKind::Managed,
            Self::Unbound(_) | Self::Own { .. } => place::PoolKind::Unbound,
        }
    }

    /// Whether queues without attributes of their own may lead to it.
    pub(crate) const fn is_usual(self) -> bool {
        !matches!(self, Self::Own { .. })
    }

    /// CPUs online, of those where its workers belong.
    pub(crate) fn nr_online(self, machine: &Machine) -> u32 {
        match self.place() {
            Place::Cpu(cpu) => u32::from(machine.is_online(cpu)),
            Place::Domain(domain) => machine.domains().nr_online(domain),
        }
    }

    /// Of these, the ones that managed queues use unasked.
    fn nr_managed(self, machine: &Machine) -> u32 {
        match self.place() {
            Place::Cpu(cpu) => machine.domains().nr_managed(machine.domains().pod(Scope::Cpu, cpu)),
            Place::Domain(domain) => machine.domains().nr_managed(domain),
        }
    }

    /// Where its workers belong as things are, and how many of them may run at once. The machine
    /// itself sends a thread anywhere whose CPUs are all offline, and brings it back.
    pub(crate) fn belonging(self, machine: &Machine) -> Belonging {
        let own = OwnCpus { allowed: self.nr_online(machine), managed: self.nr_managed(machine) };
        Belonging::of(self.in_core(), self.has_others(machine), own, u32::MAX)
    }

    /// The CPUs that the core calls so. None is kept free of unbound queues.
    pub(crate) const fn which(self, cpus: Cpus, machine: &Machine) -> Place {
        match cpus {
            Cpus::Own => self.place(),
            Cpus::Managed => Place::Domain(machine.domains().managed()),
            Cpus::Unbound | Cpus::Allowed => Place::Domain(WHOLE),
        }
    }

    /// Whether it is a managed pod beside others, which have other CPUs.
    pub(crate) fn has_others(self, machine: &Machine) -> bool {
        matches!(self, Self::Managed(domain) if !is_whole(domain, machine))
    }

    /// The pod in which its workers begin, if they may leave it, and the CPUs that they may use. No
    /// thread has a deadline.
    pub(crate) fn pod_to_leave(self) -> Option<(u32, u32)> {
        let (pod, cpus) = match self {
            Self::Own { domain, cpus, .. } => (domain, cpus),
            _ => (self.domain()?, WHOLE),
        };
        self.in_core().may_leave_pod(pod == cpus, false).then_some((pod, cpus))
    }

    /// The pod that it serves, if it is not one CPU's.
    pub(crate) const fn domain(self) -> Option<u32> {
        match self.place() {
            Place::Domain(domain) => Some(domain),
            Place::Cpu(_) => None,
        }
    }

    // ---- what checkers expect, who do not ask the core

    /// How many of its items compute at once if enough of them wait.
    pub(crate) fn expected(self, machine: &Machine) -> u32 {
        match self {
            // By the context of its CPU.
            Self::Bh(_) => 1,
            Self::Cpu(cpu) if machine.is_online(cpu) => 1,
            Self::Cpu(_) | Self::Unbound(_) | Self::Own { .. } => u32::MAX,
            Self::Managed(_) if self.has_others(machine) => self.nr_online(machine).max(1),
            Self::Managed(_) => self.nr_managed(machine).max(1),
        }
    }

    /// Whether its workers may help other pods: it has a CPU that managed queues use unasked.
    pub(crate) fn could_help(self, machine: &Machine) -> bool {
        matches!(self, Self::Managed(_)) && self.nr_managed(machine) > 0
    }
}

/// All pools, made when they are first needed.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) list: Vec<Pool>,
    numbers: HashMap<(PoolKind, bool), PoolNo>,
    /// The managed pools of each domain.
    by_domain: Vec<Vec<PoolNo>>,
    /// The managed pools of normal and of high priority, which help each other.
    pub(crate) boards: [Board; 2],
    /// A rule that they do without.
    #[cfg(feature = "explore")]
    pub(crate) without: Option<cmwq_core::Rule>,
}

impl Pools {
    pub(crate) fn new(machine: &Machine) -> Self {
        let board = || Board::new(machine.domains());
        Self {
            list: Vec::new(),
            numbers: HashMap::new(),
            by_domain: Vec::new(),
            boards: [board(), board()],
            #[cfg(feature = "explore")]
            without: None,
        }
    }

    /// Queues lead to this managed pod, which has CPUs now or has none.
    pub(crate) fn open(&mut self, domain: u32, is_high: bool, is_open: bool) {
        let is_made = self.find(PoolKind::Managed(domain), is_high).is_some();
        self.boards[usize::from(is_high)].open(domain, is_open, is_made);
    }

    /// The pool of this kind, if it was made.
    pub(crate) fn find(&self, kind: PoolKind, is_high: bool) -> Option<PoolNo> {
        self.numbers.get(&(kind, is_high)).copied()
    }

    /// Makes the pool of this kind.
    pub(crate) fn make(
        &mut self,
        kind: PoolKind,
        is_high: bool,
        concurrency: u32,
        has_others: bool,
        config: &Config,
    ) -> PoolNo {
        let number = self.list.len();
        let id = PoolId(number as u32);
        let mut core = PoolConfig::of_kind(id, kind.in_core(), concurrency, has_others);
        core.idle_timeout = config.idle_timeout;
        core.create_cooldown = config.create_cooldown;
        core.batches = core.batches.map(|_| config.calm_claims);
        core.unbinds &= config.sabotage != Some(Sabotage::NeverUnbind);
        core.may_saturate = help::may_saturate(has_others, config.detect.tick.is_some());
        self.list.push(Pool::new(core, kind, is_high));
        #[cfg(feature = "explore")]
        if let Some(rule) = self.without {
            self.list[number].lock(LockFor::Counts).take_out(rule);
        }
        self.numbers.insert((kind, is_high), number);
        if let (PoolKind::Managed(_), Place::Domain(domain)) = (kind, kind.place()) {
            grown(&mut self.by_domain, domain as usize).push(number);
            self.post_entry(number);
        }
        number
    }

    /// Reuses an empty pool of other attributes as the pool of this kind.
    pub(crate) fn renew(&mut self, kind: PoolKind, is_high: bool) -> Option<PoolNo> {
        if !kind.in_core().is_renewed() {
            return None;
        }
        let closes = |kind: PoolKind| kind.in_core().closes(kind.is_usual());
        let mut pools = self.list.iter_mut();
        let number =
            pools.position(|pool| closes(pool.kind) && pool.lock(LockFor::Counts).renew())?;
        let pool = &mut self.list[number];
        self.numbers.remove(&(pool.kind, pool.is_high));
        (pool.kind, pool.is_high) = (kind, is_high);
        self.numbers.insert((kind, is_high), number);
        Some(number)
    }

    /// The managed pools whose workers may run on the CPUs of `domain`.
    pub(crate) fn managed_at(&self, domain: u32) -> &[PoolNo] {
        self.by_domain.get(domain as usize).map_or(&[], Vec::as_slice)
    }

    /// To be called when CPUs of the pool have left or come back.
    pub(crate) fn set_may_help(&mut self, pool: PoolNo, may_help: bool) {
        self.list[pool].may_help = may_help;
        self.post_entry(pool);
    }

    pub(crate) fn set_caller_computes(&mut self, pool: PoolNo, caller_computes: bool) {
        let entry = &mut self.list[pool];
        entry.caller_computes = caller_computes;
        if let PoolKind::Managed(domain) = entry.kind {
            self.boards[usize::from(entry.is_high)].put(
                Set::CallerComputes,
                domain,
                caller_computes,
            );
        }
        self.post_entry(pool);
    }

    /// To be called after each call of the pool's core: whether it can spare a CPU or wants help
    /// may have changed. `true`: it says since now that there is a backlog.
    #[inline]
    pub(crate) fn post_entry(&mut self, pool: PoolNo) -> bool {
        let it = &self.list[pool];
        let PoolKind::Managed(domain) = it.kind else { return false };
        let (board, entry) = (&mut self.boards[usize::from(it.is_high)], it.entry());
        let has_posted = entry.has(Set::Backlog) && !board.has(Set::Backlog, domain);
        board.post(domain, entry);
        has_posted
    }

    /// The sets of the board in which the pool is.
    pub(crate) fn sets(&self, pool: PoolNo) -> impl Iterator<Item = Set> {
        let it = &self.list[pool];
        let board = &self.boards[usize::from(it.is_high)];
        let is_in = move |set: &Set| match it.kind {
            PoolKind::Managed(domain) => board.has(*set, domain),
            _ => false,
        };
        Set::SUMMED.into_iter().filter(is_in)
    }

    /// Whether the board says of the pool what it would post now.
    pub(crate) fn has_posted(&self, pool: PoolNo) -> bool {
        let it = &self.list[pool];
        let PoolKind::Managed(_) = it.kind else { return true };
        let entry = it.entry();
        self.sets(pool).eq(Set::SUMMED.into_iter().filter(|set| entry.has(*set)))
    }
}
