//! The conditions of a simulation: the machine, what things cost, how blocking is noticed, what
//! goes wrong.

use cmwq_core::consts;
pub use cmwq_core::detect::TickRole;
use cmwq_core::detect::hogs::HOG_THRESH_NS;
use cmwq_core::place::QueueKind;

use crate::Nanos;
use crate::names::named;
use crate::topology::{Scope, Shape};

/// All conditions. With the same plan and the same configuration a simulation is the same, event
/// for event.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seeds everything that is left to chance (which faults strike when).
    pub seed: u64,
    /// The virtual machine: 1 to [`MAX_CPUS`](crate::scenario::MAX_CPUS) CPUs.
    pub shape: Shape,
    /// The pods of unbound queues that name no scope.
    pub scope: Scope,
    /// The pods of managed queues that name no scope.
    pub managed_scope: Scope,
    /// So many of the first CPUs are isolated: managed queues use them only for items that are
    /// queued for them. Other queues use all CPUs here. At least two others are left, or none is
    /// isolated.
    pub isolated: u32,
    /// What things cost.
    pub costs: Costs,
    /// How blocking workers are noticed.
    pub detect: Detect,
    /// What goes wrong.
    pub faults: Faults,
    /// CPUs leave and come back.
    pub hotplug: Option<Hotplug>,
    /// When a surplus idle worker leaves.
    pub idle_timeout: Nanos,
    /// Pause after a worker could not be created.
    pub create_cooldown: Nanos,
    /// Items are taken along after so many claims in a row during which nobody minded; see
    /// [`PoolConfig::batches`](cmwq_core::PoolConfig).
    pub calm_claims: u8,
    /// So many workers the process may have; see [`may_add_worker`](cmwq_core::may_add_worker).
    pub max_workers: Option<u32>,
    /// Whether an idle pod takes work from a busy one.
    pub lending: bool,
    /// Items are known to need the CPU for long, and threads outside of the pools that queue them
    /// to go on computing: on managed queues whose pods have one CPU such items go to other pods
    /// than their queuer's.
    pub has_long_items: bool,
    /// Threads outside of the pools wait when they have queued an item, and the scheduler moves
    /// them. If `has_long_items`, theirs are very long: those of queuers whose own pod has more
    /// than it may start join one backlog of their cache.
    pub callers_wait: bool,
    /// What is far away costs more, and the scheduler minds it; `None`: caches cost nothing.
    pub caches: Option<Caches>,
    /// CPU time without a sleep after which an item does not count any more, where there is a tick;
    /// 0: never.
    pub hog_thresh: Nanos,
    /// Somebody looks for pools that stand still for so long.
    pub watchdog: Option<Nanos>,
    /// Where threads begin that may run on several CPUs.
    pub placement: Placement,
    /// Which complaints to look for.
    pub checks: Checks,
    /// Keep every event for [`Outcome::events`](crate::Outcome::events), not only their digest.
    pub keep_events: bool,
    /// A deliberate mistake in the driver.
    pub sabotage: Option<Sabotage>,
}

/// CPU time that things take. All 0 by default, so that timelines come out exact.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// Switching a CPU from one thread to another.
    pub switch: Nanos,
    /// Creating a worker's thread.
    pub create: Nanos,
    /// The longest that a thread keeps a CPU while others wait for it; `None`: until it blocks.
    pub slice: Option<Nanos>,
    /// The longest that a worker is without the pool's lock behind an item that left more to do
    /// than counts (a flush, a slot of the node, a retired pwq), before it does that and after;
    /// 0: not at all.
    pub unlocked: Nanos,
    /// The longest from when a queuer finds a pool saturated until its item is in the pool's inbox.
    /// Every other item is as late, of those that nobody looks for meanwhile; 0: none is.
    pub push: Nanos,
}

/// Last-level caches that matter: data is in one of them, and threads are kept near it.
///
/// A thread that wakes is put on an idle CPU of the cache where it ran last, or else on the least
/// loaded one there; nobody looks further. A CPU that has nothing to run takes a waiting thread of
/// its own cache, or, as Linux does between the groups of a scheduling domain, of the cache with
/// most threads, if that one is overloaded or has at least two idle CPUs fewer than its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// CPU time for fetching an issuer's block that was written near another cache.
    pub transfer: Nanos,
    /// A thread that has waited for less than this is not taken to another cache.
    pub hot: Nanos,
    /// A CPU that found nothing to run looks again after so long.
    pub look: Nanos,
    /// Workers of unbound pools wake up in their pod but may be taken out of it (`affinity_strict`
    /// 0); otherwise they stay in it.
    pub is_loose: bool,
}

