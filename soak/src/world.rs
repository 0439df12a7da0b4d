//! What the threads share: stations, each a queue with its items and their books.
//!
//! A station is replaced now and then. The old one is *closed* when nobody uses it any more: its
//! queue is dropped, which waits for its items, and its books are audited.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use cmwq::{AffinityScope, Attrs, Builder, CpuSet, ErrorKind, Workqueue};
use fastrand::Rng;

use crate::body::{self, Level, TOP};
use crate::books::Books;
use crate::subject::{Subject, SubjectBooks};
use crate::sys;
use crate::watch::fail;

const STATIONS: usize = 24;
const SUBJECTS: usize = 16;

/// A queue, its items, their books.
pub(crate) struct Station {
    pub(crate) wq: Workqueue,
    pub(crate) kind: &'static str,
    /// Its items wait only for items of higher ones.
    pub(crate) level: Level,
    /// It is drained now and then, and then refuses what others queue.
    pub(crate) may_refuse: bool,
    /// Its items must not block.
    pub(crate) is_bh: bool,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) closures: Arc<Books>,
}

/// Sums over stations that were closed, and over what belongs to none.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) calls: AtomicU64,
    pub(crate) closures: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) runs: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) queues: AtomicU64,
    pub(crate) panics_thrown: AtomicU64,
    pub(crate) panics_joined: AtomicU64,
    pub(crate) panics_handled: AtomicU64,
    pub(crate) forks: AtomicU64,
    /// Queues that could not be made, or changed, for want of a thread.
    pub(crate) thread_failures: AtomicU64,
    pub(crate) freezes: AtomicU64,
    pub(crate) mask_changes: AtomicU64,
}

impl Totals {
    pub(crate) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::SeqCst);
    }
}

/// All of it. It lives as long as the process.
pub(crate) struct World {
    /// Empty when it is all over.
    stations: RwLock<Vec<Arc<Station>>>,
    retired: Mutex<Vec<Arc<Station>>>,
    pub(crate) totals: Totals,
    pub(crate) is_over: AtomicBool,
    pub(crate) cpus: u32,
    /// Threads may be refused: what fails for want of one is no finding.
    pub(crate) may_lack_threads: bool,
    last_name: AtomicU64,
}

pub(crate) fn random_cpus(cpus: u32, rng: &mut Rng) -> CpuSet {
    let mut set: CpuSet = (0..cpus).filter(|_| rng.bool()).collect();
    set.insert(rng.u32(..cpus));
    set
}

pub(crate) fn random_attrs(cpus: u32, rng: &mut Rng) -> Attrs {
    let mut attrs = Attrs::new().nice(sys::nicer_by(rng.i32(0..8))).affinity_strict(rng.bool());
    if rng.bool() {
        attrs = attrs.affinity_scope(Some(AffinityScope::ALL[rng.usize(..6)]));
    }
    if rng.bool() {
        attrs = attrs.cpumask(random_cpus(cpus, rng));
    }
    attrs
}

/// Queues of every kind, by number.
fn kind(n: usize, b: Builder, cpus: u32, rng: &mut Rng) -> (&'static str, Builder) {
    let few = rng.u32(1..5);
    let nice = sys::nicer_by(rng.i32(1..8));
    match n % STATIONS {
        0 => ("managed", b.managed()),
        1 => ("managed, limited", b.managed().max_active(few)),
        2 => ("managed, nice", b.managed().nice(nice)),
        3 => ("managed, freezable", b.managed().freezable()),
        4 => ("percpu", b.percpu()),
        5 => ("percpu, one", b.percpu().max_active(1)),
        6 => ("percpu, highpri", b.percpu().highpri()),
        7 => ("percpu, cpu_intensive", b.percpu().cpu_intensive()),
        8 => ("percpu, freezable", b.percpu().freezable().max_active(few)),
        9 => ("percpu, mem_reclaim", b.percpu().mem_reclaim()),
        10 => ("percpu, total", b.percpu().max_active_total(few)),
        11 => ("percpu, legacy", b.percpu().mem_reclaim().legacy().max_active(1)),
        12 => ("power_efficient", b.power_efficient()),
        13 => ("unbound", b.unbound()),
        14 => ("unbound, one", b.unbound().max_active(1)),
        15 => ("unbound, nice", b.unbound().nice(nice)),
        16 => ("unbound, attrs", b.unbound().attrs(random_attrs(cpus, rng))),
        17 => ("unbound, mem_reclaim", b.unbound().mem_reclaim().max_active(few)),
        18 => ("unbound, sysfs", b.unbound().sysfs()),
        19 => ("unbound, highpri", b.unbound().highpri()),
        20 => ("ordered", b.ordered()),
        21 => ("ordered, freezable", b.ordered().freezable()),
        22 => ("bh", b.bh()),
        _ => ("bh, highpri", b.bh().highpri()),
    }
}

