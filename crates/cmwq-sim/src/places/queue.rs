//! Queues of a run, and what shares a limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cmwq_core::{FlushState, NodeSlots, NodeState, PwqConfig, PwqId, PwqRef, WqKey, consts};

use super::PoolKind;
use crate::by_pool::ByPool;
use crate::config::{Config, Sabotage};
use crate::event::{GroupNo, PoolNo};
use crate::machine::{Machine, WHOLE};
use crate::scenario::{Flag, QueueSpec};
use crate::topology::Scope;

/// What kind of pools a queue leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Percpu,
    Unbound,
    Managed,
    Ordered,
    Bh,
}

impl Kind {
    pub(crate) const fn of(spec: &QueueSpec) -> Self {
        if spec.flags.has(Flag::Bh) {
            Self::Bh
        } else if spec.flags.has(Flag::Ordered) {
            Self::Ordered
        } else if spec.flags.has(Flag::Managed) {
            Self::Managed
        } else if spec.flags.has(Flag::Unbound) {
            Self::Unbound
        } else {
            Self::Percpu
        }
    }

    /// Whether queues of this kind can have other attributes.
    pub(crate) const fn is_replaceable(self) -> bool {
        matches!(self, Self::Unbound | Self::Ordered)
    }

    /// The pool that serves callers on `cpu`.
    pub(crate) fn pool_kind(self, cpu: u32, scope: Scope, machine: &Machine) -> PoolKind {
        match self {
            Self::Percpu => PoolKind::Cpu(cpu),
            Self::Bh => PoolKind::Bh(cpu),
            Self::Unbound => PoolKind::Unbound(machine.domains().pod(scope, cpu)),
            Self::Managed => PoolKind::Managed(machine.domains().pod(scope, cpu)),
            Self::Ordered => PoolKind::Ordered,
        }
    }
}

/// A node's share of a queue's limit. Lock: LN.
#[derive(Debug)]
pub(crate) struct NodeLimit(Mutex<NodeState>);

impl NodeLimit {
    fn node(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the limit; whoever now has a slot is returned, one at a time.
    pub(crate) fn raise(&self, max: Option<u32>) -> Option<PwqRef> {
        let mut node = self.node();
        if let Some(max) = max {
            node.set_max(max);
        }
        node.next_granted()
    }
}

impl NodeSlots for NodeLimit {
    fn try_get(&self, who: PwqRef) -> bool {
        self.node().try_get(who)
    }

    fn may_keep(&self, is_waiting: bool, kept: u32) -> bool {
        self.node().may_keep(is_waiting, kept)
    }

    fn put(&self) -> Option<PwqRef> {
        self.node().put()
    }

    fn leave(&self, who: PwqRef) -> bool {
        self.node().leave(who)
    }
}

/// A queue's way into one pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) pool: PoolNo,
    pub(crate) pwq: PwqId,
    pub(crate) group: GroupNo,
    /// Its own limit, unless pools of a node share one.
    pub(crate) limit: u32,
    /// They do.
    pub(crate) is_shared: bool,
    /// Another one has taken its place; it works off what it has.
    pub(crate) is_retired: bool,
}

/// A limit that several pools of a node share.
#[derive(Debug)]
pub(crate) struct SharedLimit {
    pub(crate) node: u32,
    pub(crate) limit: u32,
    pub(crate) group: GroupNo,
    pub(crate) slots: Arc<NodeLimit>,
}

/// Whether a queue is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Open,
    /// It is being drained, for this owner if for one.
    Dropping(Option<usize>),
    Gone,
}

/// A queue of the run.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) life: Life,
    /// See [`Op::SetAttrs`](crate::plan::Op::SetAttrs).
    pub(crate) nice: u8,
    /// Pwqs of other pools take the place of older ones, so those of one node share its limit.
    pub(crate) moves: bool,
    pub(crate) key: WqKey,
    pub(crate) kind: Kind,
    pub(crate) is_high: bool,
    pub(crate) scope: Scope,
    is_intensive: bool,
    has_rescuer: bool,
    pub(crate) max_active: u32,
    pub(crate) links: Vec<Link>,
    /// Which of `links`.
    by_pool: ByPool<u32>,
    pub(crate) shared: Vec<SharedLimit>,
    pub(crate) flush: FlushState<usize>,
    pub(crate) nr_pwqs_to_flush: u32,
}

