//! What the calling thread is: a worker running an item, or not.

use std::cell::Cell;
use std::marker::PhantomData;
use std::{iter, ptr};

use cmwq_core::{Claim, Kick, LockFor, WorkFn, WorkItem, WorkerId, WqKey};

use crate::engine::pool::Pool;
use crate::engine::runtime::Runtime;
use crate::engine::tools::reclaim;
use crate::engine::tools::thread::Thread;
use crate::engine::tools::watchdog::WaitFor;
use crate::os::clock;
use crate::os::notice::{self, Notice};
use crate::os::sense::Root;
use crate::os::sync::Arc;
use crate::record::Reason;
use crate::record::symbol;

/// The calling worker's view of itself. Lives on the worker's stack.
pub(crate) struct Context {
    pool: &'static Pool,
    id: WorkerId,
    thread: Arc<Thread>,
    run: Cell<Option<Run>>,
}

#[derive(Clone, Copy)]
struct Run {
    seq: u64,
    wq: WqKey,
    item: *const WorkItem,
    func: WorkFn,
    /// Depth of nested blocking sections.
    blocking: u32,
}

/// What a thread runs that is no worker, and so is not replaced while it waits.
///
/// It is a BH context, which has no task context: its item is not the current work, and a drain
/// does not let items that it queues through. Or it is a thread that runs an item in place of
/// waiting for it (`run_here`).
#[derive(Clone, Copy)]
pub(crate) struct ThreadRun {
    /// Which counts the run.
    pub(crate) pool: &'static Pool,
    pub(crate) wq: WqKey,
    pub(crate) item: *const WorkItem,
    pub(crate) func: WorkFn,
}

impl ThreadRun {
    #[inline]
    pub(crate) fn of(pool: &'static Pool, claim: &Claim) -> Self {
        Self { pool, wq: claim.wq, item: claim.item, func: claim.func }
    }
}

crate::os::sync::thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
    static BH: Cell<Option<ThreadRun>> = const { Cell::new(None) };
    static HERE: Cell<*const Here> = const { Cell::new(ptr::null()) };
}

/// An item that the calling thread runs in place of waiting for it, perhaps inside of another one.
pub(crate) struct Here {
    run: ThreadRun,
    outer: *const Here,
}

impl Here {
    #[inline]
    pub(crate) fn new(run: ThreadRun) -> Self {
        Self { run, outer: HERE.with(Cell::get) }
    }

    /// # Safety
    /// It must stay where it is, and be [ended](Self::end) there, in the reverse order.
    #[inline]
    pub(crate) unsafe fn begin(&self) {
        HERE.with(|here| here.set(self));
    }

    #[inline]
    pub(crate) fn end(&self) {
        HERE.with(|here| here.set(self.outer));
    }
}

/// In a forked child: the item that the calling thread runs is the parent's.
#[allow(dead_code, reason = "nobody forks under a model checker")]
pub(crate) fn leave_here() {
    HERE.with(|here| here.set(ptr::null()));
}

/// The items that the thread runs in place of waiting for them, the innermost first.
fn all_here() -> impl Iterator<Item = ThreadRun> {
    let innermost = HERE.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: by the promise to `Here::begin` each is there until this thread ends it, which comes
    // back here before.
    let read = |at: *const Here| unsafe { at.as_ref() };
    iter::successors(read(innermost), move |here| read(here.outer)).map(|here| here.run)
}

fn here() -> Option<ThreadRun> {
    all_here().next()
}

/// The calling thread runs an item of a BH queue, until [`leave_bh`].
#[inline]
pub(crate) fn enter_bh(run: ThreadRun) {
    BH.with(|bh| bh.set(Some(run)));
}

#[inline]
pub(crate) fn leave_bh() {
    BH.with(|bh| bh.set(None));
}

/// Whether the calling thread runs an item of a BH queue, which must not wait for anything. KERNEL:
/// `!in_task()` — same, as far as this crate's items go.
pub(crate) fn in_bh() -> bool {
    bh_run().is_some()
}

fn bh_run() -> Option<ThreadRun> {
    BH.try_with(Cell::get).ok().flatten()
}

/// Makes `context` the calling thread's context, until the answer is dropped.
#[must_use]
pub(crate) fn enter(context: &Context) -> Entered<'_> {
    CURRENT.with(|current| current.set(context));
    Entered(PhantomData)
}

/// The calling thread has a context. It has none any more when this is dropped, also while it
/// unwinds: then users' hooks ask what it runs.
pub(crate) struct Entered<'a>(PhantomData<&'a Context>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        leave();
    }
}

