//! `max_active` of queues whose pools share it: it is split over NUMA nodes, and the pools of a
//! node share the node's part (`wq_node_nr_active`).
//!
//! [`Limits`] is a queue's limit and how it is split. [`NodeLimit`] is one node's part: a count of
//! slots, taken and given back without a lock while no pwq waits, and a line of the pwqs that wait.
//! The memory is the driver's ([`NodeMemory`]), the protocol is here.
//!
//! | taker | giver |
//! |---|---|
//! | 1. stand in line, count the pwq as waiting | 1. give the slot back |
//! | 2. fence | 2. fence |
//! | 3. try once more to take a slot | 3. does a pwq wait? then hand over the slot |
//!
//! Where the kernel frees a slot and lets the waiter race for it, a slot here is *handed over*:
//! [`NodeSlots::put`] returns the pwq that now owns the slot, so nothing can be lost between the
//! two pools' locks.
//!
//! Why: docs/decisions/slots-are-handed-over.md

use alloc::collections::VecDeque;
use core::fmt;
use core::ops::DerefMut;

use crate::consts::{WQ_DFL_ACTIVE, WQ_DFL_MIN_ACTIVE, WQ_MAX_ACTIVE};
use crate::ids::PwqRef;
use crate::place::QueueKind;
pub use crate::sync::AtomicU64;
use crate::sync::{Ordering, fenced_load, in_order, seq_cst_fence, without};

mod by_node;

pub use by_node::NodeLimits;

/// How a pool reaches the limit it shares with other pools: a [`NodeLimit`].
pub trait NodeSlots: Send + Sync + fmt::Debug {
    /// Takes a slot for the pwq `who`; if there is none, `who` waits in line and `false` is
    /// returned. No queue jumping: while others wait, `who` waits behind them.
    fn try_get(&self, who: PwqRef) -> bool;
    /// Whether a pwq that frees a slot may use the slot for its own next item: if no other pwq
    /// waits, or if it has kept fewer slots than its turn since it gave one back; and only while
    /// the limit is not exceeded. `is_waiting`: the pwq itself is in line. Asking costs less than
    /// giving the slot back.
    fn may_keep(&self, is_waiting: bool, kept: u32) -> bool {
        let _ = (is_waiting, kept);
        false
    }
    /// Whether more slots are taken than there are, since the limit was lowered. A slot that was on
    /// its way then is not for the pwq that it comes to.
    fn is_exceeded(&self) -> bool {
        false
    }
    /// How many more there are for who asks now. A number to look at; without it, as many as one
    /// likes.
    fn nr_free(&self) -> u32 {
        u32::MAX
    }
    /// Gives a slot back; `Some(pwq)`: the slot now belongs to that pwq, see
    /// [`PoolState::grant`](crate::PoolState::grant).
    fn put(&self) -> Option<PwqRef>;
    /// Takes `who` out of the line. `false`: `who` is not in line, because a slot is on its way to
    /// it. An implementation that cannot do this may return `false`; then a pwq that waits for a
    /// slot it no longer needs cannot be removed before it gets one.
    fn leave(&self, _who: PwqRef) -> bool {
        false
    }
}

/// The pwqs that wait for a slot, first come first.
pub type Line = VecDeque<PwqRef>;

/// The numbers of a [`NodeLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Items admitted now.
    Nr,
    /// The limit. One thread at a time writes it.
    Max,
    /// How many stand in the line.
    NrWaiting,
}

/// A driver's memory for a [`NodeLimit`]: numbers where tools see them, and a line under a lock.
pub trait NodeMemory: Send + Sync + fmt::Debug {
    /// One of the numbers.
    fn count(&self, which: Count) -> &AtomicU64;
    /// The line. Lock: LN, inside of a pool's.
    fn line(&self) -> impl DerefMut<Target = Line>;
}

/// One node's share of a queue's `max_active`.
#[derive(Debug, Default)]
pub struct NodeLimit<M>(M);

impl<M: NodeMemory> NodeLimit<M> {
    #[inline]
    fn count(&self, which: Count) -> &AtomicU64 {
        self.0.count(which)
    }

