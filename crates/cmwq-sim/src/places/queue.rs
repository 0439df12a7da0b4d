//! Queues of a run, and what shares a limit.

use std::cell::Cell;
use std::ops::DerefMut;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use cmwq_core::limit::{Count, Line};
pub(crate) use cmwq_core::place::QueueKind as Kind;
use cmwq_core::place::usable::{self, Usable};
use cmwq_core::place::{self, PoolAttrs, SlotCpus};
use cmwq_core::{
    Backoff, FlushState, Limits, NodeLimits, NodeMemory, NodeSlots, PoolId, PwqConfig, PwqId,
    PwqRef, PwqStats, Pwqs, Sharing, WqKey,
};

use super::PoolKind;
use crate::bitset::BitSet;
use crate::by_pool::ByPool;
use crate::config::{Config, Sabotage};
use crate::event::{GroupNo, PoolNo};
use crate::machine::{Cut, Machine, WHOLE};
use crate::plan::Attrs;
use crate::scenario::{Flag, QueueSpec};
use crate::topology::Scope;

/// The kind that these flags ask for.
pub(crate) const fn kind_of(spec: &QueueSpec) -> Kind {
    if spec.flags.has(Flag::Bh) {
        Kind::Bh
    } else if spec.flags.has(Flag::Ordered) {
        Kind::Ordered
    } else if spec.flags.has(Flag::Managed) {
        Kind::Managed
    } else if spec.flags.has(Flag::Unbound) {
        Kind::Unbound
    } else {
        Kind::Percpu
    }
}

/// The flag that asks for this kind.
pub(crate) const fn flag_of(kind: Kind) -> Flag {
    match kind {
        Kind::Bh => Flag::Bh,
        Kind::Ordered => Flag::Ordered,
        Kind::Managed => Flag::Managed,
        Kind::Unbound => Flag::Unbound,
        Kind::Percpu => Flag::Percpu,
    }
}

/// The pod of managed queues that has `cpu`. One of all CPUs has no isolated ones.
pub(crate) fn managed_pod(cpu: u32, scope: Scope, machine: &Machine) -> u32 {
    let domains = machine.domains();
    match domains.pod(scope, cpu) {
        WHOLE => domains.managed(),
        pod => pod,
    }
}

/// The memory of a node's limit.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What it is to the checkers.
    pub(crate) group: GroupNo,
    counts: [AtomicU64; 3],
    line: Mutex<Line>,
}

impl Memory {
    pub(crate) fn new(group: GroupNo) -> Self {
        Self { group, counts: Default::default(), line: Mutex::default() }
    }
}

impl NodeMemory for Memory {
    fn count(&self, which: Count) -> &AtomicU64 {
        &self.counts[which as usize]
    }

    fn line(&self) -> impl DerefMut<Target = Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) type NodeLimit = cmwq_core::NodeLimit<Memory>;

/// A queue's way into one pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuPwq {
    pub(crate) pool: PoolNo,
    pub(crate) pwq: PwqId,
    pub(crate) group: GroupNo,
    /// Its own limit.
    pub(crate) limit: u32,
}

impl CpuPwq {
    pub(crate) const fn at(&self) -> PwqRef {
        PwqRef { pool: PoolId(self.pool as u32), pwq: self.pwq }
    }
}

/// The CPUs of an unbound or ordered queue, as things are. Other queues: all CPUs, and no pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// All that it may use, as a domain: where workers may go.
    usable: u32,
    /// Those of them that are online, as a domain: the pod of CPUs that have none.
    all: u32,
    pods: Cut,
    /// Whether queues without attributes of their own have `all` as a pod.
    has_default_pod: bool,
    /// Their pods, and the one of all CPUs.
    usual: (Cut, u32),
}

impl Default for Layout {
    fn default() -> Self {
        let none = Cut::default;
        let usual = (none(), WHOLE);
        Self { usable: WHOLE, all: WHOLE, pods: none(), has_default_pod: true, usual }
    }
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
    pub(crate) attrs: Attrs,
    /// The scope of queues that name none.
    usual_scope: Scope,
    /// As the CPUs and `attrs` are.
    pub(crate) layout: Layout,
    pub(crate) key: WqKey,
    pub(crate) kind: Kind,
    pub(crate) is_high: bool,
    is_intensive: bool,
    has_rescuer: bool,
    pub(crate) limits: Limits,
    /// From which CPUs something came: as in the runtime these are led elsewhere.
    pub(crate) cpus: BitSet,
    pub(crate) pwqs: Pwqs,
    /// It starts nothing.
    pub(crate) is_frozen: bool,
    /// How often it was made anew.
    pub(crate) nr_made: u32,
    /// Counters of pwqs that were removed.
    pub(crate) removed: PwqStats,
    /// What else is known of each pwq, in the same order.
    pub(crate) cpu_pwqs: Vec<CpuPwq>,
    /// Which of `cpu_pwqs`, of those that were not replaced.
    by_pool: ByPool<u32>,
    pub(crate) shared: NodeLimits<Memory>,
    pub(crate) flush: FlushState<usize>,
    pub(crate) pwqs_to_flush: Cell<u32>,
    /// Timers that are armed for its items.
    pub(crate) nr_timers: u32,
    /// It is being dropped, and goes when there are none.
    pub(crate) awaits_timers: bool,
    /// It is being dropped, and its rescuer visits.
    pub(crate) awaits_rescuer: bool,
    /// Between attempts to remove a pwq, or the queue.
    pub(crate) backoff: Backoff,
}