/// How long it takes until the pool knows, and whether somebody looks at intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detect {
    /// From a worker's blocking to the report of it.
    pub blocked: Nanos,
    /// From a worker's getting a CPU again to the report of it.
    pub resumed: Nanos,
    /// While work waits at capacity, look at the workers at intervals, which the core decides.
    pub tick: Option<TickRole>,
    /// Nobody sees a worker block, unless it says so, while its pool is not watched: as with
    /// sentinels. Checkers that expect exact reports do not hold then.
    pub is_watched_only: bool,
}

/// What goes wrong, and how often (in millionths).
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Reports that come up to [`late_by`](Self::late_by) later.
    pub late: u32,
    /// How late reports may be.
    pub late_by: Nanos,
    /// Reports that never come.
    pub lost: u32,
    /// Runs of which something untrue is reported.
    pub spurious: u32,
    /// Reports that come twice, the second up to [`late_by`](Self::late_by) later.
    pub duplicate: u32,
    /// Thread creations that fail.
    pub create_fails: u32,
    /// All thread creations fail from the first time to the second.
    pub create_outage: Option<(Nanos, Nanos)>,
    /// The system has no more threads for workers than so many: creations beyond fail.
    pub max_threads: Option<u32>,
    /// The process may have no more workers than so many until that time, as by
    /// [`Config::max_workers`]. Items that wait for each other would wait for ever if that did not
    /// end.
    pub limit: Option<(u32, Nanos)>,
    /// CPUs that are slower than the others.
    pub slow_cpus: u32,
    /// How slow those are: their time per nominal time, in hundredths.
    pub slowness: u64,
    /// CPUs on which other programs compete.
    pub foreign_cpus: u32,
    /// Those programs compute for so long, then sleep for so long, over and over.
    pub foreign: (Nanos, Nanos),
    /// Flushers that come to the CPU up to so much after they were told to continue.
    pub slow_flushers: Nanos,
}

impl Faults {
    /// Whether reports are always true, in order, and never lost.
    #[must_use]
    pub const fn detection_is_exact(&self) -> bool {
        self.late == 0 && self.lost == 0 && self.spurious == 0 && self.duplicate == 0
    }

    /// Whether threads can always be had.
    #[must_use]
    pub const fn creation_is_sure(&self) -> bool {
        self.create_fails == 0
            && self.create_outage.is_none()
            && self.max_threads.is_none()
            && self.limit.is_none()
    }
}

/// A storm of CPUs that leave and come back, as long as there is work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hotplug {
    /// On average one leaves after so long (if few enough have left).
    pub gap: Nanos,
    /// It comes back after so long at most.
    pub away: Nanos,
    /// So many are offline at once at most; one always stays.
    pub at_most: u32,
}

/// How the virtual scheduler chooses among the CPUs where a waking thread may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Its last one if that is idle, otherwise the least loaded.
    #[default]
    Nearest,
    /// Of the idle ones one of the slowest kind, and of these the one that was last in use, which
    /// sleeps least deeply; the least loaded if none is idle. As an energy-aware scheduler would.
    /// It looks at every CPU of the domain, so it is for small machines.
    Thrifty,
}

/// Which checkers watch the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// None: for measuring.
    None,
    /// All.
    All,
    /// The one of this name.
    Only(&'static str),
}

