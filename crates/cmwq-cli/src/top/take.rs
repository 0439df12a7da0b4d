//! Taking samples of a running process.

use std::time::Duration;

use cmwq::foreign::harmless;
use cmwq_observe::inspect::{self, PoolKind, Snapshot, Target};

use super::sample::{Activity, Decision, Pool, Process, Queue, Sample, Worker};
use crate::look::limit::{self, LeftOut};
use crate::look::{Place, Stacks, Symbols, threads};
use crate::{dump, stat};

/// See the module header.
pub(super) struct Taker {
    target: Target,
    symbols: Symbols,
    command: String,
    has_ended: bool,
    shows_all: bool,
}

impl Taker {
    pub(super) fn new(target: Target, shows_all: bool) -> Self {
        let pid = target.pid();
        let command = stat::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        let command = printable(command.trim_end());
        Self { symbols: Symbols::of_process(pid), target, command, has_ended: false, shows_all }
    }

    pub(super) fn pid(&self) -> u32 {
        self.target.pid()
    }

    /// It is known to have ended: its number may be another one's by now.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// A look at the process, which may have ended: what it has left then.
    ///
    /// # Errors
    /// If what it shows makes no sense.
    pub(super) fn sample(&mut self) -> Result<Sample, inspect::ReadError> {
        let pid = self.target.pid();
        let mut seen = self.target.snapshot()?;
        let left_out = if self.shows_all { LeftOut::default() } else { limit::limit(&mut seen) };
        let process = match threads::process(pid) {
            _ if self.has_ended => Process::Ended,
            None => Process::Ended,
            Some(state) if stat::has_ended(state) => Process::Ended,
            // It is another program by now.
            Some(_) if !self.target.is_shown() => Process::Ended,
            Some('T' | 't') => Process::Stopped,
            Some(_) => Process::Runs,
        };
        let tids: Vec<u32> = seen.workers.iter().map(|worker| worker.tid).collect();
        let threads = match process {
            Process::Ended => vec![None; tids.len()],
            _ => threads::look(pid, &tids),
        };
        if process != Process::Ended && self.lacks_names(&seen) {
            self.symbols.look_again();
        }
        let workers = seen.workers.iter().zip(threads).map(|(worker, thread)| Worker {
            tid: worker.tid,
            name: printable(&worker.name),
            pool: worker.pool,
            activity: worker.activity.map(|now| Activity {
                function: printable(&self.symbols.name(now.func)).into(),
                queue: now.queue,
                since_ns: now.since_ns,
            }),
            idle_since_ns: worker.idle_since_ns,
            is_blocked: worker.is_blocked,
            is_hog: worker.is_hog,
            runs: worker.runs,
            thread: thread.filter(|_| worker.tid != 0),
        });
        Ok(Sample {
            taken_ns: seen.taken_ns,
            born_ns: seen.born_ns,
            pid,
            command: self.command.clone(),
            process,
            cpus: seen.allowed.iter().count(),
            detect: seen.detect.map_or("unknown", |detect| detect.name()),
            hog_thresh_ns: nanos(seen.hog_thresh),
            is_frozen: seen.is_frozen,
            is_shut: seen.is_shut,
            workers: workers.collect(),
            queues: seen.queues.iter().map(|one| queue(&seen, one)).collect(),
            pools: seen.pools.iter().map(pool).collect(),
            not_shown: not_shown(&seen).saturating_add(left_out.count()),
        })
    }

    /// Where a worker is, and how it came there, innermost first. Stops the thread for a moment.
    pub(super) fn stack(&self, tid: u32) -> Vec<String> {
        let stack = match Stacks::of(self.pid()).of_thread(tid) {
            Ok(stack) => stack,
            Err(why) => return vec![format!("There is none: {why}")],
        };
        let item = dump::down_to_item(&stack);
        // Whose code it is, is told by the whole path.
        let own = item.iter().find(|place| dump::is_own(place)).cloned().map(with_short_path);
        let at =
            own.and_then(|place| Some(format!("At {} in {}", dump::line(&place)?, place.function)));
        let frames = item.iter().cloned().map(with_short_path);
        let frames = frames.map(|place| format!("  {}", dump::frame(&place)));
        at.into_iter().chain(frames).map(|line| printable(&line)).collect()
    }

    /// It may have loaded a library since.
    fn lacks_names(&mut self, seen: &Snapshot) -> bool {
        let functions = seen.workers.iter().filter_map(|worker| Some(worker.activity?.func));
        functions.into_iter().any(|func| self.symbols.name(func).starts_with("0x"))
    }
}

/// Of the file only its name and its directory's: a screen is not wide.
fn with_short_path(place: Place) -> Place {
    let short = |file: String| {
        let begin = file.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
        file[begin..].to_owned()
    };
    Place { file: place.file.map(short), ..place }
}

/// A name may hold anything, and a terminal obeys some of it.
fn printable(name: &str) -> String {
    harmless(name).into_owned()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn not_shown(seen: &Snapshot) -> u64 {
    let missing = seen.missing;
    [missing.queues, missing.pools, missing.workers, missing.links]
        .into_iter()
        .fold(u64::from(seen.torn), u64::saturating_add)
}

fn queue(seen: &Snapshot, queue: &inspect::Queue) -> Queue {
    let (stats, links) = (seen.stats_of(queue), seen.links_of(queue));
    let mut pools: Vec<u32> = links.iter().map(|link| link.pool).collect();
    pools.sort_unstable();
    pools.dedup();
    let behind = links.iter().filter(|link| link.has_inactive).map(|link| link.pool);
    Queue {
        key: queue.key,
        name: printable(&queue.name),
        kind: queue.kind.name(),
        max_active: queue.max_active,
        min_active: queue.min_active,
        is_mem_reclaim: queue.is_mem_reclaim(),
        started: stats.started,
        completed: stats.completed,
        cpu_ns: nanos(stats.cpu_time),
        cpu_intensive: stats.cpu_intensive,
        cm_wakeup: stats.cm_wakeup,
        repatriated: stats.repatriated,
        mayday: stats.mayday,
        rescued: stats.rescued,
        nr_active: links.iter().map(|link| u64::from(link.nr_active)).sum(),
        outside: queue.outside,
        pools,
        behind: behind.collect(),
    }
}

fn pool(pool: &inspect::Pool) -> Pool {
    let decisions = pool.decisions.iter().map(|decision| Decision {
        reason: decision.reason,
        count: decision.count,
        first_ns: decision.first_ns,
        last_ns: decision.last_ns,
    });
    Pool {
        id: pool.id,
        cpus: pool.cpu.map_or_else(|| pool.pod.to_string(), |cpu| cpu.to_string()),
        kind: pool.kind.name(),
        nice: pool.nice,
        nr_workers: pool.nr_workers,
        nr_idle: pool.nr_idle,
        nr_running: pool.nr_running,
        // A BH pool runs nothing itself: its CPU's context serves it.
        concurrency: pool.concurrency.filter(|_| pool.kind != PoolKind::Bh),
        work_waits: pool.work_waits,
        progress_ns: pool.progress_ns,
        created: pool.created,
        culled: pool.culled,
        failed: pool.failed,
        errno: pool.errno,
        decisions: decisions.collect(),
    }
}