    /// A node that admits `max` items, in memory that is all zero.
    pub fn new(max: u32, memory: M) -> Self {
        // ORDERING: no pairing: not shared yet.
        memory.count(Count::Max).store(max.into(), Ordering::Relaxed);
        Self(memory)
    }

    /// Its memory.
    pub const fn memory(&self) -> &M {
        &self.0
    }

    /// Items admitted now.
    #[must_use]
    pub fn nr(&self) -> u32 {
        // ORDERING: no pairing: a number to look at.
        self.count(Count::Nr).load(Ordering::Relaxed) as u32
    }

    /// The limit.
    #[must_use]
    pub fn max(&self) -> u32 {
        // ORDERING: no pairing: a number to look at.
        self.count(Count::Max).load(Ordering::Relaxed) as u32
    }

    /// The pwqs that wait for a slot, first come first.
    #[must_use]
    pub fn waiting(&self) -> Line {
        self.0.line().clone()
    }

    #[inline]
    fn take(&self) -> bool {
        // ORDERING: no pairing: the count guards no data; the fences order it with the line.
        let max = self.count(Count::Max).load(Ordering::Relaxed);
        let taken =
            self.count(Count::Nr).fetch_update(Ordering::Relaxed, Ordering::Relaxed, |nr| {
                (nr < max).then_some(nr + 1)
            });
        taken.is_ok()
    }

    /// Changes the limit. After a rise the new slots are to be [handed over](Self::hand_over) to
    /// the pwqs in line. A pwq that comes later tries once more under the line's lock, and finds
    /// the new limit.
    pub fn set_max(&self, max: u32) {
        // ORDERING: no pairing of its own: the line's lock, which `hand_over` takes after this,
        // makes it visible to pwqs that stand in line later.
        self.count(Count::Max).store(max.into(), Ordering::Relaxed);
    }

    #[cold]
    fn wait(&self, who: PwqRef) -> bool {
        let mut line = self.0.line();
        debug_assert!(!line.contains(&who), "{who:?} waits twice");
        line.push_back(who);
        // ORDERING: the fence pairs with the one in `put`.
        self.count(Count::NrWaiting).fetch_add(1, Ordering::Relaxed);
        seq_cst_fence("limit_wait");
        if line.len() > 1 || !self.take() {
            return false;
        }
        line.pop_back();
        self.count(Count::NrWaiting).fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Gives a free slot to the first pwq in line, which then owns it.
    #[cold]
    #[must_use]
    pub fn hand_over(&self) -> Option<PwqRef> {
        // A look at the count instead would miss a pwq that is just about to wait.
        let is_empty = || self.count(Count::NrWaiting).load(Ordering::Relaxed) == 0;
        if without("limit_hand_over.lock") && is_empty() {
            return None;
        }
        let mut line = self.0.line();
        if line.is_empty() || !self.take() {
            return None;
        }
        self.count(Count::NrWaiting).fetch_sub(1, Ordering::Relaxed);
        line.pop_front()
    }
}

impl<M: NodeMemory> NodeSlots for NodeLimit<M> {
    fn try_get(&self, who: PwqRef) -> bool {
        // ORDERING: no pairing: a hint; `wait` decides under the lock.
        let nobody_waits = self.count(Count::NrWaiting).load(Ordering::Relaxed) == 0;
        (nobody_waits && self.take()) || self.wait(who)
    }

    fn may_keep(&self, is_waiting: bool, kept: u32) -> bool {
        // ORDERING: no pairing: no slot is freed, so none can be missed; fairness may be a moment
        // late.
        let [nr, max, nr_waiting] = [Count::Nr, Count::Max, Count::NrWaiting]
            .map(|which| self.count(which).load(Ordering::Relaxed));
        keeps(nr as u32, max as u32, nr_waiting <= u64::from(is_waiting), kept)
    }

    fn is_exceeded(&self) -> bool {
        self.nr() > self.max()
    }

    fn nr_free(&self) -> u32 {
        // ORDERING: no pairing: a number to look at.
        match self.count(Count::NrWaiting).load(Ordering::Relaxed) {
            0 => self.max().saturating_sub(self.nr()),
            _ => 0,
        }
    }

