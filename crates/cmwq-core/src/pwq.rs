//! The pwq: where one workqueue meets one pool. It lives in the pool's table, under the pool's lock
//! (L).

use alloc::sync::Arc;
use core::ops::AddAssign;

use crate::consts::WORK_NR_COLORS;
use crate::counts::CountsAt;
use crate::ids::WqKey;
use crate::limit::NodeSlots;
use crate::list::List;
use crate::pool::{Arrived, RescueState};

/// What a new pwq is told about its workqueue.
#[derive(Clone, Debug)]
pub struct PwqConfig {
    /// The workqueue.
    pub wq: WqKey,
    /// Limit of items admitted through this pwq; `u32::MAX` if only `node` limits them.
    pub max_active: u32,
    /// The limit shared with other pools: a node's for queues that are spread over several pods.
    pub node: Option<Arc<dyn NodeSlots>>,
    /// Items do not count in `nr_running` (`WQ_CPU_INTENSIVE`).
    pub cpu_intensive: bool,
    /// The queue has a rescuer (`WQ_MEM_RECLAIM`).
    pub rescuer: bool,
    /// The queue's current work colour.
    pub work_color: u8,
}

/// Counters of a pwq (`PWQ_STAT_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PwqStats {
    /// Items whose function was entered.
    pub started: u64,
    /// Items whose function returned.
    pub completed: u64,
    /// Workers that were woken because a worker running this queue's item blocked.
    pub cm_wakeup: u64,
    /// CPU time used by items, in µs; drivers charge a worker's time when it turns to another
    /// queue.
    pub cpu_time: u64,
    /// Items that stopped counting in `nr_running` because they hogged the CPU.
    pub cpu_intensive: u64,
    /// Workers sent back to their pod.
    pub repatriated: u64,
    /// Calls for the rescuer.
    pub mayday: u64,
    /// Items that the rescuer ran.
    pub rescued: u64,
    /// Items taken back before they ran.
    pub cancelled: u64,
}

impl PwqStats {
    /// A number that grows whenever an item starts, ends, or is taken back.
    #[must_use]
    pub const fn progress(&self) -> u64 {
        self.started + self.completed + self.cancelled
    }
}

impl AddAssign for PwqStats {
    fn add_assign(&mut self, other: Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.cm_wakeup += other.cm_wakeup;
        self.cpu_time += other.cpu_time;
        self.cpu_intensive += other.cpu_intensive;
        self.repatriated += other.repatriated;
        self.mayday += other.mayday;
        self.rescued += other.rescued;
        self.cancelled += other.cancelled;
    }
}

/// What a pwq has in its pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PwqLoad {
    /// Items that hold a slot, or get one once they are listed.
    pub nr_active: u32,
    /// There are others, behind a limit.
    pub has_inactive: bool,
    /// Anything is queued, running or waited for.
    pub is_in_flight: bool,
}

/// What waits in a pwq: items that were queued and not yet begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PwqWaiting {
    /// All of them.
    pub queued: u64,
    /// Of these, those that a limit holds up.
    pub for_limit: u64,
}

impl AddAssign for PwqWaiting {
    fn add_assign(&mut self, other: Self) {
        self.queued += other.queued;
        self.for_limit += other.for_limit;
    }
}

/// See the module header.
#[derive(Debug)]
pub(crate) struct Pwq {
    pub(crate) wq: WqKey,
    pub(crate) work_color: u8,
    /// The colour being flushed, while a flush waits for this pwq.
    pub(crate) flush_color: Option<u8>,
    /// Queued or running items and barriers, by colour.
    pub(crate) nr_in_flight: [u32; WORK_NR_COLORS as usize],
    /// Items on the worklist, scheduled or running that hold a slot.
    pub(crate) nr_active: u32,
    /// Of those in flight, barriers.
    pub(crate) nr_barriers: u32,
    pub(crate) max_active: u32,
    pub(crate) node: Option<Arc<dyn NodeSlots>>,
    /// In line for a slot of the node.
    pub(crate) node_waiting: bool,
    /// Slots that it has kept since it gave one back.
    pub(crate) kept: u32,
    pub(crate) inactive: List,
    /// What has arrived and is on no list yet.
    pub(crate) arrived: Arrived,
    pub(crate) cpu_intensive: bool,
    /// Queues but never activates: an ordered queue's newer pwq while the older one drains.
    pub(crate) plugged: bool,
    /// If the queue has a rescuer.
    pub(crate) rescue: Option<RescueState>,
    /// Replaced by another pwq: takes only items that it is running, and is removed when it has
    /// drained.
    pub(crate) retired: bool,
    /// The counters that change with each item.
    pub(crate) counts: CountsAt,
    /// The other counters.
    rare: PwqStats,
}

impl Pwq {
    pub(crate) fn new(config: PwqConfig) -> Self {
        Self {
            wq: config.wq,
            work_color: config.work_color,
            flush_color: None,
            nr_in_flight: [0; WORK_NR_COLORS as usize],
            nr_active: 0,
            nr_barriers: 0,
            max_active: config.max_active,
            node: config.node,
            node_waiting: false,
            kept: 0,
            inactive: List::new(),
            arrived: Arrived::default(),
            cpu_intensive: config.cpu_intensive,
            plugged: false,
            rescue: None,
            retired: false,
            counts: CountsAt::own(),
            rare: PwqStats::default(),
        }
    }

    /// All counters.
    pub(crate) fn stats(&self) -> PwqStats {
        PwqStats { started: self.counts.started(), completed: self.counts.completed(), ..self.rare }
    }

    /// Counters other than those of items started and completed.
    pub(crate) fn rare_stats(&mut self) -> &mut PwqStats {
        &mut self.rare
    }

    #[inline]
    pub(crate) fn set_active(&mut self, nr_active: u32) {
        self.nr_active = nr_active;
        self.counts.set_active(nr_active);
    }

    /// Queued or running items, without barriers.
    pub(crate) fn nr_items(&self) -> u32 {
        self.nr_in_flight.iter().sum::<u32>() - self.nr_barriers
    }

    /// Of so many items more, how many would wait for a slot as things stand.
    pub(crate) fn nr_held_up(&self, more: u32) -> u32 {
        if more == 0 || self.plugged || !self.inactive.is_empty() {
            return more;
        }
        let of_node = self.node.as_ref().map_or(u32::MAX, |node| node.nr_free());
        more.saturating_sub(self.max_active.saturating_sub(self.nr_active).min(of_node))
    }

    /// Nothing queued, running or waited for.
    pub(crate) fn is_idle(&self) -> bool {
        self.nr_in_flight.iter().all(|&n| n == 0)
    }
}
