//! What a reader is given: plain values.

use std::collections::HashMap;
use std::time::Duration;

use cmwq::shared::mapping::{PoolKind, QueueKind, Reason};
use cmwq::{AffinityScope, CpuSet, Detect, Stats};

/// A copy of what a process shows. The parts are not of one instant: it runs while it is copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// When it was made, in nanoseconds of `CLOCK_MONOTONIC`, as all times here.
    pub taken_ns: u64,
    /// When the process began to show it.
    pub born_ns: u64,
    /// The process.
    pub pid: u32,
    /// How blocking workers are noticed. `None`: in a way that this version does not know.
    pub detect: Option<Detect>,
    /// The scope of queues that name none.
    pub default_scope: Option<AffinityScope>,
    /// CPUs that may be the process's now or later.
    pub possible: CpuSet,
    /// CPUs that it has.
    pub allowed: CpuSet,
    /// CPUs that unbound queues use.
    pub unbound: CpuSet,
    /// CPUs that unbound queues were asked to use, if anybody asked.
    pub requested: Option<CpuSet>,
    /// CPUs that the administrator keeps free of unbound work.
    pub isolated: CpuSet,
    /// CPUs' worth of time that the cgroup grants, if it does not grant all.
    pub quota: Option<f64>,
    /// CPU time after which an item counts as CPU-intensive.
    pub hog_thresh: Duration,
    /// Freezable queues are [frozen](cmwq::freeze).
    pub is_frozen: bool,
    /// The process has [shut the library down](cmwq::shutdown).
    pub is_shut: bool,
    /// The pods of all scopes.
    pub pods: Vec<Pod>,
    /// Worker pools, by id.
    pub pools: Vec<Pool>,
    /// Workers, rescuers and BH contexts.
    pub workers: Vec<Worker>,
    /// Workqueues, in the order in which their places were given out.
    pub queues: Vec<Queue>,
    /// Where queues meet pools (`pool_workqueue`).
    pub links: Vec<Link>,
    /// Shares of `max_active`.
    pub nodes: Vec<Node>,
    /// What there was no room for.
    pub missing: MissingRecords,
    /// Records that were changing whenever they were looked at: left out. A process that was
    /// stopped may have one.
    pub torn: u32,
    /// Workers whose CPU time is not charged yet, by pool and pwq; the thread, and what is
    /// charged of it.
    pub(crate) meters: Vec<((u32, u32), u32, u64)>,
}

/// How many things the mapping had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingRecords {
    /// Workqueues.
    pub queues: u64,
    /// Pools.
    pub pools: u64,
    /// Workers.
    pub workers: u64,
    /// Ways of queues into pools.
    pub links: u64,
    /// Sets of CPUs.
    pub masks: u64,
}

/// A pod of an affinity scope.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pod {
    /// Whose.
    pub scope: AffinityScope,
    /// Which of the scope's.
    pub index: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// The node that holds it.
    pub node: Option<u32>,
}

/// A worker pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pool {
    /// Its number.
    pub id: u32,
    /// What it is for.
    pub kind: PoolKind,
    /// Of a per-CPU or BH pool.
    pub cpu: Option<u32>,
    /// Niceness of its workers.
    pub nice: i32,
    /// `SCHED_…` of its workers, and their real-time priority.
    pub sched: (u32, u32),
    /// Where its workers may run.
    pub cpus: CpuSet,
    /// Where they begin to.
    pub pod: CpuSet,
    /// The NUMA node of the pod.
    pub node: Option<u32>,
    /// Its workers were asked to stay in the pod.
    pub is_strict: bool,
    /// Its workers may leave the pod.
    pub may_stray: bool,
    /// No queue leads there: workers leave as soon as they are idle.
    pub is_unused: bool,
    /// How many workers may run at once; `None`: every active item starts at once.
    pub concurrency: Option<u32>,
    /// Its CPU has gone.
    pub is_away: bool,
    /// Ways of queues that lead here (the kernel's `refcnt`).
    pub refs: u64,
    /// Workers.
    pub nr_workers: u32,
    /// Idle ones.
    pub nr_idle: u32,
    /// Workers that are counted as running.
    pub nr_running: u32,
    /// Items wait for a worker.
    pub work_waits: bool,
    /// When an item was last started; 0: never.
    pub progress_ns: u64,
    /// Workers created.
    pub created: u64,
    /// Workers dismissed because they were idle.
    pub culled: u64,
    /// Creations that failed.
    pub failed: u64,
    /// The reason of the last failure, an `errno`.
    pub errno: i32,
    /// Why it did or did not grow, oldest first.
    pub decisions: Vec<Decision>,
}

