//! The worker pool: what the kernel's pool lock protects, as one value.
//!
//! Lock: L. A driver keeps a [`PoolState`] behind one lock and acts on the outcomes after dropping
//! it.
//!
//! Named invariants, checked by [`PoolState::check`]:
//!
//! - *(counted)* `nr_running` is the number of workers for which `Worker::is_counted` holds.
//! - *(idle)* `nr_idle` is the length of the idle list; the most recently idled worker is its head.
//! - *(standby)* while a worker of this pool is in its inner loop (`Phase::Working`), another one
//!   is idle, or on its way to look (`Phase::Prep`: a manager, or a worker in the making). The one
//!   exception: creation has failed, and the driver has been told when to try again
//!   ([`PoolState::create_retry_at`]); then working without a standby beats not working. `standby`
//!   has the argument, event by event.
//! - *(coming)* where work waits that a CPU could run, a worker is on the way: an idle worker that
//!   was woken, a worker in `Phase::Prep`, or a worker or guest between two items; or there is none
//!   to come, and the event returned [`Kick::NeedFirst`]; or creation has failed or was refused, as
//!   above.
//! - *(queued)* see [`crate::word`].
//! - *(cursor)* see `rescue`.
//!
//! Split by topic: this file has the table and the counts; `queue`, `next`, `events`, `closing` and
//! `rescue` have the protocols, `reading`, `report` and `value` what others may know.
//! `keeps(Rule::…)` is `true` at compile time, but for the exhaustive search, which takes rules
//! out: see `rules`.

use alloc::vec::Vec;

use crate::consts::{
    BUSY_WORKER_HASH_SIZE, CALM_CLAIMS, CREATE_COOLDOWN_NS, IDLE_WORKER_TIMEOUT_NS,
    MAX_IDLE_WORKERS_RATIO,
};
use crate::counts::PwqCounts;
use crate::ids::{Nanos, PoolId, PwqId, PwqRef, WorkerId, WqKey};
use crate::inbox::Transit;
use crate::list::List;
use crate::place;
use crate::policy;
use crate::pwq::{Pwq, PwqConfig, PwqStats};
use crate::pwqs::Stays;
use crate::slab::Slab;
use crate::word::WorkWord;
use crate::work::WorkFn;
use crate::worker::{Phase, Worker, WorkerView};

mod activations;
mod active;
mod arrived;
mod batch;
mod closing;
mod creating;
mod detection;
mod events;
mod footprint;
mod guest;
mod headcount;
mod helping;
mod hog;
mod inbox;
mod next;
mod processes;
mod queue;
mod reading;
mod replace;
mod report;
mod rescue;
mod rules;
mod stall;
mod standby;
mod starved;
mod touched;
mod unbinding;
#[cfg(feature = "explore")]
pub mod value;
mod wait_first;

use activations::Activations;
pub(crate) use active::Left;
use arrived::ARRIVED_MAX;
pub(crate) use arrived::Arrived;
use batch::Out;
use closing::Closing;

pub use activations::Activation;
pub use creating::{Create, Creator};
pub use detection::{Finding, Found};
pub use events::Retry;
pub use footprint::Footprint;
pub use headcount::{LIMIT_RETRY_NS, may_add_worker, yield_for};
pub use helping::Lend;
pub use hog::Hog;
pub use inbox::LockFor;
pub use queue::{Enqueued, Offered};
pub use reading::Reading;
pub use report::{BusyWorker, PoolReport, PwqReport, Waiting, WaitingItems};
pub(crate) use rescue::RescueState;
pub use rescue::{MaydayTimer, Rescue, RescueVisit};
#[cfg(feature = "explore")]
pub use rules::Rule;
#[cfg(not(feature = "explore"))]
pub(crate) use rules::Rule;
pub use touched::Touched;
pub use wait_first::Waited;

