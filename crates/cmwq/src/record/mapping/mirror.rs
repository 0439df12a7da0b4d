//! What the runtime calls to keep the mapping.
//!
//! On an item's way these are a few stores of values that are in hand, to lines of the cache that
//! belong to the worker or to whoever holds the pool's lock: the worker's run, and the pool's
//! counts if they have changed. Counts of items are not even copied: the core counts in the pwq's
//! record. Everything else is written when it changes.
//!
//! ORDERING (all accesses here): no pairing: see [`super::seqlock`] for the words that belong
//! together.

use cmwq_core::{Claim, PoolId, PoolState, PwqId, PwqStats, Touched, WorkerId, WqKey};

use super::layout::{
    NONE, POOL_DISASSOCIATED, POOL_STRAY, POOL_STRICT, POOL_UNUSED, PoolRecord, PwqRecord,
    QueueRecord, WORKER_BH, WORKER_LENT, WORKER_RESCUER, WorkerRecord, pack_counts, pack_state,
    pack_text, pwq_id,
};
use super::map::Map;
use super::slots::Slot;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::sync::{AtomicU64, Ordering};
use crate::os::topo::{AffinityScope, CpuSet, Pod};

mod queue;
mod ring;

pub(crate) use queue::{NodeCounts, QueueMirror, QueueSettings, QueueValues};
use ring::Ring;

/// A build to compare with, in which nothing of this is on an item's way.
const IS_LEFT_OUT: bool = cfg!(cmwq_no_inspect);

/// The process's mapping, if it has one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inspect {
    map: Option<&'static Map>,
}

/// What does not change of a pool while it has the same queues.
#[derive(Debug)]
pub(crate) struct PoolValues<'a> {
    pub(crate) kind: super::PoolKind,
    /// Of a pool that serves one CPU by its kind.
    pub(crate) cpu: Option<u32>,
    pub(crate) nice: i32,
    /// Policy in the upper half, priority in the lower one.
    pub(crate) sched: u64,
    pub(crate) cpus: &'a CpuSet,
    pub(crate) pod: &'a CpuSet,
    pub(crate) node: Option<u32>,
    pub(crate) concurrency: u32,
    pub(crate) is_strict: bool,
    /// The scheduler may move its workers out of the pod.
    pub(crate) may_stray: bool,
}

/// What is known of the machine, for [`Inspect::place`].
pub(crate) struct Places {
    pub(crate) possible: CpuSet,
    pub(crate) allowed: CpuSet,
    pub(crate) unbound: CpuSet,
    pub(crate) requested: Option<CpuSet>,
    pub(crate) isolated: CpuSet,
    pub(crate) default_scope: AffinityScope,
    /// The pods of each scope.
    pub(crate) pods: Vec<(AffinityScope, Vec<Pod>)>,
}

fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

/// Adds to a word that has one writer at a time.
fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

fn signed(number: i32) -> u64 {
    i64::from(number) as u64
}

fn or_none(number: Option<impl Into<u64>>) -> u64 {
    number.map_or(NONE, Into::into)
}

impl Inspect {
    /// Shows nothing.
    pub(crate) const fn off() -> Self {
        Self { map: None }
    }

    /// Makes the mapping. What the system refuses is said once and done without.
    pub(crate) fn new() -> Self {
        if IS_LEFT_OUT {
            return Self::off();
        }
        let map = Map::make();
        if let Err(error) = &map {
            notice::once(Notice::Inspect, || {
                format!(
                    "there is no memory to show this process's queues in ({error}); tools like \
                     `cmwq dump` will not \
                     find them"
                )
            });
        }
        Self { map: map.ok() }
    }

    /// Changes the header.
    pub(crate) fn header(&self, change: impl FnOnce(&super::layout::Header)) {
        if let Some(map) = self.map {
            change(map.header);
        }
    }

    fn mask(&self, cpus: &CpuSet) -> u64 {
        self.map.map_or(NONE, |map| map.mask(cpus))
    }