    fn leave(&self, who: PwqRef) -> bool {
        let mut line = self.0.line();
        let Some(at) = line.iter().position(|&pwq| pwq == who) else { return false };
        line.remove(at);
        self.count(Count::NrWaiting).fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn put(&self) -> Option<PwqRef> {
        // ORDERING: the two pair with the fence in `wait`.
        let before = self.count(Count::Nr).fetch_sub(1, in_order());
        debug_assert!(before > 0, "a slot was returned twice");
        if self.count(Count::NrWaiting).load(fenced_load("limit_put")) == 0 {
            return None;
        }
        self.hand_over()
    }
}

/// The decision of [`NodeSlots::may_keep`], where `nr` of `max` slots are taken. `is_alone`: no
/// other pwq waits.
const fn keeps(nr: u32, max: u32, is_alone: bool, kept: u32) -> bool {
    (is_alone || kept < turn(max)) && nr <= max
}

/// How many slots a pwq keeps, one after the other, before one goes to the first pwq in line: a
/// 64th of all slots, because handing one over costs two pools' locks. So a pwq waits at worst
/// until 1.6 % of the active items have finished for each pwq in line.
///
/// KERNEL: `pwq_dec_nr_active` — differs: there each slot goes to the pwq that waits longest; here,
/// too, where there are fewer than 64 slots.
const fn turn(max: u32) -> u32 {
    max / 64
}

/// A node of the machine, or `None` for pods that no node holds, and how many CPUs a queue may use
/// there. Several of one node count together.
pub type NodeCpus = (Option<u32>, u32);

/// Which pwqs of a queue share its `max_active`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// None: each has it by itself. Per-CPU queues.
    Each,
    /// The same, and it stays as it is. BH and ordered queues.
    Fixed,
    /// All, split over the nodes. Unbound and managed queues.
    Nodes,
    /// None: each has it by itself. All together have a second limit.
    Total(u32),
}

/// The limits of a queue. Lock: WQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    sharing: Sharing,
    max_active: u32,
    min_active: u32,
}

impl Sharing {
    /// Of a queue of this kind. `total`: a limit for all CPUs together was asked for.
    #[inline]
    const fn of(kind: QueueKind, total: Option<u32>) -> Self {
        match (kind, total) {
            (QueueKind::Unbound | QueueKind::Managed, _) => Self::Nodes,
            (QueueKind::Percpu, Some(total)) => Self::Total(in_range(total)),
            (QueueKind::Percpu, None) => Self::Each,
            (QueueKind::Bh | QueueKind::Ordered, _) => Self::Fixed,
        }
    }
}

/// The limit that is taken where `asked` was asked for.
///
/// KERNEL: `wq_clamp_max_active` — same, and the driver says if that is another one.
#[must_use]
pub const fn in_range(asked: u32) -> u32 {
    match asked {
        0 => 1,
        1..=WQ_MAX_ACTIVE => asked,
        _ => WQ_MAX_ACTIVE,
    }
}

impl Limits {
    /// Of a new queue. `max_active`: as it was asked for, 0 for the default; `total`: for all CPUs
    /// together, of queues that have such a limit only if it is asked for. Others have one limit,
    /// the lower one. Ordered queues run one item at a time, and BH queues have no limit.
    ///
    /// KERNEL: `alloc_workqueue` — same, without `total`.
    #[inline]
    #[must_use]
    pub const fn of(kind: QueueKind, max_active: u32, total: Option<u32>) -> Self {
        let asked = if max_active == 0 { WQ_DFL_ACTIVE } else { in_range(max_active) };
        let max_active = match (kind, total) {
            (QueueKind::Ordered, _) => 1,
            (QueueKind::Bh, _) => i32::MAX.unsigned_abs(),
            (QueueKind::Unbound | QueueKind::Managed, Some(total)) if in_range(total) < asked => {
                in_range(total)
            }
            _ => asked,
        };
        Self::new(Sharing::of(kind, total), max_active)
    }

    /// With the usual `min_active`, of a queue with this `max_active`.
    #[must_use]
    pub const fn new(sharing: Sharing, max_active: u32) -> Self {
        let min_active =
            if max_active < WQ_DFL_MIN_ACTIVE { max_active } else { WQ_DFL_MIN_ACTIVE };
        Self { sharing, max_active, min_active }
    }

    /// The limit as it was asked for.
    #[must_use]
    pub const fn max_active(&self) -> u32 {
        self.max_active
    }