/// Which worker to wake, after the lock is dropped. Later variants are more urgent.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kick {
    /// Nobody.
    None,
    /// Watch this pool, so that a worker that blocks is noticed: work waits, and as many workers
    /// run as may; or another pod could use the CPU.
    Watch,
    /// Create a worker: the pool has none at all, or was [refused](PoolState::create_refused) one
    /// that it needs now.
    NeedFirst,
    /// This idle worker.
    Wake(WorkerId),
}

impl Kick {
    /// The more urgent of two decisions under one hold of the lock, which wakes one worker at most:
    /// another one would sleep on, and be taken for one that comes.
    #[inline]
    pub const fn or(self, other: Self) -> Self {
        if let (Self::Wake(one), Self::Wake(another)) = (self, other) {
            debug_assert!(one.0 == another.0, "two workers are woken by one hold of the lock");
        }
        if other.urgency() > self.urgency() { other } else { self }
    }

    #[inline]
    const fn urgency(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Watch => 1,
            Self::NeedFirst => 2,
            Self::Wake(_) => 3,
        }
    }
}

/// What the end of an item, or taking one back, demands for queues and other pools. To be acted on
/// after the lock is dropped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effects {
    /// A flush of this queue waits for one pwq fewer.
    pub flush_done: Option<WqKey>,
    /// This pwq, of another pool, was given a slot of the node: call [`PoolState::grant`] on its
    /// pool.
    pub grant: Option<PwqRef>,
    /// A retired pwq of this queue has nothing left: remove it.
    pub retired: Option<WqKey>,
}

impl Effects {
    /// Nothing to do.
    pub const NONE: Self = Self { flush_done: None, grant: None, retired: None };

    /// Whether there is nothing to act on, as mostly.
    #[inline]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.flush_done.is_none() && self.grant.is_none() && self.retired.is_none()
    }
}

/// The settings of a pool.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Its id.
    pub id: PoolId,
    /// How many workers may run at once: see [`place::Belonging`].
    pub concurrency: u32,
    /// When a surplus idle worker leaves.
    pub idle_timeout: Nanos,
    /// Busy workers per tolerated idle worker above two.
    pub idle_ratio: u32,
    /// Pause after a failed creation.
    pub create_cooldown: Nanos,
    /// What it is for.
    pub kind: place::PoolKind,
    /// Workers that block, and hogs, need not stay on the pool's own CPUs, see
    /// [`PoolState::is_unbound`]. Only in managed pools.
    pub unbinds: bool,
    /// Workers may take several items along (see [`Claim::more`](crate::Claim)) after so many
    /// claims in a row without a batch that was called back. Only while one worker may run at a
    /// time.
    pub batches: Option<u8>,
    /// Queueing may be a push into the inbox alone:
    /// [`help::may_saturate`](crate::help::may_saturate).
    pub may_saturate: bool,
    /// How many items may have arrived: while there are more, the oldest ones are listed. See
    /// [`LockFor`].
    pub arrived_max: u32,
}

impl PoolConfig {
    /// As [`new`](Self::new), with what a pool of this kind does: managed pools learn how their
    /// items wait, and their workers need not come back to their CPUs if there are other pools
    /// (`has_others`). Batches are made where queueing may be a push into the inbox, in pools
    /// of managed and per-CPU queues, while one worker may run at a time.
    #[must_use]
    pub const fn of_kind(
        id: PoolId,
        kind: place::PoolKind,
        concurrency: u32,
        has_others: bool,
    ) -> Self {
        let is_managed = matches!(kind, place::PoolKind::Managed);
        let has_inbox = matches!(kind, place::PoolKind::Managed | place::PoolKind::Percpu);
        Self {
            kind,
            unbinds: is_managed && has_others,
            batches: if has_inbox { Some(CALM_CLAIMS) } else { None },
            ..Self::new(id, concurrency)
        }
    }

    /// The kernel's constants.
    #[must_use]
    pub const fn new(id: PoolId, concurrency: u32) -> Self {
        Self {
            id,
            concurrency,
            idle_timeout: IDLE_WORKER_TIMEOUT_NS,
            idle_ratio: MAX_IDLE_WORKERS_RATIO,
            create_cooldown: CREATE_COOLDOWN_NS,
            kind: place::PoolKind::Percpu,
            unbinds: false,
            batches: None,
            may_saturate: true,
            arrived_max: ARRIVED_MAX,
        }
    }