impl World {
    /// # Panics
    /// If queues cannot be made at the beginning.
    pub(crate) fn make(cpus: u32, may_lack_threads: bool, rng: &mut Rng) -> &'static Self {
        let world = Box::leak(Box::new(Self {
            stations: RwLock::default(),
            retired: Mutex::default(),
            totals: Totals::default(),
            is_over: AtomicBool::new(false),
            cpus,
            may_lack_threads,
            last_name: AtomicU64::new(0),
        }));
        let stations = (0..STATIONS).map(|n| world.open(n, rng).expect("queues can be made"));
        world.stations = RwLock::new(stations.collect());
        world
    }

    fn open(&self, n: usize, rng: &mut Rng) -> Option<Arc<Station>> {
        let name = format!("soak{}", self.last_name.fetch_add(1, Ordering::SeqCst));
        let (kind, builder) = kind(n, Workqueue::builder(&name), self.cpus, rng);
        let wq = self.allowed(builder.build())?;
        Totals::add(&self.totals.queues, 1);
        let is_bh = kind.starts_with("bh");
        let level = if is_bh { TOP } else { rng.u8(..TOP) };
        Some(Arc::new_cyclic(|own: &Weak<Station>| {
            let subject = |n| {
                let own = Weak::clone(own);
                Subject::new(n, move |books: &SubjectBooks| body::reusable(&own, books))
            };
            Station {
                wq,
                kind,
                level,
                may_refuse: rng.u8(..4) == 0,
                is_bh,
                subjects: (0..SUBJECTS).map(subject).collect(),
                closures: Arc::default(),
            }
        }))
    }

    /// What may fail only for want of a thread, while threads may be refused.
    pub(crate) fn allowed<T>(&self, result: Result<T, cmwq::Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) if self.may_lack_threads && error.kind() == ErrorKind::ThreadCreation => {
                Totals::add(&self.totals.thread_failures, 1);
                None
            }
            Err(error) => fail(&format!("a call was refused: {error}")),
        }
    }

    fn all(&self) -> RwLockReadGuard<'_, Vec<Arc<Station>>> {
        self.stations.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn station(&self, rng: &mut Rng) -> Option<Arc<Station>> {
        let stations = self.all();
        (!stations.is_empty()).then(|| Arc::clone(&stations[rng.usize(..stations.len())]))
    }

    /// One above a level, if chance finds one.
    pub(crate) fn station_above(&self, level: Level, rng: &mut Rng) -> Option<Arc<Station>> {
        let mut some = (0..4).filter_map(|_| self.station(rng));
        some.find(|station| station.level > level)
    }

    /// Another queue of the same kind takes a station's place.
    pub(crate) fn replace(&self, rng: &mut Rng) {
        let n = rng.usize(..STATIONS);
        let Some(fresh) = self.open(n, rng) else { return };
        let mut stations = self.stations.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut stations[n], fresh);
        drop(stations);
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(old);
    }

    /// Closes those that nobody uses any more.
    pub(crate) fn close_retired(&self, rng: &mut Rng) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut *retired);
        drop(retired);
        for station in all {
            match Arc::try_unwrap(station) {
                Ok(station) => station.close(self, rng.bool()),
                Err(used) => {
                    self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(used);
                }
            }
        }
    }

    /// At the end, when nobody opens stations any more: closes all.
    pub(crate) fn close_all(&self, rng: &mut Rng) {
        let mut stations = self.stations.write().unwrap_or_else(PoisonError::into_inner);
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.append(&mut stations);
        drop((stations, retired));
        while !self.retired.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.close_retired(rng);
            std::thread::yield_now();
        }
    }

    /// How many closures are queued or running; those of stations that are retired left out.
    pub(crate) fn outstanding(&self) -> u64 {
        self.all().iter().map(|station| station.closures.outstanding()).sum()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }
}

impl Station {
    /// Drops the queue, which waits for all that it has, and audits the books.
    fn close(self, world: &World, is_flushed: bool) {
        let Self { wq, kind, may_refuse, subjects, closures, .. } = self;
        let name = wq.name().to_owned();
        subjects.iter().for_each(Subject::disarm);
        subjects.iter().for_each(Subject::flush_rcu);
        if is_flushed {
            wq.flush();
        }
        // A closure that was delayed keeps the queue until it has run, so this need not be its end.
        drop(wq);
        while closures.outstanding() > 0 {
            std::thread::yield_now();
        }
        subjects.iter().for_each(Subject::flush);
        if closures.refused() > 0 && !may_refuse {
            fail(&format!("queue {name} ({kind}) has refused closures, and was never drained"));
        }
        for subject in &subjects {
            if let Some(complaint) = subject.complaint(may_refuse) {
                fail(&format!("an item of queue {name} ({kind}): {complaint}"));
            }
        }
        let totals = &world.totals;
        Totals::add(&totals.closures, closures.ran());
        Totals::add(&totals.refused, closures.refused());
        Totals::add(&totals.runs, subjects.iter().map(Subject::runs).sum());
        Totals::add(&totals.cancelled, subjects.iter().map(Subject::cancelled).sum());
    }
}
