//! Copying a mapping and making sense of it.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::thread;
use std::time::Duration;

use cmwq::shared::mapping::layout::{
    DECISION_WORDS, MASK_WORDS, NONE, NodeWords, POOL_DISASSOCIATED, POOL_STRAY, POOL_STRICT,
    POOL_UNUSED, PodWords, PoolWords, PwqWords, QueueWords, RING, WORKER_BH, WORKER_RESCUER,
    WorkerWords, table, unpack_counts, unpack_state, unpack_text,
};
use cmwq::shared::mapping::{PoolKind, QueueKind, Reason};
use cmwq::{AffinityScope, CpuSet, Detect, Stats};
use cmwq_core::policy::UNMANAGED;

use super::view::{
    Activity, Decision, Link, MissingRecords, Node, Pod, Pool, Queue, Snapshot, Worker,
};
use super::words::{Copied, Table, Words};

/// The counters that the records of queues and of pwqs have under the same names.
macro_rules! stats {
    ($words:ident) => {{
        let mut stats = Stats::default();
        stats.started = $words.started;
        stats.completed = $words.completed;
        stats.cpu_time = Duration::from_micros($words.cpu_time);
        stats.cpu_intensive = $words.cpu_intensive;
        stats.cm_wakeup = $words.cm_wakeup;
        stats.repatriated = $words.repatriated;
        stats.mayday = $words.mayday;
        stats.rescued = $words.rescued;
        stats.cancelled = $words.cancelled;
        stats
    }};
}

/// Why a mapping cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not one of this library's.
    NotCmwq,
    /// It is of another version of the layout, an older or a newer one.
    OtherVersion {
        /// The mapping's.
        theirs: u64,
        /// What this library reads.
        ours: u64,
    },
    /// The process has just made it, and not filled it in.
    NotReady,
    /// It is shorter than it says.
    Truncated,
    /// A table is not where it could be.
    Corrupt {
        /// Which.
        table: &'static str,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCmwq => write!(f, "its memfd named cmwq is not one of this library's"),
            Self::OtherVersion { theirs, ours } => write!(
                f,
                "it shows its state in version {theirs} of the layout, and this program reads \
                 version {ours}: use the \
                 tools of the library that the process is linked with"
            ),
            Self::NotReady => write!(f, "it has just begun to show its state; try again"),
            Self::Truncated => write!(f, "its mapping is shorter than it says"),
            Self::Corrupt { table } => {
                write!(f, "its mapping is damaged: there is no table of {table} where it says")
            }
        }
    }
}

impl Error for ReadError {}

/// Everything that is whole.
pub(crate) fn snapshot(words: Words<'_>, taken_ns: u64) -> Result<Snapshot, ReadError> {
    let header = words.header()?;
    let tables = words.tables()?;
    let of = |kind: usize| tables[kind];
    let (masks, pools, workers, pwqs) =
        (of(table::MASKS), of(table::POOLS), of(table::WORKERS), of(table::PWQS));
    let mut reader = Reader { torn: 0, masks: Vec::new(), words };
    reader.masks = reader.read_masks(masks);
    let pods = reader.read(of(table::PODS), |reader, _, words| reader.pod(words));
    let rings = of(table::RINGS);
    let mut seen_pools =
        reader.read(pools, |reader, place, words| reader.pool(words, rings, place));
    seen_pools.sort_by_key(|pool| pool.id);
    seen_pools.dedup_by_key(|pool| pool.id);
    let seen_workers =
        reader.read(workers, |_, _, words| Some(worker(&WorkerWords::from_words(words))));
    let (queues, links) = reader.queues_and_links(of(table::QUEUES), pwqs);
    // Of those that came or went while all this was read none is missing.
    let nr_queues = header.nr_queues.min(words.header()?.nr_queues);
    let missing_queues = match of(table::QUEUES).is_full {
        true => nr_queues.saturating_sub(queues.len() as u64),
        false => 0,
    };
    let mut nodes =
        reader.read(of(table::NODES), |_, _, words| node(&NodeWords::from_words(words)));
    nodes.sort_by_key(|node| (node.queue, node.node));
    let mut meters: Vec<_> = seen_workers
        .iter()
        .filter_map(|worker| worker.meter.map(|(whose, charged)| (whose, worker.tid, charged)))
        .collect();
    meters.sort_unstable();
    let place = |word| usize::try_from(word).ok();
    Ok(Snapshot {
        taken_ns,
        born_ns: header.born_ns,
        pid: header.pid as u32,
        detect: place(header.detect).and_then(|place| Detect::ALL.get(place)).copied(),
        default_scope: scope(header.default_scope),
        possible: reader.mask(header.possible).unwrap_or_default(),
        allowed: reader.mask(header.allowed).unwrap_or_default(),
        unbound: reader.mask(header.unbound).unwrap_or_default(),
        requested: reader.mask(header.requested),
        isolated: reader.mask(header.isolated).unwrap_or_default(),
        quota: Some(header.quota_milli)
            .filter(|quota| *quota != NONE)
            .map(|quota| quota as f64 / 1e3),
        hog_thresh: Duration::from_nanos(header.hog_thresh_ns),
        is_frozen: header.is_frozen != 0,
        is_shut: header.is_shut != 0,
        missing: MissingRecords {
            queues: missing_queues,
            pools: pools.missed,
            workers: workers.missed,
            links: pwqs.missed,
            masks: masks.missed,
        },
        pods,
        pools: seen_pools,
        workers: seen_workers,
        queues,
        links,
        nodes,
        torn: reader.torn,
        meters,
    })
}