    /// Whether it runs items of managed queues: it learns what they do before and after their waits
    /// (see [`PoolState::learn_wait`]), and has room for a few hogs only.
    #[inline]
    #[must_use]
    pub const fn is_managed(&self) -> bool {
        matches!(self.kind, place::PoolKind::Managed)
    }

    /// Whether it is a BH pool: the word of an idle item says that it ran in one.
    #[inline]
    #[must_use]
    pub const fn is_bh(&self) -> bool {
        matches!(self.kind, place::PoolKind::Bh)
    }
}

/// See the module header.
#[derive(Debug)]
pub struct PoolState {
    config: PoolConfig,
    /// The word of an idle item that was here last.
    idle_word: WorkWord,
    worklist: List,
    /// Items on no list, younger than the worklist. See `arrived`.
    arrived: Transit,
    /// The batch that is out.
    out: Option<Out>,
    /// Claims since a batch was called back.
    calm_claims: u8,
    nr_running: u32,
    nr_workers: u32,
    /// Workers that were told to leave and have not left yet: neither counted on nor busy.
    nr_dying: u32,
    /// Workers of this pool in `Phase::Working`, whether they count as running or not.
    nr_working: u32,
    nr_idle: u32,
    idle_head: Option<WorkerId>,
    idle_tail: Option<WorkerId>,
    manager: Option<WorkerId>,
    no_create_before: Nanos,
    /// See [`create_refused`](Self::create_refused).
    is_retried_on_need: bool,
    closing: Closing,
    workers: Slab<Worker>,
    pwqs: Slab<Pwq>,
    /// Pwqs whose queue has a rescuer.
    nr_rescuers: u32,
    /// Rescuers' marks on the worklist.
    nr_cursors: u32,
    /// See `PoolState::nr_started`.
    nr_started: u64,
    /// How often an item began to wait where none waited.
    nr_began_to_wait: u64,
    /// Items in a row that hardly computed after they had waited, see `unbinding`.
    short_wakes: u8,
    /// Items in a row that waited before they computed, see `wait_first`.
    first_waits: u8,
    /// How many of those, in a row, computed for a while before they waited, see `wait_first`.
    soon_waits: u8,
    /// Processes in a row that waited soon after they were started, see `processes`.
    soon_processes: u8,
    /// How many workers were ever reported blocked.
    nr_blocked_reports: u64,
    /// An item waited for a slot since [`forget_inactive`](Self::forget_inactive) found none.
    had_inactive: bool,
    activations: Activations,
    /// Those of `nr_running` that are lent.
    nr_helping: u32,
    /// See [`is_asked_to_help`](Self::is_asked_to_help).
    is_asked_to_help: bool,
    /// Copy of what the inbox says, which pushers keep in their caches.
    lets_push: bool,
    /// Ticks since a worker was woken for work that waits, and did not come, see `starved`.
    ticks_awaiting: u8,
    /// A number of workers has changed, or `touched` has, since
    /// [`take_touched`](Self::take_touched).
    changed: bool,
    /// See [`Touched`].
    touched: Touched,
    busy: [Option<WorkerId>; BUSY_WORKER_HASH_SIZE],
    /// See [`Rule`].
    #[cfg(feature = "explore")]
    broken: Option<Rule>,
}