    /// CPUs, scopes and pods as they are now.
    pub(crate) fn place(&self, places: impl FnOnce() -> Places) {
        let Some(map) = self.map else { return };
        let places = places();
        let header = map.header;
        set(&header.possible, map.mask(&places.possible));
        set(&header.allowed, map.mask(&places.allowed));
        set(&header.unbound, map.mask(&places.unbound));
        set(&header.requested, places.requested.as_ref().map_or(NONE, |cpus| map.mask(cpus)));
        set(&header.isolated, map.mask(&places.isolated));
        set(&header.default_scope, scope_word(places.default_scope));
        map.replace_pods(|| {
            let mut slots = Vec::new();
            for (scope, pods) in &places.pods {
                for (index, pod) in pods.iter().enumerate() {
                    let cpus = map.mask(&pod.cpus);
                    slots.push(map.pods.take(|record| {
                        set(&record.scope, scope_word(*scope));
                        set(&record.index, index as u64);
                        set(&record.cpus, cpus);
                        set(&record.node, or_none(pod.node));
                    }));
                }
            }
            slots
        });
    }

    pub(crate) fn pool(&self, id: u32, values: &PoolValues<'_>) -> PoolMirror {
        let Some(map) = self.map else { return PoolMirror::default() };
        let describe = describer(map, id, values);
        let slot = map.pools.take(describe);
        let ring = slot.index().map(|index| Ring::new(&map.rings[index as usize]));
        PoolMirror {
            record: slot.record(),
            ring,
            map: Some(map),
            _slot: Some(slot),
            ..PoolMirror::default()
        }
    }

    /// The record of a worker-to-be.
    pub(crate) fn worker(&self, role: Role, name: &str) -> WorkerMirror {
        let Some(map) = self.map else { return WorkerMirror::default() };
        let [comm0, comm1] = pack_text(name);
        let (flags, home, of) = match role {
            Role::Worker(pool) => (0, u64::from(pool), NONE),
            Role::Rescuer(wq) => (WORKER_RESCUER, NONE, u64::from(wq.0)),
            Role::Bh(cpu) => (WORKER_BH, NONE, u64::from(cpu)),
        };
        let slot = map.workers.take(|record| {
            let words = [
                (&record.func, 0),
                (&record.work, 0),
                (&record.queue, NONE),
                (&record.since_ns, clock::coarse()),
                (&record.runs, 0),
                (&record.pool, home),
                (&record.flags, flags),
                (&record.tid, 0),
                (&record.home, home),
                (&record.meter_pwq, NONE),
                (&record.meter_charged, 0),
                (&record.of, of),
                (&record.comm0, comm0),
                (&record.comm1, comm1),
            ];
            words.into_iter().for_each(|(word, value)| set(word, value));
        });
        WorkerMirror { record: slot.record(), _slot: Some(slot) }
    }
}

/// Writes what does not change about a pool into its record.
fn describer(map: &'static Map, id: u32, values: &PoolValues<'_>) -> impl Fn(&PoolRecord) + use<> {
    let (cpus, pod) = (map.mask(values.cpus), map.mask(values.pod));
    let (kind, cpu) = (values.kind as u64, or_none(values.cpu));
    let stray = if values.may_stray { POOL_STRAY } else { 0 };
    let flags = stray | if values.is_strict { POOL_STRICT } else { 0 };
    let (nice, sched) = (signed(values.nice), values.sched);
    let (node, concurrency) = (or_none(values.node), u64::from(values.concurrency));
    move |record| {
        let words = [
            (&record.id, u64::from(id)),
            (&record.kind, kind),
            (&record.cpu, cpu),
            (&record.nice, nice),
            (&record.sched, sched),
            (&record.cpus, cpus),
            (&record.pod, pod),
            (&record.node, node),
            (&record.concurrency, concurrency),
            (&record.flags, flags),
        ];
        words.into_iter().for_each(|(word, value)| set(word, value));
    }
}

fn scope_word(scope: AffinityScope) -> u64 {
    AffinityScope::ALL.iter().position(|known| *known == scope).map_or(NONE, |place| place as u64)
}

/// Whose record a worker's is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// Of this pool.
    Worker(u32),
    /// Of this queue.
    Rescuer(WqKey),
    /// Of this CPU.
    Bh(u32),
}