/// Why a pool did, or did not, put another worker to work. Repeats are counted, also where two or
/// three took turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Why.
    pub reason: Reason,
    /// How often. What a busy pool repeats is added up when it decides something else or goes to
    /// rest.
    pub count: u64,
    /// When first.
    pub first_ns: u64,
    /// When last.
    pub last_ns: u64,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// Address of the function.
    pub func: u64,
    /// Address of the item, which the function may have freed.
    pub work: u64,
    /// Key of the queue.
    pub queue: u32,
    /// When it began, or a tick (some milliseconds) earlier.
    pub since_ns: u64,
}

/// A worker, a rescuer or a BH context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worker {
    /// The thread, by the number that it has in `/proc`; 0 before it has begun. If the process is
    /// in a PID namespace of its own, such as a container's, also 0 if the thread has ended.
    pub tid: u32,
    /// The same thread by the number that the process knows, as in its traces: another one if it is
    /// in a PID namespace of its own.
    pub own_tid: u32,
    /// As in `ps -L`, without what is behind `+`.
    pub name: String,
    /// The pool that it serves now.
    pub pool: Option<u32>,
    /// The pool that it belongs to; rescuers and BH contexts belong to none.
    pub home: Option<u32>,
    /// The key of its queue, of a rescuer.
    pub rescues: Option<u32>,
    /// The CPU of a BH context.
    pub bh_cpu: Option<u32>,
    /// What it runs, if it runs anything.
    pub activity: Option<Activity>,
    /// Since when it has been idle; 0 if it is not, and between two items.
    pub idle_since_ns: u64,
    /// It is believed blocked.
    pub is_blocked: bool,
    /// It was seen to hog the CPU.
    pub is_hog: bool,
    /// Items that it has started.
    pub runs: u64,
    /// Whose its CPU time is, and what of it is charged already, in nanoseconds.
    pub(crate) meter: Option<((u32, u32), u64)>,
}

/// A workqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// Its number, which another queue may get once this one is gone.
    pub key: u32,
    /// Its name.
    pub name: String,
    /// What kind of pools it leads to.
    pub kind: QueueKind,
    /// The kernel's `WQ_…` bits.
    pub flags: u32,
    /// Its limit.
    pub max_active: u32,
    /// The lower limit of a node.
    pub min_active: u32,
    /// For all CPUs together, of a per-CPU queue.
    pub max_active_total: Option<u32>,
    /// Niceness asked for.
    pub nice: i32,
    /// CPUs asked for.
    pub cpumask: Option<CpuSet>,
    /// Scope asked for; `None`: the default one.
    pub affinity_scope: Option<AffinityScope>,
    /// Workers are to stay in their pods.
    pub affinity_strict: bool,
    /// Items that wait for it outside of the process, such as at a broker: what the program
    /// [says](cmwq::OutsideBacklog).
    pub outside: u64,
    /// Counters of ways into pools that are gone.
    pub(crate) retired: Stats,
}

/// Where a queue meets a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The queue's key.
    pub queue: u32,
    /// The pool's id.
    pub pool: u32,
    /// Which of the pool's pwqs.
    pub pwq: u32,
    /// The CPU whose items go this way; `None`: all.
    pub cpu: Option<u32>,
    /// The limit by itself; `None`: only the node's.
    pub max_active: Option<u32>,
    /// Items admitted and not finished.
    pub nr_active: u32,
    /// Items wait behind a limit.
    pub has_inactive: bool,
    /// Another way has replaced it; it goes when its items are done.
    pub is_retired: bool,
    /// Its counters, without CPU time that its workers were not charged with yet.
    pub stats: Stats,
}

