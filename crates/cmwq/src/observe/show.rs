//! What queues, pools and workers are doing, as text: for people who wonder why nothing moves.
//!
//! Collecting takes the pools' locks one after the other, and copies what they hold
//! ([`PoolReport`]); the text is made and written when none is held. So a report is not of one
//! instant, and writing it keeps nobody waiting.
//!
//! KERNEL: `show_all_workqueues`, `show_one_workqueue`, `show_freezable_workqueues`,
//! `print_worker_info` — same, on standard error.

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use cmwq_core::{
    BusyWorker, Closed, PoolReport, PwqReport, Waiting, WaitingItems, WorkerId, WqKey,
};

use crate::engine::item::flush;
use crate::engine::pool::{Pool, PoolKind};
use crate::engine::runtime::Runtime;
use crate::engine::tools::thread::Thread;
use crate::engine::wq::{Kind, Wq};
use crate::os::foreign::harmless;
use crate::os::sense::stderr;
use crate::os::sync::Arc;
use crate::record::symbol;

/// What all queues and pools were doing when it was made: what is queued, what runs and where,
/// which workers are idle. Its text has a paragraph for each queue that has something queued or
/// running, and a line for each pool that has a busy worker.
///
/// ```text
/// workqueue fetch: flags=0x2
///   pwq 4: cpus=0-1 node=0 flags=0x4 nice=0 active=3/16 refcnt=6
///     in-flight: 4711:read_page ,4712:read_page
///     pending: write_page BAR
///     inactive: 2*read_page
/// pool 4: cpus=0-1 node=0 flags=0x4 nice=0 workers=3 idle: 4713
/// ```
///
/// Workers are named by their threads' ids, functions as in traces: closures and reusable items by
/// their type, others by their symbol, or by an address. `BAR` is somebody who waits for the item
/// before it.
#[derive(Clone, Debug)]
pub struct Report {
    queues: Vec<Queue>,
    pools: Vec<Place>,
    with_pools: bool,
}

#[derive(Clone, Debug)]
struct Queue {
    key: WqKey,
    name: String,
    flags: u32,
    is_freezable: bool,
}

/// A pool, and what it held.
#[derive(Clone, Debug)]
struct Place {
    id: u32,
    is_bh: bool,
    /// `cpus=0 node=0 flags=0x0 nice=0`.
    described: String,
    held: PoolReport,
    /// Thread ids, and what their items say, by worker.
    threads: HashMap<WorkerId, Worker>,
}

#[derive(Clone, Debug, Default)]
struct Worker {
    tid: Option<libc::pid_t>,
    desc: Option<String>,
}

/// Looks at everything. `None`: nothing was ever queued.
///
/// Takes the locks of all pools, one after the other, and needs memory: not for signal handlers.
#[must_use]
pub fn report() -> Option<Report> {
    Runtime::existing().map(|runtime| Report::collect(runtime, None))
}

/// Writes what all queues and pools are doing to standard error, as the kernel does when asked by
/// sysrq: see [`Report`] for how it reads. Nothing is written before anything was ever queued.
pub fn show_all_workqueues() {
    if let Some(report) = report() {
        say("Showing busy workqueues and worker pools:", &report);
    }
}

/// Writes what freezable queues are doing to standard error: those that keep
/// [`freeze_busy`](crate::freeze_busy) true.
pub fn show_freezable_workqueues() {
    if let Some(mut report) = report() {
        report.queues.retain(|queue| queue.is_freezable);
        report.with_pools = false;
        say("Showing freezable workqueues that are still busy:", &report);
    }
}

/// See [`show_one_workqueue`](crate::show_one_workqueue).
pub(crate) fn show_one(wq: &Wq) {
    let mut report = Report::collect(wq.runtime, Some(wq.key));
    report.with_pools = false;
    if report.queues.iter().all(|queue| !report.is_busy(queue.key)) {
        say(&format!("workqueue {}: idle", harmless(&wq.name)), &report);
    } else {
        say("Showing a busy workqueue:", &report);
    }
}

/// One write, so that what others write does not come in between.
fn say(title: &str, report: &Report) {
    let text = format!("{title}\n{report}");
    // Nothing can be done about a closed standard error.
    stderr::write(&text);
}

/// What the thread of a worker runs.
#[derive(Clone, Debug)]
pub(crate) struct WorkerInfo {
    pub(crate) wq: String,
    pub(crate) func: usize,
    pub(crate) desc: Option<String>,
}

/// Where the worker with the thread `tid` is: its pool, or the one that it is lent to.
fn worker_of(
    runtime: &'static Runtime,
    tid: libc::pid_t,
) -> Option<(&'static Pool, WorkerId, Arc<Thread>)> {
    runtime.pools().find_map(|pool| {
        let is_it = |thread: &&Arc<Thread>| thread.comm.tid() == Some(tid);
        let (id, thread) = pool.read(|_, locked| {
            let mut workers = (0..).map(WorkerId).zip(&locked.threads);
            workers.find_map(|(id, thread)| Some((id, thread.as_ref().filter(is_it).cloned()?)))
        })?;
        let (pool, id) = runtime.served_by(&thread).unwrap_or((pool, id));
        Some((pool, id, thread))
    })
}