struct Reader<'a> {
    torn: u32,
    masks: Vec<Option<CpuSet>>,
    words: Words<'a>,
}

/// Words of the longest record, that of a ring.
const LONGEST: usize = 3 + RING * DECISION_WORDS;
/// How often queues are read again that changed together with their ways into pools.
const ROUNDS: u32 = 8;
/// How long whoever changes one gets to go on. Who was stopped there is not waited for.
const REST: Duration = Duration::from_micros(100);

impl Reader<'_> {
    /// All records of a table that are in use and make sense.
    fn read<T>(
        &mut self,
        from: Table<'_>,
        decode: impl Fn(&Self, usize, &[u64]) -> Option<T>,
    ) -> Vec<T> {
        let mut words = [0; LONGEST];
        let mut all = Vec::new();
        for place in 0..from.len() {
            match from.copy(place, &mut words) {
                Copied::Whole => all.extend(decode(self, place, &words)),
                Copied::Free => {}
                Copied::Torn => self.torn += 1,
            }
        }
        all
    }

    /// By their places, since they are named by them.
    fn read_masks(&mut self, from: Table<'_>) -> Vec<Option<CpuSet>> {
        (0..from.len()).map(|place| read_mask(from, place)).collect()
    }

    fn mask(&self, place: u64) -> Option<CpuSet> {
        let place = usize::try_from(place).ok().filter(|_| place != NONE)?;
        match self.masks.get(place) {
            Some(Some(cpus)) => Some(cpus.clone()),
            // It may have come since they were read, with the pool or the queue that names it.
            _ => read_mask(self.words.tables().ok()?[table::MASKS], place),
        }
    }

    /// When a way into a pool goes, its counters are added to its queue's. So that they are neither
    /// lost nor counted twice, queues are read before and after.
    fn queues_and_links(&mut self, queues: Table<'_>, pwqs: Table<'_>) -> (Vec<Queue>, Vec<Link>) {
        let torn = self.torn;
        let mut before = self.queues(queues);
        for _ in 0..ROUNDS {
            self.torn = torn;
            let links = self.links(pwqs);
            let after = self.queues(queues);
            // One whose counters are on their way is left out of both.
            if after == before && self.torn == torn {
                return (after, links);
            }
            if self.torn != torn {
                thread::sleep(REST);
            }
            before = after;
        }
        (before, self.links(pwqs))
    }

    /// Each number once: one that is seen twice was given out again meanwhile.
    fn queues(&mut self, from: Table<'_>) -> Vec<Queue> {
        let queues =
            self.read(from, |reader, _, words| reader.queue(&QueueWords::from_words(words)));
        let mut known = HashSet::with_capacity(queues.len());
        let mut queues: Vec<Queue> =
            queues.into_iter().rev().filter(|queue| known.insert(queue.key)).collect();
        queues.reverse();
        queues
    }

    fn links(&mut self, from: Table<'_>) -> Vec<Link> {
        let mut links = self.read(from, |_, _, words| Some(link(&PwqWords::from_words(words))));
        // Each way once, as above: the counters of one that has gone are its queue's by now.
        links.reverse();
        let mut known = HashSet::with_capacity(links.len());
        links.retain(|link| known.insert((link.pool, link.pwq)));
        links.sort_by_key(|link| (link.queue, link.is_retired, link.cpu, link.pool, link.pwq));
        links
    }

    fn pod(&self, words: &[u64]) -> Option<Pod> {
        let words = PodWords::from_words(words);
        let (scope, cpus) = (scope(words.scope)?, self.mask(words.cpus)?);
        Some(Pod { scope, index: words.index as u32, cpus, node: small(words.node) })
    }

    fn pool(&self, words: &[u64], rings: Table<'_>, place: usize) -> Option<Pool> {
        let words = PoolWords::from_words(words);
        let (nr_workers, nr_idle, nr_running) = unpack_counts(words.counts);
        Some(Pool {
            id: small(words.id)?,
            kind: PoolKind::from_word(words.kind),
            cpu: small(words.cpu),
            nice: words.nice as i32,
            sched: ((words.sched >> 32) as u32, words.sched as u32),
            cpus: self.mask(words.cpus).unwrap_or_default(),
            pod: self.mask(words.pod).unwrap_or_default(),
            node: small(words.node),
            is_strict: words.flags & POOL_STRICT != 0,
            may_stray: words.flags & POOL_STRAY != 0,
            is_unused: words.flags & POOL_UNUSED != 0,
            concurrency: small(words.concurrency).filter(|limit| *limit != UNMANAGED),
            is_away: words.flags & POOL_DISASSOCIATED != 0,
            refs: words.refs,
            nr_workers,
            nr_idle,
            nr_running,
            work_waits: words.work_waits != 0,
            progress_ns: words.progress_ns,
            created: words.created,
            culled: words.culled,
            failed: words.failed,
            errno: words.errno as i32,
            decisions: decisions(rings, place),
        })
    }

    fn queue(&self, words: &QueueWords) -> Option<Queue> {
        let name = [words.name0, words.name1, words.name2, words.name3];
        Some(Queue {
            key: small(words.key)?,
            name: unpack_text(&name),
            kind: QueueKind::from_word(words.kind),
            flags: words.flags as u32,
            max_active: words.max_active as u32,
            min_active: words.min_active as u32,
            max_active_total: small(words.total),
            nice: words.nice as i32,
            cpumask: self.mask(words.cpumask),
            affinity_scope: scope(words.scope),
            affinity_strict: words.strict != 0,
            outside: words.outside,
            retired: stats!(words),
        })
    }
}