impl PoolState {
    /// A pool without workers.
    #[must_use]
    pub fn new(config: PoolConfig) -> Self {
        Self {
            idle_word: WorkWord::off_queue(config.id, config.is_bh()),
            config,
            worklist: List::new(),
            arrived: Transit::empty(),
            out: None,
            calm_claims: 0,
            nr_running: 0,
            nr_workers: 0,
            nr_dying: 0,
            nr_working: 0,
            nr_idle: 0,
            idle_head: None,
            idle_tail: None,
            manager: None,
            no_create_before: 0,
            is_retried_on_need: false,
            closing: Closing::Open,
            workers: Slab::new(),
            pwqs: Slab::new(),
            nr_rescuers: 0,
            nr_cursors: 0,
            nr_started: 0,
            nr_began_to_wait: 0,
            short_wakes: 0,
            first_waits: 0,
            soon_waits: 0,
            soon_processes: 0,
            nr_blocked_reports: 0,
            had_inactive: false,
            activations: Activations::off(),
            nr_helping: 0,
            is_asked_to_help: false,
            lets_push: false,
            ticks_awaiting: 0,
            changed: false,
            touched: Touched::default(),
            busy: [None; BUSY_WORKER_HASH_SIZE],
            #[cfg(feature = "explore")]
            broken: None,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PoolId {
        self.config.id
    }

    /// Its constants.
    #[must_use]
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Workers counted as running.
    #[must_use]
    pub fn nr_running(&self) -> u32 {
        self.nr_running
    }

    /// Workers, idle and busy.
    #[must_use]
    pub fn nr_workers(&self) -> u32 {
        self.nr_workers
    }

    /// Idle workers.
    #[must_use]
    pub fn nr_idle(&self) -> u32 {
        self.nr_idle
    }

    /// Whether an item waits for a worker. `true` also while a batch is out, although its worker
    /// may have begun all of it.
    #[inline]
    #[must_use]
    pub fn work_waits(&self) -> bool {
        !self.worklist.is_empty() || !self.arrived.is_empty() || self.has_batch_out()
    }

    /// Whether an item waits that a CPU could run: a worker ought to be woken.
    #[must_use]
    pub fn need_more_worker(&self) -> bool {
        policy::need_more_worker(self.work_waits(), self.nr_running, self.config.concurrency)
    }

    /// Whether as many workers run as may.
    #[inline]
    #[must_use]
    pub fn is_at_capacity(&self) -> bool {
        self.nr_running >= self.config.concurrency
    }

    /// Whether more workers run than may, because blocked ones are back, or some began anyway.
    #[must_use]
    pub fn is_over_capacity(&self) -> bool {
        self.nr_running > self.config.concurrency
    }

    /// Whether another worker could run although none of this pool's items waits.
    #[must_use]
    pub fn has_spare_cpu(&self) -> bool {
        !self.work_waits() && self.nr_running < self.config.concurrency
    }

    /// The idle worker that is woken next; while work waits, the sentinel wakes it.
    #[must_use]
    pub fn standby(&self) -> Option<WorkerId> {
        self.idle_head
    }

    /// Whether a worker is being created.
    #[must_use]
    pub fn has_manager(&self) -> bool {
        self.manager.is_some()
    }

    /// Changes the concurrency: [`policy::UNMANAGED`] while the pool's CPU is gone
    /// (`POOL_DISASSOCIATED`), its own again when the CPU is back. `nr_running` does not depend on
    /// it. What has arrived is listed: where no batches are made, what is queued from now on is
    /// listed at once, and must not overtake it.
    pub fn set_concurrency(&mut self, concurrency: u32) -> Kick {
        self.catch_up();
        self.config.concurrency = concurrency;
        if self.keeps(Rule::ConcurrencyKicks) { self.kick() } else { Kick::None }
    }

    /// Changes when and how many idle workers leave.
    #[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
    pub(crate) fn set_idle_policy(&mut self, timeout: Nanos, ratio: u32) {
        self.config.idle_timeout = timeout;
        self.config.idle_ratio = ratio;
    }

    /// Adds a pwq. Allocates. A pool that was closed because no queue led to it is open again.
    #[must_use]
    pub fn add_pwq(&mut self, config: PwqConfig) -> PwqId {
        self.reopen();
        let has_rescuer = config.rescuer;
        let id = PwqId(self.pwqs.insert(Pwq::new(config)));
        if has_rescuer {
            self.add_rescuer(id);
        }
        id
    }

    /// Counts the items of a pwq at `at` from now on. Each place belongs to one pwq at a time.
    pub fn show_counts(&mut self, pwq: PwqId, at: &'static PwqCounts) {
        let p = self.pwq(pwq);
        p.counts = p.counts.shown(at, p.nr_active);
    }

    /// Removes a pwq if nothing of it is in flight, and returns its final counters.
    ///
    /// # Errors
    /// Why it has to stay.
    pub fn remove_pwq(&mut self, pwq: PwqId) -> Result<PwqStats, Stays> {
        self.assert_caught_up();
        let p = self.pwqs.get(pwq.0).ok_or(Stays::InUse)?;
        if p.rescue.as_ref().is_some_and(RescueState::is_visited) && self.keeps(Rule::VisitedStays)
        {
            return Err(Stays::Visited);
        }
        if !p.is_idle() {
            return Err(Stays::InUse);
        }
        let in_line = p.node.as_ref().filter(|_| p.node_waiting);
        let may_leave = self.keeps(Rule::WaitersLeaveTheLine);
        if may_leave && in_line.is_some_and(|node| !node.leave(self.pwq_ref(pwq))) {
            return Err(Stays::AwaitsSlot);
        }
        self.remove_rescuer(pwq);
        self.pwqs.remove(pwq.0).map(|p| p.stats()).ok_or(Stays::InUse)
    }

    /// Counters of a pwq.
    #[must_use]
    pub fn pwq_stats(&self, pwq: PwqId) -> Option<PwqStats> {
        self.pwqs.get(pwq.0).map(Pwq::stats)
    }

    /// Items of pwq `id` have used the CPU for `micros` more microseconds. Does nothing if the pwq
    /// has gone.
    pub fn charge(&mut self, id: PwqId, micros: u64) {
        if let Some(pwq) = self.pwqs.get_mut(id.0) {
            pwq.rare_stats().cpu_time += micros;
        }
        self.touch(id);
    }

    /// What is on a pwq's lists. For others than its pool's decisions, see [`Reading::load`].
    #[must_use]
    pub fn pwq_load(&self, pwq: PwqId) -> Option<(u32, bool, bool)> {
        self.pwqs.get(pwq.0).map(|p| (p.nr_active, !p.inactive.is_empty(), !p.is_idle()))
    }

    /// All workers, for detectors and tools.
    pub fn workers(&self) -> impl Iterator<Item = WorkerView> + '_ {
        self.assert_caught_up();
        self.workers.iter().map(|(id, w)| self.view(WorkerId(id), w))
    }

    /// One worker.
    #[must_use]
    pub fn worker_view(&self, id: WorkerId) -> Option<WorkerView> {
        self.workers.get(id.0).map(|w| self.view(id, w))
    }

    fn view(&self, id: WorkerId, w: &Worker) -> WorkerView {
        WorkerView {
            id,
            idle: w.phase == Phase::Idle,
            sleeping: w.sleeping,
            running: w.is_counted(),
            hog: self.is_hog(w),
            stands_for_process: w.stands_for_process(),
            seq: w.seq,
            wq: w.current.and_then(|c| self.pwqs.get(c.pwq.0)).map(|p| p.wq),
        }
    }

    /// Whether it was counted until it was seen to hog the CPU.
    fn is_hog(&self, w: &Worker) -> bool {
        w.cpu_intensive && !self.is_cpu_intensive(w)
    }

    /// Whether it runs an item of a `WQ_CPU_INTENSIVE` queue.
    fn is_cpu_intensive(&self, w: &Worker) -> bool {
        w.current.and_then(|c| self.pwqs.get(c.pwq.0)).is_some_and(|pwq| pwq.cpu_intensive)
    }

    // ---- the counts

    #[inline]
    fn worker(&mut self, id: WorkerId) -> &mut Worker {
        self.workers.get_mut(id.0).unwrap_or_else(|| no_worker())
    }

    #[inline]
    fn pwq(&mut self, id: PwqId) -> &mut Pwq {
        self.pwqs.get_mut(id.0).unwrap_or_else(|| no_pwq())
    }

    fn pwq_ref(&self, pwq: PwqId) -> PwqRef {
        PwqRef { pool: self.config.id, pwq }
    }

    /// Changes a worker and keeps *(counted)*: only this function writes `nr_running`. Idle workers
    /// and guests, which never count, are changed directly.
    #[inline]
    fn update(&mut self, id: WorkerId, change: impl FnOnce(&mut Worker)) {
        let worker = self.worker(id);
        let before = (worker.is_counted(), worker.is_working());
        let was_helping = worker.lent && before.0;
        change(worker);
        let after = (worker.is_counted(), worker.is_working());
        let is_helping = worker.lent && after.0;
        self.nr_helping = self.nr_helping - u32::from(was_helping) + u32::from(is_helping);
        self.nr_working = self.nr_working - u32::from(before.1) + u32::from(after.1);
        match (before.0, after.0) {
            (false, true) => self.nr_running += 1,
            (true, false) => self.nr_running -= 1,
            _ => return,
        }
        self.changed = true;
    }

    fn enter_idle(&mut self, id: WorkerId, now: Nanos) {
        let head = self.idle_head;
        self.update(id, |w| {
            w.phase = Phase::Idle;
            w.woken = false;
            w.begins_anyway = false;
            w.last_active = now;
            w.idle_prev = None;
            w.idle_next = head;
        });
        match head {
            Some(head) => self.worker(head).idle_prev = Some(id),
            None => self.idle_tail = Some(id),
        }
        self.idle_head = Some(id);
        self.nr_idle += 1;
        self.changed = true;
    }

    fn leave_idle(&mut self, id: WorkerId) {
        let worker = self.worker(id);
        let (prev, next) = (worker.idle_prev.take(), worker.idle_next.take());
        worker.phase = Phase::Prep;
        worker.woken = false;
        match prev {
            Some(prev) => self.worker(prev).idle_next = next,
            None => self.idle_head = next,
        }
        match next {
            Some(next) => self.worker(next).idle_prev = prev,
            None => self.idle_tail = prev,
        }
        self.nr_idle -= 1;
        self.changed = true;
    }

    /// The worker that runs this address with this function. KERNEL: `find_worker_executing_work` —
    /// same.
    #[inline]
    fn find_executing(&self, addr: usize, func: WorkFn) -> Option<WorkerId> {
        let mut at = self.busy[bucket(addr)];
        while let Some(id) = at {
            let worker = self.workers.get(id.0)?;
            let current = worker.current.as_ref()?;
            if current.addr == addr && core::ptr::fn_addr_eq(current.func, func) {
                return Some(id);
            }
            at = worker.hash_next;
        }
        None
    }

    /// Takes a worker out of its bucket. `behind`: who comes behind it there, as it said itself.
    #[inline]
    fn leave_bucket(&mut self, id: WorkerId, addr: usize, behind: Option<WorkerId>) {
        let first = &mut self.busy[bucket(addr)];
        // Usually the worker is alone in its bucket, or the first.
        if *first == Some(id) {
            *first = behind;
        } else {
            self.hash_remove(id, addr, behind);
        }
    }

    /// Takes a worker out of its bucket, of which it is not the first.
    #[cold]
    fn hash_remove(&mut self, id: WorkerId, addr: usize, behind: Option<WorkerId>) {
        let mut at = self.busy[bucket(addr)];
        while let Some(here) = at {
            let worker = self.worker(here);
            if worker.hash_next == Some(id) {
                worker.hash_next = behind;
                return;
            }
            at = worker.hash_next;
        }
        unreachable!("a busy worker was not in its bucket");
    }

    /// Checks every invariant that can be checked from inside. For tests and the simulator: linear
    /// in the size of the pool.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let counted = self.workers.iter().filter(|(_, w)| w.is_counted()).count();
        assert_eq!(counted as u32, self.nr_running, "(counted)");
        let own = self.workers.iter().filter(|(_, w)| !w.guest).count();
        assert_eq!(own as u32, self.nr_workers, "nr_workers");
        let dying = self.workers.iter().filter(|(_, w)| w.die).count();
        assert_eq!(dying as u32, self.nr_dying, "nr_dying");
        let mut listed = Vec::new();
        let (mut at, mut prev) = (self.idle_head, None);
        while let Some(id) = at {
            let worker = self.workers.get(id.0).expect("(idle): dangling");
            assert_eq!(worker.phase, Phase::Idle, "(idle): {id:?}");
            assert_eq!(worker.idle_prev, prev, "(idle): {id:?}");
            listed.push(id);
            prev = at;
            at = worker.idle_next;
        }
        assert_eq!(self.idle_tail, prev, "(idle): tail");
        assert_eq!(listed.len() as u32, self.nr_idle, "(idle)");
        let helping = self.workers.iter().filter(|(_, w)| w.lent && w.is_counted()).count();
        assert_eq!(helping as u32, self.nr_helping, "nr_helping");
        self.worklist.assert_valid();
        self.check_standby();
        self.check_cursors();
        for (id, pwq) in self.pwqs.iter() {
            if pwq.node.is_none() && !pwq.inactive.is_empty() {
                assert!(
                    pwq.nr_active >= pwq.max_active || pwq.plugged,
                    "pwq{id} has inactive items and slots free"
                );
            }
            if pwq.node.is_some() && !pwq.inactive.is_empty() {
                let is_full = pwq.nr_active >= pwq.max_active;
                assert!(
                    pwq.node_waiting || pwq.plugged || is_full,
                    "pwq{id} has inactive items and is not in line"
                );
            }
            pwq.inactive.assert_valid();
            assert_eq!(pwq.counts.active(), u64::from(pwq.nr_active), "what pwq{id} shows");
        }
    }
}