/// A worker's record, if it has one.
#[derive(Debug, Default)]
pub(crate) struct WorkerMirror {
    record: Option<&'static WorkerRecord>,
    /// Keeps the record one's own.
    _slot: Option<Slot<WorkerRecord>>,
}

impl WorkerMirror {
    /// The record.
    #[inline]
    pub(crate) fn record(&self) -> Option<&'static WorkerRecord> {
        if IS_LEFT_OUT { None } else { self.record }
    }

    /// The thread has begun, and this is its number; 0: it ends.
    pub(crate) fn set_tid(&self, tid: u32) {
        if let Some(record) = self.record() {
            set(&record.tid, tid.into());
        }
    }

    /// It has begun the next item of a batch, of the same queue. By itself. The clock is not read:
    /// the time stays that of the first one.
    #[inline]
    pub(crate) fn started_next(&self, claim: &Claim) {
        let Some(record) = self.record() else { return };
        super::seqlock::write(&record.seq, || {
            set(&record.func, claim.func as usize as u64);
            set(&record.work, claim.item as usize as u64);
        });
        add(&record.runs, 1);
    }

    /// Its item has ended. That it idles, and since when, [`idle`](Self::idle) tells. By itself.
    #[inline]
    pub(crate) fn ended(&self) {
        let Some(record) = self.record() else { return };
        super::seqlock::write(&record.seq, || {
            set(&record.func, 0);
            set(&record.since_ns, 0);
        });
    }

    /// The thread has no item any more, and sleeps or does something else. By itself. `now`: by the
    /// coarse clock, read only if it is needed.
    #[inline]
    pub(crate) fn idle(&self, now: impl FnOnce() -> u64) {
        let Some(record) = self.record() else { return };
        let [func, since] = [&record.func, &record.since_ns].map(|at| at.load(Ordering::Relaxed));
        if func != 0 || since == 0 {
            super::seqlock::write(&record.seq, || {
                set(&record.func, 0);
                set(&record.since_ns, now());
            });
        }
    }

    /// The thread serves this pool from now on; `is_own`: its own.
    pub(crate) fn serve(&self, pool: u32, is_own: bool) {
        let Some(record) = self.record() else { return };
        self.idle(clock::coarse);
        let flags = record.flags.load(Ordering::Relaxed) & !WORKER_LENT;
        let is_worker = flags & (WORKER_RESCUER | WORKER_BH) == 0;
        set(&record.flags, if is_own || !is_worker { flags } else { flags | WORKER_LENT });
        super::seqlock::write(&record.seq, || set(&record.pool, pool.into()));
    }

    /// What the core believes of the worker, in the run that it is in.
    pub(crate) fn set_state(&self, is_blocked: bool, is_hog: bool) {
        let Some(record) = self.record() else { return };
        let [flags, run] = [&record.flags, &record.runs].map(|word| word.load(Ordering::Relaxed));
        set(&record.flags, pack_state(flags, run, is_blocked, is_hog));
    }
}

impl WorkerRecord {
    /// Whose the thread's CPU time is.
    pub(crate) fn show_meter(&self, pool: PoolId, pwq: Option<PwqId>, charged: u64) {
        set(&self.meter_pwq, pwq.map_or(NONE, |pwq| pwq_id(pool.0, pwq.0)));
        set(&self.meter_charged, charged);
    }
}

/// Lock: L. A pool's record, and those of its pwqs.
#[derive(Debug, Default)]
pub(crate) struct PoolMirror {
    // What is looked at for each item comes first.
    record: Option<&'static PoolRecord>,
    /// By [`PwqId`]; those that have a slot below.
    pwqs: Vec<Option<&'static PwqRecord>>,
    ring: Option<Ring>,
    /// Copy of what was stored last.
    work_waits: bool,
    map: Option<&'static Map>,
    /// They keep the records one's own.
    _slot: Option<Slot<PoolRecord>>,
    pwq_slots: Vec<Option<Slot<PwqRecord>>>,
}