fn read_mask(from: Table<'_>, place: usize) -> Option<CpuSet> {
    let mut words = [0; 3 + MASK_WORDS];
    match from.copy(place, &mut words) {
        Copied::Whole => {
            let len = usize::try_from(words[2]).unwrap_or(MASK_WORDS).min(MASK_WORDS);
            Some(CpuSet::from_words(words[3..3 + len].to_vec()))
        }
        Copied::Free | Copied::Torn => None,
    }
}

/// A number that is a `u32`, or nothing.
fn small(word: u64) -> Option<u32> {
    u32::try_from(word).ok()
}

fn scope(word: u64) -> Option<AffinityScope> {
    AffinityScope::ALL.get(usize::try_from(word).ok()?).copied()
}

/// Oldest first. A ring that changes all the time is left out.
fn decisions(rings: Table<'_>, place: usize) -> Vec<Decision> {
    let mut words = [0; LONGEST];
    // A ring is never given out by itself: its life is its pool's.
    if !rings.copy_any(place, &mut words) {
        return Vec::new();
    }
    let (next, ring) = (words[2], &words[3..]);
    let oldest = next.saturating_sub(RING as u64);
    let numbers = (oldest..next).take(RING);
    let entries = numbers.map(|number| (number % RING as u64) as usize * DECISION_WORDS);
    let decision = |at: usize| {
        let entry = ring.get(at..at + DECISION_WORDS)?;
        let (reason, first_ns, last_ns) = (Reason::from_word(entry[0]), entry[2], entry[3]);
        Some(Decision { reason, count: entry[1], first_ns, last_ns })
    };
    entries.filter_map(decision).collect()
}

fn worker(words: &WorkerWords) -> Worker {
    let is = |flag| words.flags & flag != 0;
    let of = small(words.of);
    let activity = (words.func != 0).then_some(Activity {
        func: words.func,
        work: words.work,
        queue: words.queue as u32,
        since_ns: words.since_ns,
    });
    let (is_blocked, is_hog) = unpack_state(words.flags, words.runs);
    let meter = (words.meter_pwq != NONE)
        .then_some((((words.meter_pwq >> 32) as u32, words.meter_pwq as u32), words.meter_charged));
    Worker {
        tid: words.tid as u32,
        own_tid: words.tid as u32,
        name: unpack_text(&[words.comm0, words.comm1]),
        pool: small(words.pool),
        home: small(words.home),
        rescues: of.filter(|_| is(WORKER_RESCUER)),
        bh_cpu: of.filter(|_| is(WORKER_BH)),
        idle_since_ns: if activity.is_none() { words.since_ns } else { 0 },
        activity,
        is_blocked: activity.is_some() && is_blocked,
        is_hog: activity.is_some() && is_hog,
        runs: words.runs,
        meter,
    }
}

fn link(words: &PwqWords) -> Link {
    Link {
        queue: words.queue as u32,
        pool: (words.id >> 32) as u32,
        pwq: words.id as u32,
        cpu: small(words.cpu),
        max_active: small(words.max_active).filter(|limit| *limit != u32::MAX),
        nr_active: words.active as u32,
        has_inactive: words.has_inactive != 0,
        is_retired: words.retired != 0,
        stats: stats!(words),
    }
}

fn node(words: &NodeWords) -> Option<Node> {
    let (nr, max, nr_waiting) = (words.nr, words.max, words.nr_waiting);
    Some(Node { queue: small(words.queue)?, node: small(words.node), nr, max, nr_waiting })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::mapping::whole;

    #[test]
    fn cpus_that_came_after_the_sets_were_read_are_found() {
        let mapping = whole();
        let reader = Reader { torn: 0, masks: Vec::new(), words: Words(&mapping) };
        assert!(reader.mask(1).is_some());
        assert_eq!((reader.mask(3), reader.mask(NONE)), (None, None));
    }
}