/// What the thread `tid` does, if it is a worker that runs an item. KERNEL: `print_worker_info` —
/// same, but that it does not print.
pub(crate) fn worker_info(tid: libc::pid_t) -> Option<WorkerInfo> {
    let runtime = Runtime::existing()?;
    let (pool, id, thread) = worker_of(runtime, tid)?;
    let running = pool.read(|core, _| core.running_of(id));
    let (wq, _, func) = running?;
    let wq = runtime.wq_name(wq)?;
    Some(WorkerInfo { wq, func: func as *const () as usize, desc: thread.comm.desc() })
}

/// The function that the worker with the thread `tid` ran last. KERNEL:
/// `wq_worker_last_func` — same.
pub(crate) fn last_func(tid: libc::pid_t) -> Option<usize> {
    let (pool, id, _) = worker_of(Runtime::existing()?, tid)?;
    let func = pool.read(|core, _| core.last_func(id));
    func.map(|func| func as *const () as usize)
}

/// The name that the worker's thread `tid` ought to show, in full. KERNEL: `wq_worker_comm` — same.
pub(crate) fn worker_comm(tid: libc::pid_t) -> Option<String> {
    let runtime = Runtime::existing()?;
    let threads = runtime.pools().flat_map(Pool::threads);
    threads
        .filter(|thread| thread.comm.tid() == Some(tid))
        .map(|thread| thread.comm.in_full(|wq| runtime.wq_name(wq)))
        .next()
}

impl Report {
    /// `only`: leaves out what is not this queue's.
    pub(super) fn collect(runtime: &'static Runtime, only: Option<WqKey>) -> Self {
        let wqs = runtime.wqs();
        let wanted = wqs.iter().filter(|wq| only.is_none_or(|only| wq.key == only));
        let queues = wanted.map(|wq| Queue::of(wq)).collect();
        let pools = runtime.pools().map(Place::of).collect();
        Self { queues, pools, with_pools: true }
    }

    /// The places where a queue has something, with its pwqs there.
    fn places(&self, key: WqKey) -> impl Iterator<Item = (&Place, &PwqReport)> {
        let pwqs = self.pools.iter().flat_map(|at| at.held.pwqs.iter().map(move |pwq| (at, pwq)));
        pwqs.filter(move |(_, pwq)| pwq.wq == key && pwq.nr_in_flight > 0)
    }

    fn is_busy(&self, key: WqKey) -> bool {
        self.places(key).next().is_some()
    }
}

impl Queue {
    fn of(wq: &Wq) -> Self {
        Self {
            key: wq.key,
            name: harmless(&wq.name).into_owned(),
            flags: kernel_flags(wq),
            is_freezable: wq.spec.freezable,
        }
    }
}

/// `enum wq_flags`; bit 24 is a managed queue, which the kernel does not have.
fn kernel_flags(wq: &Wq) -> u32 {
    let kind = match wq.spec.kind {
        Kind::Bh => 1 << 0 | 1 << 8,
        Kind::Unbound => 1 << 1,
        Kind::Ordered => 1 << 1 | 1 << 17,
        Kind::Percpu => 1 << 8,
        Kind::Managed => 1 << 24,
    };
    let spec = &wq.spec;
    let rest = [
        (spec.freezable, 2),
        (spec.mem_reclaim, 3),
        (spec.highpri, 4),
        (spec.cpu_intensive, 5),
        (wq.closed().is_for(Closed::DESTROYING.and(Closed::BEHIND_TIMERS)), 15),
        (wq.closed().is_for(Closed::DRAINING), 16),
        (spec.legacy, 18),
    ];
    rest.iter().filter(|(is, _)| *is).fold(kind, |flags, (_, bit)| flags | 1 << bit)
}

impl Place {
    fn of(pool: &'static Pool) -> Self {
        let (held, threads) = pool.read(|core, locked| (core.report(), locked.threads.clone()));
        let threads = (0..).map(WorkerId).zip(threads).filter_map(|(id, thread)| {
            let comm = &thread?.comm;
            Some((id, Worker { tid: comm.tid(), desc: comm.desc() }))
        });
        let spec = &pool.spec();
        let mut described = format!("cpus={}", spec.cpus);
        if let Some(node) = spec.node {
            let _ = write!(described, " node={node}");
        }
        let is_bh = matches!(spec.kind, PoolKind::Bh(_));
        let is_loose = is_bh || spec.kind == PoolKind::Unbound;
        let flags =
            u32::from(is_bh) | u32::from(held.manager.is_some()) << 1 | u32::from(is_loose) << 2;
        let _ = write!(described, " flags={flags:#x} nice={}", spec.priority.nice);
        Self { id: pool.id.0, is_bh, described, held, threads: threads.collect() }
    }

