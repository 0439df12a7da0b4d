//! Pools and queues of a run: which pool serves which queue where, and what shares a limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cmwq_core::policy::UNMANAGED;
use cmwq_core::{
    FlushState, NodeSlots, NodeState, PoolConfig, PoolId, PoolState, PwqConfig, PwqId, PwqRef,
    WqKey, consts,
};

use crate::Nanos;
use crate::bitset::BitSet;
use crate::by_pool::ByPool;
use crate::config::{Config, Sabotage};
use crate::event::{GroupNo, PoolNo};
use crate::machine::{Machine, Place, Tid, WHOLE};
use crate::scenario::{Flag, QueueSpec};
use crate::topology::Scope;

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
}

impl PoolKind {
    /// Where its workers may run.
    pub(crate) const fn place(self) -> Place {
        match self {
            Self::Cpu(cpu) | Self::Bh(cpu) => Place::Cpu(cpu),
            Self::Unbound(domain) | Self::Managed(domain) => Place::Domain(domain),
            Self::Ordered => Place::Domain(WHOLE),
        }
    }

    /// How many of its workers may run at once as things are. A pool whose CPU is offline is
    /// disassociated: its workers run wherever they can, all at once, as those of unbound pools do. The
    /// items of a managed pool without CPUs are left to guests.
    pub(crate) fn concurrency(self, machine: &Machine) -> u32 {
        match self {
            Self::Cpu(cpu) if machine.is_online(cpu) => 1,
            // Bottom halves of a CPU that has left are run one at a time, elsewhere.
            Self::Bh(_) => 1,
            Self::Managed(domain) => machine.domains().nr_online(domain),
            Self::Cpu(_) | Self::Unbound(_) | Self::Ordered => UNMANAGED,
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
    /// Workers that serve another pod: they are watched, too, because one that blocks leaves a CPU to spare.
    pub(crate) nr_lent: u32,
    /// A thread outside of the pools computes on its CPU, as far as anybody knows who would be told if not.
    pub(crate) is_taken: bool,
    /// The tick's interval, while it ticks.
    pub(crate) tick: Option<Nanos>,
    pub(crate) cull_planned: Option<Nanos>,
    pub(crate) is_mayday_planned: bool,
    /// Calls of the core since its invariants were last checked.
    pub(crate) calls_unchecked: u32,
    /// Its place among the managed pools of its priority, if it is one.
    pub(crate) rank: usize,
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
        self.core.work_waits() && self.core.nr_running() >= self.core.config().concurrency
    }
}

/// All pools, made when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pub(crate) list: Vec<Pool>,
    numbers: HashMap<(PoolKind, bool), PoolNo>,
    /// The managed pools of each domain.
    by_domain: Vec<Vec<PoolNo>>,
    /// The managed pools of normal and of high priority, which help each other.
    pub(crate) managed: [Vec<PoolNo>; 2],
    /// Of those, by rank, the ones that have a CPU to spare and are not taken, and the ones that want help.
    pub(crate) spare: [BitSet; 2],
    pub(crate) wanting: [BitSet; 2],
}

impl Pools {
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
        self.list.push(Pool {
            core: PoolState::new(core),
            kind,
            is_high,
            threads: Vec::new(),
            is_watched: false,
            nr_lent: 0,
            is_taken: false,
            tick: None,
            cull_planned: None,
            is_mayday_planned: false,
            calls_unchecked: 0,
            rank: self.managed[usize::from(is_high)].len(),
            nr_listed: 0,
        });
        self.numbers.insert((kind, is_high), number);
        if let (PoolKind::Managed(_), Place::Domain(domain)) = (kind, kind.place()) {
            let domain = domain as usize;
            if self.by_domain.len() <= domain {
                self.by_domain.resize(domain + 1, Vec::new());
            }
            self.by_domain[domain].push(number);
            self.managed[usize::from(is_high)].push(number);
            self.refresh(number);
        }
        number
    }

    /// The managed pools whose workers may run on the CPUs of `domain`.
    pub(crate) fn managed_at(&self, domain: u32) -> &[PoolNo] {
        self.by_domain.get(domain as usize).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn set_taken(&mut self, pool: PoolNo, is_taken: bool) {
        self.list[pool].is_taken = is_taken;
        self.refresh(pool);
    }

    /// To be called after each call of the pool's core: whether it can spare a CPU or wants help may
    /// have changed.
    #[inline]
    pub(crate) fn refresh(&mut self, pool: PoolNo) {
        let entry = &self.list[pool];
        if matches!(entry.kind, PoolKind::Managed(_)) {
            let class = usize::from(entry.is_high);
            let is_spare = entry.core.has_spare_cpu() && !entry.is_taken;
            self.spare[class].set(entry.rank, is_spare);
            self.wanting[class].set(entry.rank, entry.wants_help());
        }
    }
}

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
}

/// A limit that several pools of a node share.
#[derive(Debug)]
pub(crate) struct SharedLimit {
    pub(crate) node: u32,
    pub(crate) limit: u32,
    pub(crate) group: GroupNo,
    pub(crate) slots: Arc<NodeLimit>,
}

/// A queue of the run.
#[derive(Debug)]
pub(crate) struct Queue {
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
            key: WqKey(number as u32),
            kind,
            is_high: spec.flags.has(Flag::Highpri) || kind == Kind::Bh,
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

    pub(crate) fn add_link(&mut self, link: Link) {
        self.by_pool.entry(link.pool, self.links.len() as u32);
        self.links.push(link);
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
            PoolKind::Unbound(domain) | PoolKind::Managed(domain) => {
                machine.domains().node_of(domain)
            }
            _ => None,
        }
    }

    /// Whether pools of one node share the node's part of the limit.
    pub(crate) fn shares_nodes(&self, machine: &Machine) -> bool {
        machine.domains().is_shared(self.scope)
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