named! {
    /// Deliberate mistakes of the driver: each must make a checker complain, or the checker is
    /// worth nothing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Sabotage: "mistake" {
        /// Every third wake-up is forgotten.
        DropWake = "drop-wake",
        /// An item that is still running is queued where the caller wants it.
        IgnoreRedirect = "ignore-redirect",
        /// Nobody notices blocking workers, and nobody looks.
        NoReports = "no-reports",
        /// Blocking is reported of workers that compute.
        FalseReports = "false-reports",
        /// Queues admit more items than they should.
        RaiseLimit = "raise-limit",
        /// Every seventh queued item is forgotten.
        LoseItem = "lose-item",
        /// Two workers are created where one is wanted.
        CreateTwice = "create-twice",
        /// Surplus workers stay.
        NeverCull = "never-cull",
        /// Every fifth item is queued after the one that comes after it.
        Reorder = "reorder",
        /// Ordered queues run two items at once.
        UnorderOrdered = "unorder-ordered",
        /// A flush returns at once.
        FlushEarly = "flush-early",
        /// A wait for an item returns at once.
        WaitEarly = "wait-early",
        /// Who waits for an item asks only the pool that the item's word names.
        AskNamedPool = "ask-named-pool",
        /// Delayed items are queued before their time.
        FireEarly = "fire-early",
        /// A timer that is armed is not set anew.
        KeepDelay = "keep-delay",
        /// Who waits for a delayed item leaves its timer armed.
        FlushLeavesTimer = "flush-leaves-timer",
        /// Slots given to another pool are forgotten.
        DropGrant = "drop-grant",
        /// Idle pods never help.
        NeverLend = "never-lend",
        /// Who has nothing to do looks at all pods.
        WalkPods = "walk-pods",
        /// Workers that block stay bound to their pod.
        NeverUnbind = "never-unbind",
        /// Workers that the tick finds blocked stay bound to their pod.
        LookLeavesBound = "look-leaves-bound",
        /// A pod whose work waits does not have the workers of others watched.
        NeverWatchOthers = "never-watch-others",
        /// The pod of a queuer that computed is not called when its CPU is idle.
        StayTaken = "stay-taken",
        /// A pool is not told that its CPU has left.
        IgnoreLeave = "ignore-leave",
        /// A pool is not told that its CPU is back.
        IgnoreReturn = "ignore-return",
        /// Threads do not return to a CPU that is back.
        Strand = "strand",
        /// Pools are told that processes wait soon, which do not.
        BelieveProcesses = "believe-processes",
        /// No item is taken for a CPU hog.
        NeverYield = "never-yield",
        /// Limits are not split anew when CPUs leave or come back.
        ForgetNodes = "forget-nodes",
        /// Pods are not cut anew when CPUs leave or come back.
        KeepPods = "keep-pods",
        /// Rescuers are never called.
        NeverRescue = "never-rescue",
        /// The watchdog says nothing.
        BlindWatchdog = "blind-watchdog",
        /// The watchdog says nothing of pools that serve more than one CPU.
        BlindToPods = "blind-to-pods",
        /// The watchdog says nothing of queues.
        BlindToQueues = "blind-to-queues",
        /// A queue goes before its items are done.
        DropEarly = "drop-early",
        /// Pools that no queue needs are not closed.
        NeverClose = "never-close",
        /// An ordered queue's new pwq starts items while older ones have some.
        NeverPlug = "never-plug",
        /// It never does.
        StayPlugged = "stay-plugged",
        /// A rescuer leaves a replaced pwq behind that has drained while it was there.
        LeaveDrained = "leave-drained",
        /// A pool never says that pushing into its inbox is not enough any more.
        StaySaturated = "stay-saturated",
    }
}

impl Config {
    /// A machine of `cpus` CPUs that share a cache, on which nothing costs anything and nothing
    /// goes wrong.
    #[must_use]
    pub fn exact(cpus: u32) -> Self {
        Self {
            seed: 0,
            shape: Shape::Pods { cpus: cpus.max(1), pod_cpus: cpus.max(1), node_pods: 1 },
            scope: Scope::usual(QueueKind::Unbound),
            managed_scope: Scope::usual(QueueKind::Managed),
            isolated: 0,
            costs: Costs::default(),
            detect: Detect::default(),
            faults: Faults::default(),
            hotplug: None,
            idle_timeout: consts::IDLE_WORKER_TIMEOUT_NS,
            create_cooldown: consts::CREATE_COOLDOWN_NS,
            calm_claims: consts::CALM_CLAIMS,
            max_workers: None,
            lending: true,
            has_long_items: false,
            callers_wait: false,
            placement: Placement::Nearest,
            caches: None,
            hog_thresh: HOG_THRESH_NS,
            watchdog: None,
            checks: Checks::All,
            keep_events: false,
            sabotage: None,
        }
    }

    /// Whether reports about blocking and resuming come at once and are true.
    #[must_use]
    pub const fn detection_is_exact(&self) -> bool {
        self.detect.blocked == 0 && self.detect.resumed == 0 && self.faults.detection_is_exact()
    }

    /// For how long work may wait beside idle CPUs, given what goes wrong here: until a late report
    /// has come, or the tick has found what no report told. 0 if everything is exact.
    #[must_use]
    pub fn patience(&self) -> Nanos {
        if self.detection_is_exact() {
            return 0;
        }
        let faults = &self.faults;
        let late = if faults.late > 0 || faults.duplicate > 0 { faults.late_by } else { 0 };
        let tick = self.detect.tick.map_or(0, TickRole::longest);
        // A report that is wrong when it comes is put right by the tick after it.
        self.detect.blocked + self.detect.resumed + late + 2 * tick
    }

    /// For how long a worker may sleep unnoticed while the pool's workers are looked at: until the
    /// second look, since the first may take one that computed before its wait for running still.
    /// Without a tick, until the report has come.
    pub(crate) fn unnoticed_at_most(&self) -> Nanos {
        let until_report = self.patience();
        self.detect.tick.map_or(until_report, |tick| until_report.min(2 * tick.longest()))
    }
}
