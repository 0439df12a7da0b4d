//! Pools and queues of a run: which pool serves which queue where, and what shares a limit.

use std::collections::HashMap;

use cmwq_core::help::board::Entry;
use cmwq_core::help::{Facts, Set};
use cmwq_core::{MaydayTimer, PoolConfig, PoolId, PoolState, place};

use crate::Nanos;
use crate::board::Board;
use crate::config::{Config, Sabotage};
use crate::event::PoolNo;
use crate::machine::{Machine, Place, Tid, WHOLE};

mod queue;

pub(crate) use queue::{Kind, Life, Link, NodeLimit, Queue};

/// What a pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// Pinned to a CPU.
    Cpu(u32),
    /// Runs bottom halves on a CPU.
    Bh(u32),
    /// Serves the pod that is this domain, every active item at once.
    Unbound(u32),
    /// Serves a pod likewise, as many running workers as it has CPUs online.
    Managed(u32),
    /// Serves ordered queues, anywhere.
    Ordered,
    /// Serves a pod for unbound and ordered queues with attributes that are not the usual ones. It
    /// is closed while there are none.
    Own {
        /// The pod.
        domain: u32,
        /// What they have in common.
        nice: u8,
    },
}

impl PoolKind {
    /// Where its workers may run.
    pub(crate) const fn place(self) -> Place {
        match self {
            Self::Cpu(cpu) | Self::Bh(cpu) => Place::Cpu(cpu),
            Self::Unbound(domain) | Self::Managed(domain) | Self::Own { domain, .. } => {
                Place::Domain(domain)
            }
            Self::Ordered => Place::Domain(WHOLE),
        }
    }

    /// What it is to the core.
    pub(crate) const fn in_core(self) -> place::PoolKind {
        match self {
            Self::Cpu(_) => place::PoolKind::Percpu,
            Self::Bh(_) => place::PoolKind::Bh,
            Self::Managed(_) => place::PoolKind::Managed,
            Self::Unbound(_) | Self::Ordered | Self::Own { .. } => place::PoolKind::Unbound,
        }
    }

    /// CPUs online, of those where its workers belong.
    pub(crate) fn nr_online(self, machine: &Machine) -> u32 {
        match self.place() {
            Place::Cpu(cpu) => u32::from(machine.is_online(cpu)),
            Place::Domain(domain) => machine.domains().nr_online(domain),
        }
    }

    /// How many of its workers may run at once as things are.
    pub(crate) fn concurrency(self, machine: &Machine) -> u32 {
        place::concurrency(self.in_core(), self.nr_online(machine), u32::MAX)
    }

    /// How many of its items compute at once if enough of them wait: what checkers expect.
    pub(crate) fn expected(self, machine: &Machine) -> u32 {
        match self {
            // By the context of its CPU.
            Self::Bh(_) => 1,
            _ => self.concurrency(machine),
        }
    }
}

/// A pool and the driver's books about it.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) core: PoolState,
    pub(crate) kind: PoolKind,
    pub(crate) is_high: bool,
    /// The threads of its own workers, by worker id.
    pub(crate) threads: Vec<Option<Tid>>,
    /// Work waits that may not start now, and detectors know.
    pub(crate) is_watched: bool,
    /// Workers that serve another pod: they are watched, too, because one that blocks leaves a CPU
    /// to spare.
    pub(crate) nr_lent: u32,
    /// A BH pool's context.
    pub(crate) context: Option<usize>,
    /// None of its CPUs is online: it helps nobody.
    pub(crate) is_disassociated: bool,
    /// A thread outside of the pools computes on its CPU, as far as anybody knows who would be told
    /// if not.
    pub(crate) is_taken: bool,
    /// On the tick's list.
    pub(crate) is_ticking: bool,
    pub(crate) cull_planned: Option<Nanos>,
    pub(crate) mayday: MaydayTimer,
    /// Calls of the core since its invariants were last checked.
    pub(crate) calls_unchecked: u32,
    /// Items on its lists, and pwqs: what a check of its invariants walks.
    pub(crate) nr_listed: u32,
}