impl Queue {
    pub(crate) fn new(number: usize, spec: &QueueSpec, config: &Config) -> Self {
        let kind = kind_of(spec);
        let is_unordered =
            kind == Kind::Ordered && config.sabotage == Some(Sabotage::UnorderOrdered);
        let limits = match is_unordered {
            true => Limits::new(Sharing::Fixed, 2),
            false => Limits::of(kind, spec.max_active, None),
        };
        let usual_scope = match kind {
            Kind::Managed => config.managed_scope,
            _ => config.scope,
        };
        Self {
            life: Life::Open,
            attrs: Attrs::usual(spec.scope.unwrap_or(usual_scope)),
            usual_scope,
            layout: Layout::default(),
            key: WqKey(number as u32),
            kind,
            is_high: spec.flags.has(Flag::Highpri),
            is_intensive: spec.flags.has(Flag::CpuIntensive),
            has_rescuer: spec.flags.has(Flag::MemReclaim),
            limits,
            cpus: BitSet::default(),
            pwqs: Pwqs::new(),
            is_frozen: false,
            nr_made: 0,
            removed: PwqStats::default(),
            cpu_pwqs: Vec::new(),
            by_pool: ByPool::default(),
            shared: NodeLimits::new(),
            flush: FlushState::new(),
            pwqs_to_flush: Cell::new(0),
            nr_timers: 0,
            awaits_timers: false,
            awaits_rescuer: false,
            backoff: Backoff::new(),
        }
    }

    pub(crate) const fn is_intensive(&self) -> bool {
        self.is_intensive
    }

    /// The way into `pool`, if it was made.
    #[inline]
    pub(crate) fn cpu_pwq(&self, pool: PoolNo) -> Option<CpuPwq> {
        self.by_pool.get(pool).map(|index| self.cpu_pwqs[index as usize])
    }

    /// What the driver knows of a pwq, retired or not.
    #[inline]
    pub(crate) fn cpu_pwq_at(&self, pool: PoolNo, pwq: PwqId) -> Option<CpuPwq> {
        let is_it = |cpu_pwq: &CpuPwq| cpu_pwq.pool == pool && cpu_pwq.pwq == pwq;
        self.cpu_pwq(pool).filter(is_it).or_else(|| self.cpu_pwqs.iter().copied().find(is_it))
    }

    pub(crate) fn add_cpu_pwq(&mut self, cpu_pwq: CpuPwq) {
        *self.by_pool.entry(cpu_pwq.pool, 0) = self.cpu_pwqs.len() as u32;
        self.cpu_pwqs.push(cpu_pwq);
        self.pwqs.add(cpu_pwq.at());
    }

    /// Nothing is led this way any more.
    pub(crate) fn retire_link(&mut self, at: PwqRef) {
        self.pwqs.retire(at);
        self.index_links();
    }

    pub(crate) fn remove_link(&mut self, at: PwqRef) {
        self.pwqs.remove(at);
        self.cpu_pwqs.retain(|cpu_pwq| cpu_pwq.at() != at);
        self.index_links();
    }

    fn index_links(&mut self) {
        self.by_pool = ByPool::default();
        for (index, (at, is_retired)) in self.pwqs.entries().enumerate() {
            debug_assert_eq!(self.cpu_pwqs[index].at(), at, "they are in the same order");
            if !is_retired {
                *self.by_pool.entry(at.pool.0 as usize, 0) = index as u32;
            }
        }
    }