impl PoolMirror {
    #[inline]
    fn record(&self) -> Option<&'static PoolRecord> {
        if IS_LEFT_OUT { None } else { self.record }
    }

    #[inline]
    fn pwq(&self, pwq: PwqId) -> Option<&'static PwqRecord> {
        *self.pwqs.get(pwq.0 as usize)?
    }

    /// What may have changed while the lock was held.
    #[inline]
    pub(crate) fn publish(&mut self, core: &mut PoolState) {
        if IS_LEFT_OUT {
            return;
        }
        if core.work_waits() != self.work_waits {
            self.work_waits = !self.work_waits;
            if let Some(record) = self.record() {
                set(&record.work_waits, self.work_waits.into());
            }
        }
        if core.has_changed() {
            self.publish_changed(core);
        }
    }

    #[inline(never)]
    fn publish_changed(&mut self, core: &mut PoolState) {
        if let Some(record) = self.record() {
            set(&record.counts, pack_counts(core.nr_workers(), core.nr_idle(), core.nr_running()));
        }
        if let Some(touched) = core.take_touched() {
            self.publish_touched(core, &touched);
        }
    }

    /// A worker has claimed an item. `now`: by the coarse clock, read only if it is needed.
    #[inline]
    pub(crate) fn started(&self, worker: &WorkerMirror, claim: &Claim, now: impl FnOnce() -> u64) {
        let Some(pool) = self.record() else { return };
        let now = now();
        set(&pool.progress_ns, now);
        if let Some(record) = worker.record() {
            super::seqlock::write(&record.seq, || {
                set(&record.func, claim.func as usize as u64);
                set(&record.work, claim.item as usize as u64);
                set(&record.queue, claim.wq.0.into());
                set(&record.since_ns, now);
            });
            // What was believed was of another run.
            add(&record.runs, 1);
        }
    }

    #[cold]
    fn publish_touched(&mut self, core: &PoolState, touched: &Touched) {
        if touched.is_all() {
            (0..self.pwqs.len()).for_each(|pwq| self.publish_pwq(core, PwqId(pwq as u32)));
        }
        for pwq in touched.iter() {
            self.publish_pwq(core, pwq);
            if core.pwq_load(pwq).is_some_and(|load| load.1) {
                self.decided(super::Reason::MaxActive);
            }
        }
    }

    /// All that there is to know of a pwq, but for what the core counts there itself.
    fn publish_pwq(&self, core: &PoolState, pwq: PwqId) {
        let Some(record) = self.pwq(pwq) else { return };
        if let Some((_, has_inactive, _)) = core.pwq_load(pwq) {
            set(&record.has_inactive, has_inactive.into());
        }
        if let Some(stats) = core.pwq_stats(pwq) {
            set(&record.cpu_time, stats.cpu_time);
            set(&record.cpu_intensive, stats.cpu_intensive);
            set(&record.cm_wakeup, stats.cm_wakeup);
            set(&record.repatriated, stats.repatriated);
            set(&record.mayday, stats.mayday);
            set(&record.rescued, stats.rescued);
            set(&record.cancelled, stats.cancelled);
        }
    }

    /// A new pwq. `cpu`: of the way that leads to it, if it is one CPU's.
    pub(crate) fn add_pwq(
        &mut self,
        core: &mut PoolState,
        wq: WqKey,
        pwq: PwqId,
        max_active: u32,
        cpu: Option<u32>,
    ) {
        let Some(map) = self.map else { return };
        let slot = map.pwqs.take(|record| {
            let words = [
                (&record.queue, u64::from(wq.0)),
                (&record.id, pwq_id(core.id().0, pwq.0)),
                (&record.cpu, or_none(cpu)),
                (&record.max_active, max_active.into()),
                (&record.retired, 0),
                (&record.has_inactive, 0),
            ];
            words.into_iter().for_each(|(word, value)| set(word, value));
            let counters = [
                &record.started,
                &record.completed,
                &record.active,
                &record.cancelled,
                &record.cm_wakeup,
                &record.cpu_time,
                &record.cpu_intensive,
                &record.repatriated,
                &record.mayday,
                &record.rescued,
            ];
            counters.into_iter().for_each(|counter| set(counter, 0));
        });
        let place = pwq.0 as usize;
        if self.pwqs.len() <= place {
            self.pwqs.resize(place + 1, None);
            self.pwq_slots.resize_with(place + 1, || None);
        }
        self.pwqs[place] = slot.record();
        if let Some(record) = slot.record() {
            core.show_counts(pwq, record.counts());
        }
        self.pwq_slots[place] = Some(slot);
        self.count_refs(1);
    }

    /// The pwq has gone.
    pub(crate) fn remove_pwq(&mut self, pwq: PwqId) {
        let place = pwq.0 as usize;
        if place < self.pwqs.len() {
            self.pwqs[place] = None;
            self.pwq_slots[place] = None;
        }
        self.count_refs(u64::MAX);
    }

    pub(crate) fn retire_pwq(&self, pwq: PwqId) {
        if let Some(record) = self.pwq(pwq) {
            set(&record.retired, 1);
        }
    }

    pub(crate) fn set_max_active(&self, pwq: PwqId, max_active: u32) {
        if let Some(record) = self.pwq(pwq) {
            set(&record.max_active, max_active.into());
        }
    }

    fn count_refs(&self, more: u64) {
        if let Some(record) = self.record() {
            add(&record.refs, more);
        }
    }

    /// The pool is for other queues from now on.
    pub(crate) fn renew(&self, id: u32, values: &PoolValues<'_>) {
        let (Some(record), Some(map)) = (self.record(), self.map) else { return };
        let describe = describer(map, id, values);
        super::seqlock::write(&record.seq, || describe(record));
    }

    /// Where the pool stands.
    pub(crate) fn set_place(&self, core: &PoolState, is_disassociated: bool, is_unused: bool) {
        let Some(record) = self.record() else { return };
        let constant = record.flags.load(Ordering::Relaxed) & (POOL_STRAY | POOL_STRICT);
        let disassociated = if is_disassociated { POOL_DISASSOCIATED } else { 0 };
        set(&record.flags, constant | disassociated | if is_unused { POOL_UNUSED } else { 0 });
        set(&record.concurrency, core.config().concurrency.into());
    }

    // ---- decisions

    /// No worker is woken. If work waits, that is because none is idle. To be called after
    /// [`publish`](Self::publish).
    #[inline]
    pub(crate) fn kicked_nobody(&mut self, core: &PoolState) {
        if !IS_LEFT_OUT && self.work_waits && core.nr_idle() == 0 {
            self.decided(super::Reason::NoIdle);
        }
    }

    #[inline]
    pub(crate) fn decided(&mut self, reason: super::Reason) {
        if let Some(ring) = self.ring.as_mut().filter(|_| !IS_LEFT_OUT) {
            ring.decided(reason);
        }
    }

    /// Writes down what was only counted. `now`: by the coarse clock.
    pub(crate) fn publish_ring(&mut self, now: u64) {
        if let Some(ring) = &mut self.ring {
            ring.publish(now);
        }
    }

    pub(crate) fn created(&mut self) {
        if let Some(record) = self.record() {
            add(&record.created, 1);
        }
        self.decided(super::Reason::Created);
    }

    pub(crate) fn creation_failed(&mut self, errno: i32) {
        if let Some(record) = self.record() {
            add(&record.failed, 1);
            set(&record.errno, errno.unsigned_abs().into());
        }
        self.decided(super::Reason::CreationFailed);
    }

    pub(crate) fn culled(&mut self) {
        if let Some(record) = self.record() {
            add(&record.culled, 1);
        }
        self.decided(super::Reason::Culled);
    }
}

/// A worker as the core sees it.
pub(crate) fn set_worker_state(core: &PoolState, id: WorkerId, worker: &WorkerMirror) {
    if let Some(view) = core.worker_view(id) {
        worker.set_state(view.sleeping, view.hog);
    }
}

/// Sums are kept for pwqs that are gone.
pub(super) fn set_stats(record: &QueueRecord, stats: &PwqStats) {
    set(&record.started, stats.started);
    set(&record.completed, stats.completed);
    set(&record.cpu_time, stats.cpu_time);
    set(&record.cpu_intensive, stats.cpu_intensive);
    set(&record.cm_wakeup, stats.cm_wakeup);
    set(&record.repatriated, stats.repatriated);
    set(&record.mayday, stats.mayday);
    set(&record.rescued, stats.rescued);
    set(&record.cancelled, stats.cancelled);
}