    /// The smallest part of a node.
    #[must_use]
    pub const fn min_active(&self) -> u32 {
        self.min_active
    }

    /// What all pwqs may run together, beside what each may by itself.
    #[must_use]
    pub const fn total(&self) -> Option<u32> {
        if let Sharing::Total(total) = self.sharing { Some(total) } else { None }
    }

    /// KERNEL: `workqueue_set_max_active` — same: the lower limit gives way, and a queue that
    /// [has no limit to be changed](QueueKind::has_limit) keeps what it has.
    pub fn set_max_active(&mut self, max_active: u32) {
        if !matches!(self.sharing, Sharing::Fixed) {
            self.max_active = in_range(max_active);
            self.min_active = self.min_active.min(self.max_active);
        }
    }

    /// KERNEL: `workqueue_set_min_active` — same.
    pub fn set_min_active(&mut self, min_active: u32) {
        self.min_active = min_active.min(self.max_active);
    }

    /// Whether pools have a [`NodeLimit`] in common.
    #[must_use]
    pub const fn are_shared(&self) -> bool {
        !matches!(self.sharing, Sharing::Each | Sharing::Fixed)
    }

    /// Whether `max_active` is split over nodes.
    #[must_use]
    pub const fn is_split(&self) -> bool {
        matches!(self.sharing, Sharing::Nodes)
    }

    /// Which limit a pwq shares whose pod lies on `node`, or in no single one: none, or that of a
    /// node, or of what has none.
    #[must_use]
    pub fn shared_by(&self, node: Option<u32>) -> Option<Option<u32>> {
        self.are_shared().then(|| node.filter(|_| self.is_split()))
    }

    /// Whether each node's [share](Self::share) has to be set anew when the queue's attributes have
    /// changed, or the CPUs. That it has to when the limit was changed goes for every queue whose
    /// limit [is shared](Self::are_shared).
    #[must_use]
    pub const fn follow_cpus(&self) -> bool {
        self.is_split()
    }

    /// Whether each pwq is told when its [own limit](Self::own) changes. Where all is split, none
    /// has one.
    #[must_use]
    pub const fn tells_each(&self) -> bool {
        !self.is_split()
    }

    /// The limit of each pwq by itself. 0 for a frozen queue.
    #[must_use]
    pub const fn own(&self, is_frozen: bool) -> u32 {
        match (self.sharing, is_frozen) {
            (Sharing::Nodes, _) => u32::MAX,
            (_, true) => 0,
            (_, false) => self.max_active,
        }
    }

    /// The limit that the pwqs of a node share, of a queue that may use these CPUs now: of all
    /// queues of its kind, less what its attributes leave out. `None`: pods that lie in no single
    /// node, which share the whole limit. 0 for a frozen queue.
    ///
    /// KERNEL: `wq_update_node_max_active` — differs: a node admits 1 at least, with a `min_active`
    /// of 0, too. A `Sharing::Total` is ours.
    #[must_use]
    pub fn share(
        &self,
        is_frozen: bool,
        node: Option<u32>,
        cpus: impl IntoIterator<Item = NodeCpus>,
    ) -> u32 {
        match (is_frozen, self.sharing, node) {
            (true, ..) => 0,
            (_, Sharing::Total(all), _) => all,
            (_, _, None) => self.max_active,
            (_, _, Some(_)) => {
                let (mut here, mut total) = (0, 0);
                for (at, nr) in cpus {
                    here += if at == node { nr } else { 0 };
                    total += nr;
                }
                part(self.max_active, self.min_active, here, total)
            }
        }
    }
}

/// The part of a node with `cpus` of `total` CPUs: proportional, rounded up, within `min..=max`;
/// with 0 CPUs it is `min`. But never 0: what was queued on a node before its CPUs were left, or by
/// a CPU's number, is to run.
pub(crate) const fn part(max: u32, min: u32, cpus: u32, total: u32) -> u32 {
    let min = if min == 0 { 1 } else { min };
    let low = if min < max { min } else { max };
    if total == 0 || cpus == 0 {
        return low;
    }
    let part = ((max as u64 * cpus as u64).div_ceil(total as u64)) as u32;
    if part < low {
        low
    } else if part > max {
        max
    } else {
        part
    }
}