    /// The kind of pool that serves callers on `cpu`.
    pub(crate) fn pool_kind(&self, cpu: u32, machine: &Machine) -> PoolKind {
        let Attrs { nice, scope, is_strict, .. } = self.attrs;
        match self.kind.pool() {
            place::PoolKind::Percpu => return PoolKind::Cpu(cpu),
            place::PoolKind::Bh => return PoolKind::Bh(cpu),
            place::PoolKind::Managed => return PoolKind::Managed(managed_pod(cpu, scope, machine)),
            place::PoolKind::Unbound => {}
        }
        let Layout { usable, all, pods, has_default_pod, usual } = &self.layout;
        let own = pods[cpu as usize];
        let slot = self.kind.slot(own.is_some(), is_strict);
        let domain = match slot.pod {
            SlotCpus::Pod => own.unwrap_or(*all),
            SlotCpus::All => *all,
        };
        let cpus = match slot.cpus {
            SlotCpus::Pod => domain,
            SlotCpus::All => *usable,
        };
        let is_usual = |pod| pod == usual.1 || usual.0[cpu as usize] == Some(pod);
        let is_strict = slot.is_strict;
        let attrs = PoolAttrs {
            has_default_priority: nice == 0,
            is_strict,
            has_all_cpus: cpus == WHOLE,
            has_default_pod: own.map_or(*has_default_pod, is_usual),
        };
        if attrs.are_usual() {
            return PoolKind::Unbound(domain);
        }
        PoolKind::Own { domain, cpus, nice, is_strict }
    }

    /// As new.
    pub(crate) fn renew(&mut self, spec: &QueueSpec, config: &Config) {
        let new = Self::new(self.key.0 as usize, spec, config);
        let flush = std::mem::take(&mut self.flush);
        *self = Self { flush, nr_made: self.nr_made + 1, is_frozen: self.is_frozen, ..new };
    }

    /// What each pwq may run that shares no limit.
    pub(crate) fn own_limit(&self) -> u32 {
        self.limits.own(self.is_frozen)
    }

    /// `raised`: by how much a sabotaged driver admits more.
    pub(crate) fn pwq_config(&self, slots: Option<Arc<NodeLimit>>, raised: u32) -> PwqConfig {
        PwqConfig {
            wq: self.key,
            max_active: self.own_limit().saturating_add(raised),
            node: slots.map(|slots| slots as Arc<dyn NodeSlots>),
            cpu_intensive: self.is_intensive,
            rescuer: self.has_rescuer,
            work_color: self.flush.work_color(),
        }
    }

    /// The node of a pool, if it lies within one.
    pub(crate) fn node_of(&self, pool: PoolKind, machine: &Machine) -> Option<u32> {
        machine.domains().node_of(pool.domain()?)
    }

    /// The limit that a pwq of a pool on `node` shares, if it shares one. One that is made now is
    /// this `group` to the checkers.
    pub(crate) fn shared_limit(
        &mut self,
        node: Option<u32>,
        group: GroupNo,
        machine: &Machine,
    ) -> Option<Arc<NodeLimit>> {
        let cpus = machine.domains().nr_online_by_node(self.layout.usable);
        self.shared.of(&self.limits, node, self.is_frozen, cpus, |_| Memory::new(group))
    }

    /// As CPUs and limits are now.
    pub(crate) fn adjust_shared(&self, machine: &Machine) -> Vec<Arc<NodeLimit>> {
        let cpus: Vec<_> = machine.domains().nr_online_by_node(self.layout.usable).collect();
        self.shared.adjust(&self.limits, self.is_frozen, cpus)
    }

    /// The CPUs that its attributes name, as a domain.
    fn asked(&self, machine: &Machine) -> u32 {
        self.attrs.cpus.map_or(WHOLE, |(scope, cpu)| machine.domains().pod(scope, cpu))
    }

    /// Which CPUs it may use now, and which pods these form. There are no quotas.
    pub(crate) fn laid_out(&self, machine: &mut Machine) -> Layout {
        if !self.kind.is_replaceable() {
            return Layout::default();
        }
        let scope = self.attrs.scope.in_core();
        let scope = Scope::of_core(self.kind.scope(Some(scope), scope, u32::MAX, 0));
        let usable = self.usable(machine);
        // One of its CPUs is online, as one of all is.
        let whole = |cut: Cut| cut.iter().find_map(|pod| *pod).unwrap_or(WHOLE);
        let [all, of_all] = [usable, WHOLE].map(|of| whole(machine.cut(Scope::System, of)));
        let usual = machine.cut(self.usual_scope, WHOLE);
        let has_default_pod = all == of_all || usual.contains(&Some(all));
        let pods = machine.cut(scope, usable);
        Layout { usable, all, pods, has_default_pod, usual: (usual, of_all) }
    }

    /// The CPUs that it may use, as a domain: those that its attributes name, as long as one of
    /// them is online.
    fn usable(&self, machine: &Machine) -> u32 {
        let (domains, asked) = (machine.domains(), self.asked(machine));
        if asked == WHOLE {
            return WHOLE;
        }
        let known = |is_requested| usable::Cpu { is_requested, is_isolated: false };
        // One for all that are asked for, and one for all others.
        let [of_asked, of_all] = [asked, WHOLE].map(|of| domains.nr_online(of));
        let online = [(true, of_asked), (false, of_all - of_asked)];
        let online = online.into_iter().filter(|(_, nr)| *nr > 0);
        let usable = Usable::of(online.map(|(is_requested, _)| known(is_requested)));
        if usable.has(known(false)) { WHOLE } else { asked }
    }
}