/// A node's share of a queue's `max_active`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The queue's key.
    pub queue: u32,
    /// Which node; `None`: of pods that no node holds, or of all CPUs together.
    pub node: Option<u32>,
    /// Items admitted.
    pub nr: u64,
    /// Items that may be.
    pub max: u64,
    /// Ways that wait for their turn.
    pub nr_waiting: u64,
}

/// `WQ_MEM_RECLAIM`.
const WQ_MEM_RECLAIM: u32 = 1 << 3;

impl Queue {
    /// It has a rescuer.
    #[must_use]
    pub const fn is_mem_reclaim(&self) -> bool {
        self.flags & WQ_MEM_RECLAIM != 0
    }

    /// It leads to pools of CPUs, not of pods.
    #[must_use]
    pub const fn is_percpu(&self) -> bool {
        matches!(self.kind, QueueKind::Percpu | QueueKind::Bh)
    }
}

impl Snapshot {
    /// What a queue's items have done: the sum over its ways into pools, with the CPU time that
    /// running workers were not charged with yet, as far as `/proc` tells.
    #[must_use]
    pub fn stats_of(&self, queue: &Queue) -> Stats {
        let mut sum = queue.retired;
        for link in self.links_of(queue) {
            add(&mut sum, &link.stats);
            sum.cpu_time = sum.cpu_time.saturating_add(self.pending_time(link));
        }
        sum
    }

    /// Threads get the numbers by which the caller knows them.
    pub(crate) fn rename_threads(&mut self, names: &HashMap<u32, u32>) {
        let name = |tid: &mut u32| *tid = names.get(tid).copied().unwrap_or(0);
        self.workers.iter_mut().for_each(|worker| name(&mut worker.tid));
        self.meters.iter_mut().for_each(|(_, tid, _)| name(tid));
    }

    /// A queue's ways into pools: by CPU, those that were replaced last.
    #[must_use]
    pub fn links_of(&self, queue: &Queue) -> &[Link] {
        let begin = self.links.partition_point(|link| link.queue < queue.key);
        let len = self.links[begin..].partition_point(|link| link.queue == queue.key);
        &self.links[begin..begin + len]
    }

    /// CPU time of the workers that serve this way, since it was charged last.
    fn pending_time(&self, link: &Link) -> Duration {
        let whose = (link.pool, link.pwq);
        let begin = self.meters.partition_point(|meter| meter.0 < whose);
        let meters = self.meters[begin..].iter().take_while(|meter| meter.0 == whose);
        let pending = meters.filter_map(|(_, tid, charged)| {
            cpu_time_of(self.pid, *tid).map(|used| used.saturating_sub(*charged))
        });
        // What is less than a microsecond is charged next time.
        Duration::from_micros(pending.fold(0, |sum, ns| sum.saturating_add(ns / 1000)))
    }

    /// The queue with this key.
    #[must_use]
    pub fn queue(&self, key: u32) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.key == key)
    }

    /// The pool with this id.
    #[must_use]
    pub fn pool(&self, id: u32) -> Option<&Pool> {
        let place = self.pools.binary_search_by_key(&id, |pool| pool.id).ok()?;
        self.pools.get(place)
    }

    /// A queue's rescuer.
    #[must_use]
    pub fn rescuer_of(&self, queue: &Queue) -> Option<&Worker> {
        self.workers.iter().find(|worker| worker.rescues == Some(queue.key))
    }
}

/// Adds the counters of a part, which may be anything.
fn add(sum: &mut Stats, part: &Stats) {
    let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
    add(&mut sum.started, part.started);
    add(&mut sum.completed, part.completed);
    sum.cpu_time = sum.cpu_time.saturating_add(part.cpu_time);
    add(&mut sum.cpu_intensive, part.cpu_intensive);
    add(&mut sum.cm_wakeup, part.cm_wakeup);
    add(&mut sum.repatriated, part.repatriated);
    add(&mut sum.mayday, part.mayday);
    add(&mut sum.rescued, part.rescued);
    add(&mut sum.cancelled, part.cancelled);
}

/// The CPU time that a thread has used, in nanoseconds.
fn cpu_time_of(pid: u32, tid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
