//! What two looks at a process say: rows with rates. Pure.

use std::rc::Rc;

use cmwq_observe::inspect::Reason;

use super::sample::{Decision, Pool, Queue, Sample, Sched, Thread, Worker};

/// The last look, and the one before it, for rates.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) now: Sample,
    before: Option<Sample>,
}

/// A workqueue.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueueRow<'a> {
    pub(super) queue: &'a Queue,
    /// Items started, per second.
    pub(super) rate: Option<f64>,
    pub(super) in_flight: u64,
    /// CPUs' worth of time, in percent of one.
    pub(super) cpu: Option<f64>,
    /// How long the oldest of its running items has been running.
    pub(super) oldest_ns: Option<u64>,
}

/// A worker pool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PoolRow<'a> {
    pub(super) pool: &'a Pool,
    /// How long work has waited while nothing was started.
    pub(super) waits_ns: Option<u64>,
    pub(super) last: Option<Decision>,
    /// How long ago that was.
    pub(super) last_ago_ns: Option<u64>,
    pub(super) queues: Vec<&'a Queue>,
}

/// What a worker is doing. In the order in which one wants to see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Runs,
    Preempted,
    /// In an item.
    Waits,
    /// In an item, not to be interrupted.
    WaitsHard,
    Stopped,
    Idle,
    /// It has not begun, or has ended.
    NoThread,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Preempted => "preempted",
            Self::Waits => "waits",
            Self::WaitsHard => "waits (D)",
            Self::Stopped => "stopped",
            Self::Idle => "idle",
            Self::NoThread => "no thread",
        }
    }
}

/// A worker.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkerRow<'a> {
    pub(super) worker: &'a Worker,
    pub(super) state: State,
    /// In percent of the time between the looks.
    pub(super) cpu: Option<f64>,
    /// Likewise: ready to run, and without a CPU.
    pub(super) wait: Option<f64>,
    /// How long it has been running its item, or been idle.
    pub(super) since_ns: u64,
    pub(super) queue: Option<&'a Queue>,
    pub(super) function: Option<Rc<str>>,
}

/// A decision of a pool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DecisionRow<'a> {
    pub(super) pool: &'a Pool,
    pub(super) decision: Decision,
    /// How often since the look before.
    pub(super) more: Option<u64>,
    /// How long ago the last time was.
    pub(super) ago_ns: u64,
    /// From the first time to the last.
    pub(super) span_ns: u64,
}

impl Model {
    pub(super) fn new(now: Sample) -> Self {
        Self { now, before: None }
    }

    /// Another look.
    pub(super) fn push(&mut self, now: Sample) {
        // Two looks within one tick of the coarse clock tell no rates; the older one stays.
        if now.taken_ns > self.now.taken_ns {
            self.before = Some(std::mem::replace(&mut self.now, now));
        } else {
            self.now = now;
        }
    }

    /// Seconds between the looks.
    fn seconds(&self) -> Option<f64> {
        let before = self.before.as_ref()?;
        Some(self.now.taken_ns.saturating_sub(before.taken_ns) as f64 / 1e9)
    }

    /// `None`: there was no look before, or the count is another thing's.
    fn per_second(&self, before: Option<u64>, now: u64) -> Option<f64> {
        Some(now.checked_sub(before?)? as f64 / self.seconds()?)
    }

    /// Of nanoseconds, in percent.
    fn percent(&self, before: Option<u64>, now: u64) -> Option<f64> {
        self.per_second(before, now).map(|ns| ns / 1e7)
    }

    fn age(&self, since_ns: u64) -> u64 {
        self.now.taken_ns.saturating_sub(since_ns)
    }

    pub(super) fn queue(&self, key: u32) -> Option<&Queue> {
        self.now.queues.iter().find(|queue| queue.key == key)
    }

    pub(super) fn pool(&self, id: u32) -> Option<&Pool> {
        self.now.pools.iter().find(|pool| pool.id == id)
    }