pub(crate) fn leave() {
    CURRENT.with(|current| current.set(ptr::null()));
}

/// Whether the calling thread is a worker, or a rescuer that visits.
#[inline]
pub(crate) fn is_worker() -> bool {
    with(|_| ()).is_some()
}

/// The calling worker's run: of which pool, by which of its workers, and its number.
#[cfg(feature = "explore")]
pub(crate) fn run() -> Option<(&'static Pool, WorkerId, u64)> {
    with(|context| context.run.get().map(|run| (context.pool, context.id, run.seq))).flatten()
}

/// Whether the calling thread is no worker, and runs no item in any other way.
#[inline]
pub(crate) fn runs_nothing() -> bool {
    !is_worker_or_bh() && here().is_none()
}

/// Whether the calling thread is a worker or a rescuer that visits, or runs an item of a BH queue.
/// May be asked when the thread's stack has gone.
pub(crate) fn is_worker_or_bh() -> bool {
    CURRENT.try_with(Cell::get).is_ok_and(|context| !context.is_null()) || in_bh()
}

fn with<R>(f: impl FnOnce(&Context) -> R) -> Option<R> {
    let context = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: set by `enter` to a context on this thread's stack that outlives the matching
    // `leave`.
    unsafe { context.as_ref() }.map(f)
}

impl Context {
    pub(crate) fn new(pool: &'static Pool, id: WorkerId, thread: Arc<Thread>) -> Self {
        Self { pool, id, thread, run: Cell::new(None) }
    }

    #[inline]
    pub(crate) fn begin(&self, claim: &Claim, seq: u64) {
        self.run.set(Some(Run {
            seq,
            wq: claim.wq,
            item: claim.item,
            func: claim.func,
            blocking: 0,
        }));
    }

    #[inline]
    pub(crate) fn end(&self) {
        self.run.set(None);
    }

    /// See [`run_of`]. A helper's run is counted by the pool that it helps.
    fn counted_by(&self) -> Option<(&'static Pool, WqKey)> {
        let wq = self.run.get()?.wq;
        let helped = self.pool.runtime.served_by(&self.thread).map(|(pool, _)| pool);
        Some((helped.unwrap_or(self.pool), wq))
    }

    /// Enters a blocking section: from now on this worker counts as blocked, whatever detectors
    /// see.
    fn block(&self) {
        let Some(mut run) = self.run.get() else { return };
        run.blocking += 1;
        self.run.set(Some(run));
        if run.blocking == 1 {
            self.report_wait(run.seq);
        }
    }

    /// Reports that the worker waits from now on, in run `seq`.
    fn report_wait(&self, seq: u64) {
        let mut guard = self.pool.lock(LockFor::Decide);
        let kick = guard.worker_waits(self.pool, self.id, seq);
        if guard.core.stands_for_process(self.id, seq) {
            return self.pool.unlock(guard, kick);
        }
        guard.mirror.decided(Reason::Blocked);
        guard.record_state(self.id);
        let is_unbound = guard.core.is_unbound(self.id, seq);
        let is_managed = guard.core.config().is_managed();
        let kick = guard.replace_blocked(self.pool, kick);
        self.pool.unlock(guard, kick);
        let is_rescuer = reclaim::current_is_rescuer();
        if is_managed && !is_rescuer {
            self.thread.record_blocked(seq);
        }
        if is_unbound {
            self.pool.unbind(&self.thread, seq);
        }
        if !is_rescuer && let Some((busy, _)) = self.pool.runtime.served_by(&self.thread) {
            busy.helper_blocked();
        }
    }

    fn unblock(&self) {
        // C code may end a section that it did not begin.
        let Some(mut run) = self.run.get().filter(|run| run.blocking > 0) else { return };
        run.blocking -= 1;
        self.run.set(Some(run));
        if run.blocking == 0 {
            let mut guard = self.pool.lock(LockFor::Counts);
            let kick = guard.worker_resumed(self.pool, self.id, run.seq);
            // The pod may have no CPU to spare now: whoever asked it would ask in vain.
            guard.post_for_next(self.pool);
            guard.record_state(self.id);
            match kick {
                Kick::None => Pool::unlock_quietly(guard),
                kick => self.pool.unlock(guard, kick),
            }
        }
    }
}

impl Context {
    /// See [`leave_cpu`](crate::leave_cpu).
    fn leave_cpu(&self) {
        let is_here = self.pool.pod.is_some() && !reclaim::current_is_rescuer();
        if is_here && self.run.get().is_some() && !self.thread.is_unbound() {
            self.pool.leave_cpu(&self.thread);
        }
    }