    /// The worker, as it is called in a line of busy ones.
    fn name(&self, worker: &BusyWorker, pwq: &PwqReport) -> String {
        match self.threads.get(&worker.id).and_then(|thread| thread.tid) {
            Some(tid) => tid.to_string(),
            None if self.is_bh => "bh".to_owned(),
            None if pwq.is_rescued => "rescuer".to_owned(),
            None => "lent".to_owned(),
        }
    }

    fn fmt_pwq(&self, pwq: &PwqReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  pwq {}: {} active={}", self.id, self.described, pwq.nr_active)?;
        if pwq.max_active != u32::MAX {
            write!(f, "/{}", pwq.max_active)?;
        }
        write!(f, " refcnt={}", pwq.nr_in_flight + 1)?;
        for (is, what) in [(pwq.is_rescued, " MAYDAY"), (pwq.is_plugged, " PLUGGED")] {
            f.write_str(if is { what } else { "" })?;
        }
        f.write_str("\n")?;
        let busy = self.held.busy.iter().filter(|worker| worker.pwq == pwq.id);
        for (index, worker) in busy.enumerate() {
            f.write_str(if index == 0 { "    in-flight: " } else { " ," })?;
            self.fmt_busy(worker, pwq, f)?;
        }
        if self.held.busy.iter().any(|worker| worker.pwq == pwq.id) {
            f.write_str("\n")?;
        }
        let scheduled = self.held.busy.iter().map(|worker| &worker.scheduled);
        let pending = scheduled.chain([&self.held.worklist]);
        // Barriers behind running items are shown with those.
        let pending: Vec<_> =
            pending.enumerate().flat_map(|(index, list)| self.of_pwq(list, pwq, index)).collect();
        fmt_items("pending", &pending, self.held.worklist.is_cut, f)?;
        let inactive: Vec<_> = pwq.inactive.items.iter().collect();
        fmt_items("inactive", &inactive, pwq.inactive.is_cut, f)
    }

    /// The items of a list that came by `pwq`.
    fn of_pwq<'a>(
        &self,
        list: &'a Waiting,
        pwq: &PwqReport,
        index: usize,
    ) -> impl Iterator<Item = &'a WaitingItems> + use<'a> {
        let is_scheduled = index < self.held.busy.len();
        let id = pwq.id;
        list.items.iter().filter(move |one| one.pwq == id && !(is_scheduled && one.are_barriers))
    }

    fn fmt_busy(
        &self,
        worker: &BusyWorker,
        pwq: &PwqReport,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        let func = function(worker.func as *const () as usize);
        write!(f, "{}:{func}", self.name(worker, pwq))?;
        if let Some(desc) = self.threads.get(&worker.id).and_then(|thread| thread.desc.as_deref()) {
            write!(f, "({})", harmless(desc))?;
        }
        for one in worker.scheduled.items.iter().filter(|one| one.are_barriers) {
            for _ in 0..one.count {
                f.write_str(" BAR")?;
            }
        }
        f.write_str(if worker.is_blocked { " blocked" } else { "" })
    }

    fn fmt_pool(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}: {} workers={}", self.id, self.described, self.held.nr_workers)?;
        let tid = |id: &WorkerId| self.threads.get(id).and_then(|thread| thread.tid);
        if let Some(manager) = self.held.manager {
            match tid(&manager) {
                Some(tid) => write!(f, " manager: {tid}")?,
                None => f.write_str(" manager: new")?,
            }
        }
        for (index, tid) in self.held.idle.iter().filter_map(tid).enumerate() {
            f.write_str(if index == 0 { " idle: " } else { " " })?;
            write!(f, "{tid}")?;
        }
        f.write_str("\n")
    }
}

fn fmt_items(
    title: &str,
    items: &[&WaitingItems],
    is_cut: bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    write!(f, "    {title}:")?;
    for (index, one) in items.iter().enumerate() {
        // Somebody who waits belongs to what he waits for.
        f.write_str(if index == 0 || one.are_barriers { " " } else { ", " })?;
        let what = if one.are_barriers {
            "BAR".to_owned()
        } else {
            function(one.func as *const () as usize)
        };
        match one.count {
            1 => write!(f, "{what}")?,
            count => write!(f, "{count}*{what}")?,
        }
    }
    f.write_str(if is_cut { " ...\n" } else { "\n" })
}

/// A flush of one item, or the function's name.
fn function(func: usize) -> String {
    if flush::is_barrier(func) { "BAR".to_owned() } else { symbol::short(func) }
}

/// As described at [`Report`].
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for queue in &self.queues {
            for (index, (at, pwq)) in self.places(queue.key).enumerate() {
                if index == 0 {
                    writeln!(f, "workqueue {}: flags={:#x}", queue.name, queue.flags)?;
                }
                at.fmt_pwq(pwq, f)?;
            }
        }
        let busy = self.pools.iter().filter(|at| self.with_pools && !at.held.busy.is_empty());
        busy.into_iter().try_for_each(|at| at.fmt_pool(f))
    }
}