/// Out of line, so that nothing of it is done where there is one.
#[cold]
#[inline(never)]
fn no_worker() -> ! {
    panic!("a worker that does not exist")
}

/// As [`no_worker`].
#[cold]
#[inline(never)]
fn no_pwq() -> ! {
    panic!("a pwq that does not exist")
}

#[inline]
fn bucket(addr: usize) -> usize {
    // Fibonacci hashing: items are 32 bytes or more apart, the multiplication spreads what is left.
    let hash = (addr as u64 >> 5).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - BUSY_WORKER_HASH_SIZE.ilog2())) as usize
}

// What the protocols in `barrier` and `cancel` read of the tables.
impl PoolState {
    pub(crate) fn executing(&self, addr: usize, func: WorkFn) -> Option<(WorkerId, PwqId, u8)> {
        self.assert_caught_up();
        let id = self.find_executing(addr, func)?;
        let current = self.workers.get(id.0)?.current?;
        Some((id, current.pwq, current.color))
    }

    /// The pwq on which an item that this pool is running must be queued again, if it is of the
    /// same queue: non-reentrance. KERNEL: the last-pool redirect of `__queue_work` — same.
    #[must_use]
    pub fn executing_on(&self, addr: usize, func: WorkFn, wq: WqKey) -> Option<PwqId> {
        let (_, pwq, _) = self.executing(addr, func)?;
        (self.pwqs.get(pwq.0)?.wq == wq).then_some(pwq)
    }

    pub(crate) fn scheduled_mut(&mut self, id: WorkerId) -> &mut List {
        &mut self.worker(id).scheduled
    }

    pub(crate) fn pwq_add_barrier(&mut self, pwq: PwqId, color: u8) {
        let pwq = self.pwq(pwq);
        pwq.nr_in_flight[usize::from(color)] += 1;
        pwq.nr_barriers += 1;
    }

    pub(crate) fn pwq_count_cancelled(&mut self, pwq: PwqId) {
        self.pwq(pwq).rare_stats().cancelled += 1;
        self.touch(pwq);
    }

    pub(crate) fn worklist_after(&self, node: crate::list::Node) -> Option<crate::list::Node> {
        self.worklist.after(node)
    }
}