    /// See [`watch`].
    fn watch(&self, whom: Option<u32>) -> Option<Watch> {
        let seq = self.run.get()?.seq;
        if whom.is_none() {
            // What it starts inherits its CPUs.
            self.leave_cpu();
        }
        // The process first: a look at a worker that stands for processes must find one.
        let root = whom.map_or_else(|| Root::ChildrenOf(self.thread.tid()), Root::Process);
        let number = self.thread.processes.begin(seq, root);
        self.set_stands_for_process(seq, true);
        Some(Watch { seq, number })
    }

    fn unwatch(&self, watch: Watch) {
        let Some(run) = self.run.get().filter(|run| run.seq == watch.seq) else { return };
        if self.thread.processes.end(watch.number) {
            self.set_stands_for_process(watch.seq, false);
            // Inside of a section it waits now for itself again, and nobody else says so.
            if run.blocking > 0 {
                self.report_wait(run.seq);
            }
        }
    }

    fn set_stands_for_process(&self, seq: u64, stands: bool) {
        let mut guard = self.pool.lock(LockFor::Decide);
        guard.core.worker_stands_for_process(self.id, seq, stands, clock::now());
        guard.record_state(self.id);
        self.pool.unlock(guard, Kick::None);
    }
}

/// A process that a worker stands for, in one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    seq: u64,
    number: u64,
}

/// See [`leave_cpu`](crate::leave_cpu).
pub(crate) fn leave_cpu() {
    let _ = with(Context::leave_cpu);
}

/// From now on, in this run, the calling worker stands for this process, or for those that it
/// starts. `None`: the caller is no worker, or runs no item.
pub(crate) fn watch(whom: Option<u32>) -> Option<Watch> {
    with(|context| context.watch(whom)).flatten()
}

/// Ends that. Does nothing on another thread, or in another run.
pub(crate) fn unwatch(watch: Watch) {
    with(|context| context.unwatch(watch));
}