    pub(super) fn queues(&self) -> Vec<QueueRow<'_>> {
        self.now.queues.iter().map(|queue| self.queue_row(queue)).collect()
    }

    fn queue_row<'a>(&'a self, queue: &'a Queue) -> QueueRow<'a> {
        // A queue's number may be another one's by now.
        let is_it = |old: &&Queue| old.key == queue.key && old.name == queue.name;
        let before = self.before.as_ref().and_then(|before| before.queues.iter().find(is_it));
        let activities = self.now.workers.iter().filter_map(|worker| worker.activity.as_ref());
        let own = activities.filter(|now| now.queue == queue.key);
        QueueRow {
            queue,
            rate: self.per_second(before.map(|old| old.started), queue.started),
            in_flight: queue.started.saturating_sub(queue.completed),
            cpu: self.percent(before.map(|old| old.cpu_ns), queue.cpu_ns),
            oldest_ns: own.map(|now| self.age(now.since_ns)).max(),
        }
    }

    pub(super) fn pools(&self) -> Vec<PoolRow<'_>> {
        self.now.pools.iter().map(|pool| self.pool_row(pool)).collect()
    }

    pub(super) fn pool_row<'a>(&'a self, pool: &'a Pool) -> PoolRow<'a> {
        let leads_there = |queue: &&Queue| queue.pools.contains(&pool.id);
        let last = pool.decisions.iter().max_by_key(|decision| decision.last_ns).copied();
        PoolRow {
            pool,
            waits_ns: pool.work_waits.then(|| self.age(pool.progress_ns.max(self.now.born_ns))),
            last,
            last_ago_ns: last.map(|decision| self.age(decision.last_ns)),
            queues: self.now.queues.iter().filter(leads_there).collect(),
        }
    }

    pub(super) fn workers(&self) -> Vec<WorkerRow<'_>> {
        self.now.workers.iter().map(|worker| self.worker_row(worker)).collect()
    }

    fn worker_row<'a>(&'a self, worker: &'a Worker) -> WorkerRow<'a> {
        let before = self.before.as_ref().and_then(|before| {
            before.workers.iter().find(|old| old.tid == worker.tid && old.tid != 0)?.thread
        });
        let (activity, thread) = (worker.activity.as_ref(), worker.thread);
        let share = |of: fn(Thread) -> u64| self.percent(before.map(of), thread.map(of)?);
        let since_ns = activity.map_or(worker.idle_since_ns, |now| now.since_ns);
        WorkerRow {
            worker,
            state: state(worker),
            cpu: share(|thread| thread.cpu_ns),
            wait: share(|thread| thread.wait_ns),
            since_ns: if since_ns == 0 { 0 } else { self.age(since_ns) },
            queue: activity.and_then(|now| self.queue(now.queue)),
            function: activity.map(|now| Rc::clone(&now.function)),
        }
    }

    pub(super) fn decisions(&self) -> Vec<DecisionRow<'_>> {
        self.now.pools.iter().flat_map(|pool| self.decisions_of(pool)).collect()
    }

    fn decisions_of<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = DecisionRow<'a>> {
        let before = self.before.as_ref();
        let old = before.and_then(|before| before.pools.iter().find(|old| old.id == pool.id));
        // The newest first.
        pool.decisions.iter().rev().map(move |decision| {
            let is_same = |old: &&Decision| {
                (old.reason, old.first_ns) == (decision.reason, decision.first_ns)
            };
            let known = old.and_then(|old| old.decisions.iter().find(is_same));
            let count_before = known.map_or(0, |known| known.count);
            DecisionRow {
                pool,
                decision: *decision,
                more: before.map(|_| decision.count.saturating_sub(count_before)),
                ago_ns: self.age(decision.last_ns),
                span_ns: decision.last_ns.saturating_sub(decision.first_ns),
            }
        })
    }

    /// Items started per second, of all queues.
    pub(super) fn rate(&self) -> Option<f64> {
        self.before.as_ref()?;
        Some(self.queues().iter().filter_map(|row| row.rate).sum())
    }
}

fn state(worker: &Worker) -> State {
    let is_busy = worker.activity.is_some();
    match worker.thread.map(|thread| thread.state) {
        None => State::NoThread,
        Some(Sched::OnCpu) => State::Runs,
        Some(Sched::Preempted) => State::Preempted,
        Some(Sched::Stopped) => State::Stopped,
        Some(Sched::Sleeps | Sched::SleepsHard) if !is_busy => State::Idle,
        Some(Sched::Sleeps) => State::Waits,
        Some(Sched::SleepsHard) => State::WaitsHard,
    }
}

/// What a decision meant for the number of workers at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// One more.
    Grew,
    /// None more, although there was work.
    Stayed,
    /// One that ran counts no more: there is room.
    Room,
    /// One fewer.
    Shrank,
    /// Something is amiss.
    Alarm,
}

impl Effect {
    pub(super) const fn sign(self) -> char {
        match self {
            Self::Grew => '+',
            Self::Stayed => '=',
            Self::Room => '~',
            Self::Shrank => '-',
            Self::Alarm => '!',
        }
    }

    pub(super) const fn of(reason: Reason) -> Self {
        match reason {
            Reason::WokeIdle | Reason::NoWorker | Reason::Created => Self::Grew,
            Reason::Blocked | Reason::Hog => Self::Room,
            Reason::Culled | Reason::Lent => Self::Shrank,
            Reason::CreationFailed | Reason::Mayday => Self::Alarm,
            _ => Self::Stayed,
        }
    }
}

#[cfg(test)]
mod tests;