impl Pool {
    pub(crate) fn thread(&self, id: cmwq_core::WorkerId) -> Option<Tid> {
        self.threads.get(id.0 as usize).copied().flatten()
    }

    pub(crate) fn set_thread(&mut self, id: cmwq_core::WorkerId, tid: Option<Tid>) {
        let index = id.0 as usize;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, None);
        }
        self.threads[index] = tid;
    }

    /// Whether a worker of another pool may take an item: one waits that this pool must not start
    /// itself.
    pub(crate) fn wants_help(&self) -> bool {
        self.core.work_waits() && self.core.is_at_capacity()
    }

    /// What it says on the board.
    fn entry(&self) -> Entry {
        let facts = Facts {
            work_waits: self.core.work_waits(),
            is_at_capacity: self.core.is_at_capacity(),
            has_short_items: false,
            is_saturated: false,
            is_called: false,
            is_closed: self.is_disassociated,
            is_taken: self.is_taken,
            is_watched: self.is_watched,
        };
        facts.entry()
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
}

impl Pools {
    pub(crate) fn new(machine: &Machine) -> Self {
        let board = || Board::new(machine.domains());
        Self {
            list: Vec::new(),
            numbers: HashMap::new(),
            by_domain: Vec::new(),
            boards: [board(), board()],
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
        config: &Config,
    ) -> PoolNo {
        let number = self.list.len();
        let mut core = PoolConfig::new(PoolId(number as u32), concurrency);
        core.idle_timeout = config.idle_timeout;
        core.create_cooldown = config.create_cooldown;
        core.bh = matches!(kind, PoolKind::Bh(_));
        core.unbinds =
            matches!(kind, PoolKind::Managed(_)) && config.sabotage != Some(Sabotage::NeverUnbind);
        self.list.push(Pool {
            core: PoolState::new(core),
            kind,
            is_high,
            threads: Vec::new(),
            is_watched: false,
            nr_lent: 0,
            context: None,
            is_disassociated: false,
            is_taken: false,
            is_ticking: false,
            cull_planned: None,
            mayday: MaydayTimer::default(),
            calls_unchecked: 0,
            nr_listed: 0,
        });
        self.numbers.insert((kind, is_high), number);
        if let (PoolKind::Managed(_), Place::Domain(domain)) = (kind, kind.place()) {
            let domain = domain as usize;
            if self.by_domain.len() <= domain {
                self.by_domain.resize(domain + 1, Vec::new());
            }
            self.by_domain[domain].push(number);
            self.refresh(number);
        }
        number
    }

    /// Makes a pool of other attributes, which nothing is left in, the one of this kind.
    pub(crate) fn renew(&mut self, kind: PoolKind, is_high: bool) -> Option<PoolNo> {
        let is_own = |kind: PoolKind| matches!(kind, PoolKind::Own { .. });
        if !is_own(kind) {
            return None;
        }
        let mut pools = self.list.iter_mut();
        let number = pools.position(|pool| is_own(pool.kind) && pool.core.renew())?;
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
    pub(crate) fn set_disassociated(&mut self, pool: PoolNo, is_disassociated: bool) {
        self.list[pool].is_disassociated = is_disassociated;
        self.refresh(pool);
    }

    pub(crate) fn set_taken(&mut self, pool: PoolNo, is_taken: bool) {
        let entry = &mut self.list[pool];
        entry.is_taken = is_taken;
        if let PoolKind::Managed(domain) = entry.kind {
            self.boards[usize::from(entry.is_high)].put(Set::Taken, domain, is_taken);
        }
        self.refresh(pool);
    }

    /// To be called after each call of the pool's core: whether it can spare a CPU or wants help
    /// may have changed.
    #[inline]
    pub(crate) fn refresh(&mut self, pool: PoolNo) {
        let entry = &self.list[pool];
        if let PoolKind::Managed(domain) = entry.kind {
            self.boards[usize::from(entry.is_high)].post(domain, entry.entry());
        }
    }
}