/// Tells `f` about the calling thread, if it is a worker that runs an item.
pub(crate) fn with_running(f: impl FnOnce(&'static Runtime, &Thread)) {
    with(|context| {
        if context.run.get().is_some() {
            f(context.pool.runtime, &context.thread);
        }
    });
}

/// The queue whose item the calling thread runs.
pub(crate) fn current_wq() -> Option<WqKey> {
    let of_worker = with(|context| context.run.get().map(|run| run.wq)).flatten();
    of_worker.or_else(|| here().map(|run| run.wq))
}

/// The queue whose item the calling thread runs, also a BH queue. If the item waited for that
/// queue, or for all queues, it would wait for itself.
pub(crate) fn own_wq() -> Option<WqKey> {
    current_wq().or_else(|| bh_run().map(|run| run.wq))
}

/// Whether one of this queue's items runs on the calling thread: also where that runs another
/// queue's item in place of waiting for it.
pub(crate) fn runs_item_of(wq: WqKey) -> bool {
    own_wq() == Some(wq) || all_here().any(|run| run.wq == wq)
}

/// The queue whose item the calling thread runs, and the queue's runtime.
pub(crate) fn current_queue() -> Option<(&'static Runtime, WqKey)> {
    with(|context| context.run.get().map(|run| (context.pool.runtime, run.wq))).flatten()
}

/// Whether the calling thread runs an item of a [`mem_reclaim`](crate::Builder::mem_reclaim) queue,
/// be it as a worker or as its rescuer. Such an item must not wait for items of other kinds of
/// queues: those may never start. Takes a lock for a moment; outside of items it is `false`, as it
/// is for [legacy](crate::Builder::legacy) queues.
///
/// KERNEL: `current_is_workqueue_mem_reclaim` — same.
#[must_use]
#[doc(alias = "current_is_workqueue_mem_reclaim")]
pub fn current_is_mem_reclaim() -> bool {
    let Some((runtime, key)) = current_queue() else { return false };
    runtime.wq(key).is_some_and(|wq| wq.spec.mem_reclaim && !wq.spec.legacy)
}

/// The item that the calling thread runs. Only its address may be used: the function may have freed
/// it.
pub(crate) fn current_item() -> Option<*const WorkItem> {
    let of_worker = with(|context| context.run.get().map(|run| run.item)).flatten();
    of_worker.or_else(|| here().map(|run| run.item))
}

/// Whether the calling thread runs this item. An item at the same address with another function is
/// another item.
pub(crate) fn is_running(item: &WorkItem) -> bool {
    own_item().is_some_and(|(own, func)| ptr::eq(own, item) && ptr::fn_addr_eq(func, item.func()))
}

/// The pool that counts the calling thread's run of this item, and the queue that the run
/// is of. `None`: the thread [runs another](is_running), or none.
pub(crate) fn run_of(item: &WorkItem) -> Option<(&'static Pool, WqKey)> {
    let of_thread = || bh_run().or_else(here).map(|run| (run.pool, run.wq));
    is_running(item).then(|| with(Context::counted_by).flatten().or_else(of_thread)).flatten()
}

/// The item that the calling thread runs, also of a BH queue, and its function.
fn own_item() -> Option<(*const WorkItem, WorkFn)> {
    with(|context| context.run.get().map(|run| (run.item, run.func)))
        .flatten()
        .or_else(|| bh_run().or_else(here).map(|run| (run.item, run.func)))
}

/// The item that the calling thread runs, for people.
pub(crate) fn describe_item() -> String {
    own_item().map_or_else(String::new, |(item, func)| {
        let func = symbol::name_of(func as *const () as usize);
        format!("item {item:p}, {func}")
    })
}

/// The queue's name and the function of the item that the calling thread runs.
pub(crate) fn running() -> Option<(String, usize)> {
    let (runtime, wq, func) =
        with(|context| context.run.get().map(|run| (context.pool.runtime, run.wq, run.func)))
            .flatten()
            .or_else(|| bh_run().or_else(here).map(|run| (run.pool.runtime, run.wq, run.func)))?;
    Some((runtime.wq_name(wq)?, func as *const () as usize))
}

/// [`blocking`], for a wait that may have no end: reports to the watchdog what the item waits for.
#[inline]
pub(crate) fn waiting_for<R>(what: WaitFor, f: impl FnOnce() -> R) -> R {
    if is_worker_or_bh() { waiting_in_item(what, f) } else { f() }
}

fn waiting_in_item<R>(what: WaitFor, f: impl FnOnce() -> R) -> R {
    let _wait = with(|context| {
        let run = context.run.get()?;
        let item = (run.wq, run.item as usize, run.func as *const () as usize);
        let worker = ((context.pool.id, context.id), Arc::clone(&context.thread));
        Some(context.pool.runtime.begin_wait(item, what, worker))
    });
    blocking(f)
}

/// The first half of [`blocking`], for callers that cannot pass a closure.
pub(crate) fn begin_blocking() {
    if with(Context::block).is_none()
        && let Some(run) = bh_run()
    {
        say_it_waits(run);
    }
}

/// A BH item is about to wait, which is a mistake: reports it once. The item waits all the same.
#[cold]
fn say_it_waits(run: ThreadRun) {
    notice::once(Notice::BhWaits, || {
        let name = run.pool.runtime.wq_name(run.wq).unwrap_or_default();
        format!(
            "an item of BH workqueue '{name}' waits for something: BH items must not block, and \
             those of this CPU \
             are held up meanwhile (use a per-CPU or managed queue)"
        )
    });
}

/// The second half of [`blocking`], by the thread that called [`begin_blocking`].
pub(crate) fn end_blocking() {
    with(Context::unblock);
}

/// Tells the pool that the calling worker is about to block, runs `f`, and tells it that the worker
/// is back.
///
/// Workers that block are noticed anyway, mostly within tens of microseconds; this makes it
/// immediate and independent of what the system allows. Use it around waits that are known to be
/// long, or where [`Detect::Inline`](crate::Detect::Inline) is all there is; not around a call that
/// mostly computes, since another item would compute beside it. Outside of a work function it only
/// calls `f`. Sections nest. An item of a [BH queue](crate::Builder::bh) must not block: that it
/// does is logged once, and nobody replaces it.
///
/// # Panics
/// If `f` does, when the pool was told that the worker is back.
///
/// ```
/// let wq = cmwq::Workqueue::new("io")?;
/// let len = wq.queue(|| cmwq::blocking(|| std::fs::read("/proc/self/cmdline").map(|b| b.len())));
/// assert!(len.join().unwrap().is_ok());
/// # Ok::<(), cmwq::Error>(())
/// ```
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    struct Section;
    impl Drop for Section {
        fn drop(&mut self) {
            end_blocking();
        }
    }
    begin_blocking();
    let _section = Section;
    f()
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("pool", &self.pool.id)
            .field("id", &self.id)
            .field("thread", &self.thread)
            .finish_non_exhaustive()
    }
}