impl Queue {
    pub(crate) fn new(number: usize, spec: &QueueSpec, config: &Config) -> Self {
        let kind = Kind::of(spec);
        let asked = if spec.max_active == 0 { consts::WQ_DFL_ACTIVE } else { spec.max_active };
        let max_active = match kind {
            Kind::Bh => u32::MAX,
            Kind::Ordered if config.sabotage == Some(Sabotage::UnorderOrdered) => 2,
            Kind::Ordered => 1,
            _ => asked,
        };
        Self {
            life: Life::Open,
            nice: 0,
            moves: false,
            key: WqKey(number as u32),
            kind,
            is_high: spec.flags.has(Flag::Highpri),
            scope: spec.scope.unwrap_or(config.scope),
            is_intensive: spec.flags.has(Flag::CpuIntensive),
            has_rescuer: spec.flags.has(Flag::MemReclaim),
            max_active,
            links: Vec::new(),
            by_pool: ByPool::default(),
            shared: Vec::new(),
            flush: FlushState::new(),
            nr_pwqs_to_flush: 0,
        }
    }

    pub(crate) const fn is_intensive(&self) -> bool {
        self.is_intensive
    }

    /// The way into `pool`, if it was made.
    #[inline]
    pub(crate) fn link(&self, pool: PoolNo) -> Option<Link> {
        self.by_pool.get(pool).map(|index| self.links[index as usize])
    }

    /// The link of a pwq, retired or not.
    #[inline]
    pub(crate) fn link_at(&self, pool: PoolNo, pwq: PwqId) -> Option<Link> {
        let is_it = |link: &Link| link.pool == pool && link.pwq == pwq;
        self.link(pool).filter(is_it).or_else(|| self.links.iter().copied().find(is_it))
    }

    pub(crate) fn add_link(&mut self, link: Link) {
        *self.by_pool.entry(link.pool, 0) = self.links.len() as u32;
        self.links.push(link);
    }

    /// Nothing is led this way any more.
    pub(crate) fn retire_link(&mut self, retired: Link) {
        let is_it = |link: &&mut Link| link.pool == retired.pool && link.pwq == retired.pwq;
        self.links.iter_mut().filter(is_it).for_each(|link| link.is_retired = true);
        self.index_links();
    }

    pub(crate) fn remove_link(&mut self, pool: PoolNo, pwq: PwqId) {
        self.links.retain(|link| link.pool != pool || link.pwq != pwq);
        self.index_links();
    }

    fn index_links(&mut self) {
        self.by_pool = ByPool::default();
        for (index, link) in self.links.iter().enumerate().filter(|(_, link)| !link.is_retired) {
            *self.by_pool.entry(link.pool, 0) = index as u32;
        }
    }

    /// The kind of pool that serves callers on `cpu`.
    pub(crate) fn pool_kind(&self, cpu: u32, machine: &Machine) -> PoolKind {
        match self.kind.pool_kind(cpu, self.scope, machine) {
            PoolKind::Unbound(domain) if self.nice != 0 => {
                PoolKind::Own { domain, nice: self.nice }
            }
            PoolKind::Ordered if self.nice != 0 => PoolKind::Own { domain: WHOLE, nice: self.nice },
            kind => kind,
        }
    }

    /// As new.
    pub(crate) fn renew(&mut self, spec: &QueueSpec, config: &Config) {
        let new = Self::new(self.key.0 as usize, spec, config);
        let (moves, flush) = (self.moves, std::mem::take(&mut self.flush));
        *self = Self { moves, flush, ..new };
    }

    pub(crate) fn pwq_config(&self, max_active: u32, slots: Option<Arc<NodeLimit>>) -> PwqConfig {
        PwqConfig {
            wq: self.key,
            max_active: if slots.is_some() { u32::MAX } else { max_active },
            node: slots.map(|slots| slots as Arc<dyn NodeSlots>),
            cpu_intensive: self.is_intensive,
            rescuer: self.has_rescuer,
            work_color: self.flush.work_color(),
        }
    }

    /// The node of a pool, if the queue's limit is split over nodes and the pool lies within one.
    pub(crate) fn node_of(&self, pool: PoolKind, machine: &Machine) -> Option<u32> {
        match pool {
            PoolKind::Unbound(domain)
            | PoolKind::Managed(domain)
            | PoolKind::Own { domain, .. } => machine.domains().node_of(domain),
            _ => None,
        }
    }

    /// Whether pools of one node share the node's part of the limit.
    pub(crate) fn shares_nodes(&self, machine: &Machine) -> bool {
        self.moves || machine.domains().is_shared(self.scope)
    }

    /// What `node` may run of this queue's `max_active`.
    pub(crate) fn share(&self, node: Option<u32>, machine: &Machine) -> u32 {
        let Some(node) = node else { return self.max_active };
        let (cpus, total) = machine.domains().node_cpus(node);
        let min_active = self.max_active.min(consts::WQ_DFL_MIN_ACTIVE);
        NodeState::share(self.max_active, min_active, cpus, total)
    }

    /// A shared limit for `node`, which is `limit`, or `max` if the driver is sabotaged.
    pub(crate) fn new_shared(node: u32, group: GroupNo, limit: u32, max: u32) -> SharedLimit {
        SharedLimit {
            node,
            limit,
            group,
            slots: Arc::new(NodeLimit(Mutex::new(NodeState::new(max)))),
        }
    }
}
