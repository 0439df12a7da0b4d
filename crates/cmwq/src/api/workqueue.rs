//! The queue as users see it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::api::builder::{Builder, tell_max_active};
use crate::api::closure::{self, JoinHandle, Owned, Owner};
use crate::api::rcu::RcuWork;
use crate::api::work::{DelayedWork, Work};
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::Runtime;
use crate::engine::tools::account::Account;
use crate::engine::tools::attrs::{Attrs, Priority};
use crate::engine::wq::Kind;
use crate::os::error::Error;
use crate::os::notice;
use crate::os::sync::Arc;

/// A workqueue: a cheap front-end to worker pools that all queues share and that size themselves.
///
/// Clones are the same queue.
///
/// Dropping the last clone **blocks until its items finish**, then the queue is destroyed. There is
/// no time limit, and a [frozen](crate::freeze) queue with items waits until it is thawed. In a
/// task of an executor this blocks the executor's thread: [`close`](Self::close) the queue first,
/// and await that.
///
/// It does not block where that would be waiting for itself, or for nothing: from inside one of the
/// queue's own items, from an item of a [BH queue](Builder::bh), after `close`, in a forked child
/// that has not used the queue, and where [`shutdown`](crate::shutdown) drops what a refused
/// closure captured. The queue is destroyed later then. Armed timers
/// ([`queue_delayed`](Self::queue_delayed), [`DelayedWork`], [`Periodic`](crate::Periodic)) keep
/// the queue alive as a clone does: dropping the last clone does not wait for them, and the queue
/// is destroyed when the last of them has expired or was cancelled, and its item has run.
///
/// | made by | pool | starts an item when |
/// |---|---|---|
/// | [`new`](Self::new), [`Builder::managed`] | one per CPU, workers pinned until they block; idle CPUs help | some CPU has no *running* worker |
/// | [`Builder::percpu`] | one per CPU, workers pinned | no other worker of that CPU *runs* |
/// | [`Builder::bh`] | one context per CPU, no workers | the one before has finished, on each CPU |
/// | [`Builder::unbound`] | one per pod | at once, up to `max_active` |
/// | [`Builder::ordered`] | one | the one before has finished |
///
/// A worker *runs* until it blocks, in whatever way: a lock, a file, a page fault, a sleep. That is
/// noticed mostly within tens of microseconds, and within 4 ms where other programs keep the CPUs
/// busy; then the next item starts on another worker. See [`Detect`](crate::Detect).
#[derive(Clone)]
#[doc(alias = "workqueue_struct")]
pub struct Workqueue {
    handle: Handle,
}

impl Workqueue {
    /// A managed queue with the default limit: what most programs want. Of the name 31 bytes are
    /// kept; what is cut off is logged once. Names need not be unique.
    ///
    /// The first queue of a process starts the runtime: it reads the parameters and the machine,
    /// and creates the service thread.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput): the name is empty or has a null character.
    /// [`ThreadCreation`](crate::ErrorKind::ThreadCreation): the runtime's service thread cannot be
    /// created; the next call tries again. [`Unavailable`](crate::ErrorKind::Unavailable): the
    /// library was [shut down](crate::shutdown).
    /// ```
    /// let wq = cmwq::Workqueue::new("checksums")?;
    /// let sum = wq.queue(|| (1..=10).sum::<u32>());
    /// assert_eq!(sum.join().unwrap(), 55);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::builder(name).build()
    }

    /// Describes a queue before it is made; [`Builder::build`] makes it, and checks everything. Of
    /// the name 31 bytes are kept; what is cut off is logged once.
    ///
    /// KERNEL: `alloc_workqueue` — same flags, by name.
    #[doc(alias = "alloc_workqueue")]
    pub fn builder(name: &str) -> Builder {
        Builder::new(name)
    }

    /// The queue's name, at most 31 bytes: a longer one was cut at the end of a character.
    #[must_use]
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// Queues a closure. Never waits for work to be done: without a thread to run it, the closure
    /// waits.
    ///
    /// A queue that is being [drained](Self::drain), is [closed](Self::close) or was [shut
    /// down](crate::shutdown) refuses the closure, unless one of the queue's own items queues it:
    /// the closure is dropped, on the calling thread, and the handle [says
    /// so](crate::JoinError::is_refused), and [why](crate::JoinError::why).
    ///
    /// The backlog has no limit but memory: a closure takes 64 bytes or, if it captures or returns
    /// more than a word, as much more. [`try_queue`](Self::try_queue) refuses beyond
    /// [`Builder::max_queued`].
    ///
    /// Items of one queue start in the order in which they were queued, as far as they go to the
    /// same pool. On a per-CPU queue that is the calling CPU's. All that was written before is
    /// visible to the closure.
    ///
    /// # Panics
    /// In a forked child only: if this is its first use of the library, or of a queue with a
    /// [rescuer](Builder::mem_reclaim), and the thread for that cannot be created. So for other
    /// methods, but not for [`name`](Self::name) and [`is_closed`](Self::is_closed).
    /// ```
    /// # let wq = cmwq::Workqueue::new("doc")?;
    /// let handle = wq.queue(|| std::fs::read_to_string("/proc/version").is_ok());
    /// let _ = handle.join().unwrap();
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "queue_work")]
    #[doc(alias = "spawn")]
    #[doc(alias = "execute")]
    #[doc(alias = "submit")]
    pub fn queue<F, T>(&self, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.queue_closure::<F, F, T>(None, func)
    }

    /// Queues a closure for CPU number `cpu`, as the kernel numbers them. On a per-CPU queue it
    /// runs there, or on another CPU while the process may not use that one. On other queues the
    /// number only chooses the pod. Where the machine has no such CPU, or the process was started
    /// without it (`taskset`), the calling CPU is taken, which is logged once.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("pinned").percpu().build()?;
    /// assert_eq!(wq.queue_on(0, || 1).join().unwrap(), 1);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "queue_work_on")]
    pub fn queue_on<F, T>(&self, cpu: u32, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.queue_closure::<F, F, T>(Some(cpu), func)
    }

    /// Queues a closure. Tools show it by the name of the type `N`: that of `F`, or of the function
    /// inside of it that the user gave.
    #[inline]
    pub(crate) fn queue_closure<N, F, T>(&self, cpu: Option<u32>, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.handle.account() {
            None => closure::queue::<N, F, T>(&self.handle, cpu, func),
            Some(account) => self.queue_counted::<N, F, T>(account, cpu, func),
        }
    }

    /// Queues a closure that carries a ticket for the queue's account.
    #[inline(never)]
    fn queue_counted<N, F, T>(
        &self,
        account: &Arc<Account>,
        cpu: Option<u32>,
        func: F,
    ) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let ticket = account.enter();
        closure::queue::<N, _, T>(&self.handle, cpu, move || ticket.run(func))
    }

    /// As [`queue_closure`](Self::queue_closure), of what may borrow. `owner` is told what nobody
    /// joins, and dropped when nothing that borrows is left but a value that is the handle's.
    ///
    /// # Safety
    /// See [`closure::queue_borrowing`].
    pub(crate) unsafe fn queue_borrowing<N, F, O, T>(
        &self,
        cpu: Option<u32>,
        func: F,
        owner: O,
    ) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send,
        O: Owner + Send,
        T: Send,
    {
        let Some(account) = self.handle.account() else {
            // SAFETY: passed on to the caller.
            return unsafe {
                closure::queue_borrowing::<N, _, T>(&self.handle, cpu, Owned(func, owner))
            };
        };
        let ticket = account.enter();
        let job = Owned(move || ticket.run(func), owner);
        // SAFETY: as above.
        unsafe { closure::queue_borrowing::<N, _, T>(&self.handle, cpu, job) }
    }

    /// Queues a closure when `delay` has passed: not before, and usually within a millisecond
    /// after.
    ///
    /// Time is `CLOCK_MONOTONIC`: it stands still while the machine is suspended, and nobody sets
    /// it. Delays are kept exactly up to 292 years; what is longer comes some 584 years after the
    /// machine's start. With a zero delay the closure is queued at once.
    ///
    /// The queue stays alive until then, also without other handles. [`drain`](Self::drain) and
    /// [`flush`](Self::flush) do not wait for the timer. If the queue is being drained or was
    /// closed when the timer expires, the closure is refused then; at [`shutdown`](crate::shutdown)
    /// that is at once. Its handle [says so](crate::JoinError::is_refused), also to who awaits it.
    /// What it captured is dropped before, by one of the library's threads, or by the one that
    /// calls `shutdown`.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// # let wq = cmwq::Workqueue::new("doc")?;
    /// let start = Instant::now();
    /// let later = wq.queue_delayed(move || start.elapsed(), Duration::from_millis(5));
    /// assert!(later.join().unwrap() >= Duration::from_millis(5));
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "queue_delayed_work")]
    pub fn queue_delayed<F, T>(&self, func: F, delay: Duration) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.delay_closure(None, func, delay)
    }

    /// As [`queue_delayed`](Self::queue_delayed), for a CPU as in [`queue_on`](Self::queue_on).
    #[doc(alias = "queue_delayed_work_on")]
    pub fn queue_delayed_on<F, T>(&self, cpu: u32, func: F, delay: Duration) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.delay_closure(Some(cpu), func, delay)
    }

    fn delay_closure<F, T>(&self, cpu: Option<u32>, func: F, delay: Duration) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        closure::delay(&self.handle, cpu, func, delay)
    }

    /// Queues a reusable item. `true`: this call queued it; `false`: it was pending already, or is
    /// [disabled](Work::disable).
    ///
    /// While the queue is being [drained](Self::drain), and after it was [closed](Self::close) or
    /// [shut down](crate::shutdown), an item that comes from outside is not queued, and `true` is
    /// returned all the same, as the kernel does: the item is idle again, and does not run. That is
    /// logged once per process.
    ///
    /// Never blocks for work to be done, and allocates nothing.
    ///
    /// All that was written before is visible to the run: to the one this call queued, or, if it
    /// was pending, to the one it was pending for.
    ///
    /// KERNEL: `queue_work` — same.
    pub fn queue_work(&self, work: &Work) -> bool {
        work.queue_on(&self.handle, None)
    }

    /// As [`queue_work`](Self::queue_work), for a CPU as in [`queue_on`](Self::queue_on).
    pub fn queue_work_on(&self, cpu: u32, work: &Work) -> bool {
        work.queue_on(&self.handle, Some(cpu))
    }

    /// Queues a reusable item when `delay` has passed; of clock and longest delay see
    /// [`queue_delayed`](Self::queue_delayed). `true`: this call armed the timer, or with a zero
    /// delay queued the item. `false`: it was pending already, and its delay is unchanged; or it is
    /// [disabled](DelayedWork::disable).
    ///
    /// On a queue that is being drained or was closed the timer is armed all the same (`true`). If
    /// the queue still lets nothing in when it expires, the item is not queued and idle again,
    /// which is logged once per process. After a [`shutdown`](crate::shutdown) it is not armed, and
    /// `true` is returned.
    ///
    /// KERNEL: `queue_delayed_work` — same.
    #[inline]
    pub fn queue_delayed_work(&self, work: &DelayedWork, delay: Duration) -> bool {
        work.queue_on(&self.handle, None, delay)
    }

    /// As [`queue_delayed_work`](Self::queue_delayed_work), for a CPU as in
    /// [`queue_on`](Self::queue_on).
    pub fn queue_delayed_work_on(&self, cpu: u32, work: &DelayedWork, delay: Duration) -> bool {
        work.queue_on(&self.handle, Some(cpu), delay)
    }

    /// Changes the delay of an item: `true`, it was pending, wherever, and is timed anew; `false`,
    /// it was idle (or running) and is queued as by
    /// [`queue_delayed_work`](Self::queue_delayed_work). A zero delay queues it at once. A
    /// [disabled](DelayedWork::disable) item is only cancelled.
    ///
    /// A queue that lets nothing in treats the item as there; the result says only whether it was
    /// pending. It may wait for microseconds for another thread that is just queueing the item.
    ///
    /// KERNEL: `mod_delayed_work` — same.
    pub fn mod_delayed_work(&self, work: &DelayedWork, delay: Duration) -> bool {
        work.mod_on(&self.handle, None, delay)
    }

    /// As [`mod_delayed_work`](Self::mod_delayed_work), for a CPU as in
    /// [`queue_on`](Self::queue_on).
    pub fn mod_delayed_work_on(&self, cpu: u32, work: &DelayedWork, delay: Duration) -> bool {
        work.mod_on(&self.handle, Some(cpu), delay)
    }

    /// Queues an item after an RCU grace period; see [`RcuWork`]. `false`: it was pending already,
    /// and readers that began since then may not be waited for.
    ///
    /// The queue stays alive until then, also without other handles. If it is being
    /// [drained](Self::drain) when the grace period is over, the item is not queued, which is
    /// logged once.
    ///
    /// KERNEL: `queue_rcu_work` — same.
    pub fn queue_rcu_work(&self, work: &RcuWork) -> bool {
        work.queue_on(&self.handle)
    }

    /// Queues a reusable item for a CPU of NUMA node `node`: the one the caller is on if it is of
    /// that node, else the node's first; of a managed queue not an isolated one. A node that does
    /// not exist, or has no CPU to use, stands for any. On a per-CPU queue it is better not used,
    /// which is logged once.
    ///
    /// KERNEL: `queue_work_node` — same.
    pub fn queue_work_node(&self, node: u32, work: &Work) -> bool {
        work.queue_on(&self.handle, self.cpu_of_node(node))
    }

    pub(crate) fn cpu_of_node(&self, node: u32) -> Option<u32> {
        if self.handle.spec.kind == Kind::Percpu {
            notice::once(notice::Notice::Node, || {
                format!(
                    "queue_work_node on per-CPU workqueue '{}': meant for unbound ones",
                    self.name()
                )
            });
        }
        self.handle.runtime.cpu_of_node(self.handle.spec.kind, node)
    }

    /// [Enables](Work::enable) an item and, if that makes it ready to be queued, queues it. `true`:
    /// it was enabled and queueing was tried; so also on a queue that lets nothing in, where the
    /// item is idle afterwards, as by [`queue_work`](Self::queue_work).
    ///
    /// KERNEL: `enable_and_queue_work` — same.
    pub fn enable_and_queue_work(&self, work: &Work) -> bool {
        let is_enabled = work.enable();
        if is_enabled {
            self.queue_work(work);
        }
        is_enabled
    }

    /// Waits until an item's last queueing has finished, wherever it is queued: [`Work::flush`]
    /// with another name. `false`: there was nothing to wait for. Blocks without a time limit; in a
    /// work function that counts as blocking at once.
    ///
    /// KERNEL: `flush_work` — differs, as [`Work::flush`] says.
    pub fn flush_work(&self, work: &Work) -> bool {
        work.flush()
    }

    /// The attributes the queue has: those it was built with, or was given since. Of a per-CPU or
    /// managed queue only the priority means anything.
    #[must_use]
    pub fn attrs(&self) -> Attrs {
        self.handle.attrs()
    }

    /// Changes where and how the queue's workers run, while it is used. Unbound and ordered queues
    /// only.
    ///
    /// These replace *all* attributes that the queue has. So those that begin with
    /// [`Attrs::new`], which has niceness 0, also end the niceness of a
    /// [high-priority](Builder::highpri) queue. To change some, begin with [`attrs`](Self::attrs),
    /// or use [`update_attrs`](Self::update_attrs).
    ///
    /// What is queued from now on is served by the new workers; what was queued before is still
    /// served by the old ones, as is an item that is queued again while it runs, for as long as
    /// that goes on. Nothing is lost, `max_active` holds for both together, and an ordered queue
    /// keeps its order: its new workers begin when the old ones have finished. Does not wait for
    /// that.
    ///
    /// KERNEL: `apply_workqueue_attrs` — same, except that an ordered queue stays ordered.
    ///
    /// # Errors
    /// Nothing has changed if it fails. [`InvalidInput`](crate::ErrorKind::InvalidInput): another
    /// kind of queue, or attributes that make no sense.
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied): a priority that the process may
    /// not have. [`ThreadCreation`](crate::ErrorKind::ThreadCreation): a priority is tried by a
    /// thread that ends at once, and none was available for it.
    /// [`Unavailable`](crate::ErrorKind::Unavailable): the queue is [closed](Self::close).
    ///
    /// ```
    /// use cmwq::{Attrs, CpuSet};
    /// let wq = cmwq::Workqueue::builder("movable").unbound().build()?;
    /// wq.apply_attrs(&Attrs::new().cpumask(CpuSet::single(0)).nice(3))?;
    /// assert_eq!(wq.attrs().nice, 3);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "apply_workqueue_attrs")]
    pub fn apply_attrs(&self, attrs: &Attrs) -> Result<(), Error> {
        self.check_new_attrs(attrs)?;
        self.handle.apply_attrs(attrs.clone());
        Ok(())
    }

    /// Changes some of the attributes, as [`apply_attrs`](Self::apply_attrs) does all: `what`
    /// changes a copy of those that the queue has. If somebody else changes them at the same time,
    /// it is called again, with the new ones, so that no change is lost.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use cmwq::CpuSet;
    /// let wq = cmwq::Workqueue::builder("urgent").unbound().highpri().build()?;
    /// wq.update_attrs(|attrs| attrs.cpumask = Some(CpuSet::single(0)))?;
    /// assert_eq!(wq.attrs().nice, -20, "as before");
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn update_attrs(&self, mut what: impl FnMut(&mut Attrs)) -> Result<(), Error> {
        loop {
            let before = self.attrs();
            let mut attrs = before.clone();
            what(&mut attrs);
            self.check_new_attrs(&attrs)?;
            if self.handle.replace_attrs(&before, attrs) {
                return Ok(());
            }
        }
    }

    fn check_new_attrs(&self, attrs: &Attrs) -> Result<(), Error> {
        let wq = &self.handle;
        if !wq.spec.kind.is_replaceable() {
            return Err(Error::invalid(format!(
                "workqueue '{}': attributes can be changed of unbound and ordered queues only",
                wq.name
            )));
        }
        if wq.is_going() {
            return Err(Error::unavailable(format!("workqueue '{}' is closed", wq.name)));
        }
        check_attrs(wq.runtime, &wq.name, attrs, wq.spec.default_priority())
    }

    /// Waits until everything that was queued before this call has finished. Not for what is queued
    /// meanwhile, so it returns under continuous load; not for armed timers. All that the items did
    /// is visible.
    ///
    /// Blocks without a time limit; [`flush_async`](Self::flush_async) can be awaited with one, or
    /// [waited for](crate::Waiting::wait_timeout). A [frozen](crate::freeze) queue with items that
    /// have not begun is waited for until it is thawed.
    ///
    /// Called from a work function of another queue it counts as blocking at once. From one of its
    /// own items it would wait for itself: that is logged, and it returns at once.
    /// KERNEL: `flush_workqueue` — same, but for the last.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// static DONE: AtomicU32 = AtomicU32::new(0);
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// for _ in 0..10 {
    ///     drop(wq.queue(|| DONE.fetch_add(1, Ordering::Relaxed)));
    /// }
    /// wq.flush();
    /// assert_eq!(DONE.load(Ordering::Relaxed), 10);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "flush_workqueue")]
    pub fn flush(&self) {
        self.handle.flush();
    }

    /// Waits until the queue is empty. Meanwhile only its own items may queue here: from anybody
    /// else, reusable items are dropped and closures [refused](crate::JoinError::is_refused). When
    /// it returns, everybody may queue again; [`close`](Self::close) is for good.
    ///
    /// Blocks without a time limit, as [`flush`](Self::flush) does; in a work function of another
    /// queue it counts as blocking at once. It never returns if the items queue each other for
    /// ever, which is logged after 10 and every 100 flushes; nor while the queue is
    /// [frozen](crate::freeze) and has items. Several may drain a queue at once: each returns when
    /// it has found the queue empty, and the queue takes items again when the last one has. Timers
    /// that are armed are not waited for; the item of one that expires meanwhile is refused, which
    /// ends a [`Periodic`](crate::Periodic). From one of the queue's own items it would wait for
    /// itself: that is logged, and it returns at once.
    ///
    /// KERNEL: `drain_workqueue` — same.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("doc")?;
    /// let again = wq.clone();
    /// drop(wq.queue(move || drop(again.queue(|| println!("after the first")))));
    /// wq.drain();
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "drain_workqueue")]
    pub fn drain(&self) {
        self.handle.drain();
    }

    /// Changes how many items may be in execution at once, from 1 to 2048; values outside are
    /// clamped and logged. So 0 becomes 1 here, whereas it is the default of 1024 in
    /// [`Builder::max_active`]. Raising it starts waiting items at once, in order; lowering it
    /// interrupts none. Does not wait. `min_active` is lowered to it if it was higher, and stays
    /// so.
    ///
    /// KERNEL: `workqueue_set_max_active` — same, but that ordered and BH queues are an error
    /// instead of a warning.
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for ordered and BH queues.
    #[doc(alias = "workqueue_set_max_active")]
    pub fn set_max_active(&self, max_active: u32) -> Result<(), Error> {
        if !self.handle.has_limit() {
            return Err(Error::invalid(format!(
                "the limit of workqueue '{}' cannot be changed: an ordered queue runs one item at \
                 a time, a BH queue \
                 has no limit",
                self.name()
            )));
        }
        tell_max_active("max_active", self.name(), max_active);
        self.handle.set_max_active(max_active);
        Ok(())
    }

    /// How many items may be in execution at once; see [`Builder::max_active`].
    #[must_use]
    pub fn max_active(&self) -> u32 {
        self.handle.max_active()
    }

    /// How many items every NUMA node may have in execution whatever its part of `max_active`; see
    /// [`set_min_active`](Self::set_min_active).
    #[must_use]
    pub fn min_active(&self) -> u32 {
        self.handle.min_active()
    }

    /// Changes how many items every NUMA node may at least have in execution, whatever its part of
    /// `max_active`: 8 by default. More than `max_active` is taken as that, silently; with 0 a node
    /// has its part and no more, but 1 at least. Items that wait for each other should not be more
    /// than this.
    ///
    /// KERNEL: `workqueue_set_min_active` — same, with an error instead of a warning, and that the
    /// last items on a node which the queue has left run with 0, too.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a queue that is neither unbound nor
    /// managed: its limit is not split over nodes.
    #[doc(alias = "workqueue_set_min_active")]
    pub fn set_min_active(&self, min_active: u32) -> Result<(), Error> {
        if !matches!(self.handle.spec.kind, Kind::Unbound | Kind::Managed) {
            return Err(Error::invalid(format!(
                "workqueue '{}' has no limits per node: min_active is for unbound and managed \
                 queues",
                self.name()
            )));
        }
        self.handle.set_min_active(min_active);
        Ok(())
    }
}

impl Workqueue {
    #[inline]
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }

    #[inline]
    pub(crate) fn of_handle(handle: Handle) -> Self {
        Self { handle }
    }
}

/// A handle that waits for nothing when it is dropped, also if it is the queue's last: then the
/// queue is destroyed later.
pub(crate) struct DroppedLater(
    /// There until it is dropped.
    Option<Workqueue>,
);

impl DroppedLater {
    pub(crate) fn new(wq: &Workqueue) -> Self {
        Self(Some(wq.clone()))
    }
}

impl Deref for DroppedLater {
    type Target = Workqueue;

    fn deref(&self) -> &Workqueue {
        self.0.as_ref().expect("a handle is there until it is dropped")
    }
}

impl Drop for DroppedLater {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|wq| wq.into_handle().drop_later());
    }
}

/// Whether workers may run like that. What a queue has without attributes is not asked for: a
/// high-priority queue does without its niceness where that is refused.
pub(crate) fn check_attrs(
    runtime: &Runtime,
    name: &str,
    attrs: &Attrs,
    default: Priority,
) -> Result<(), Error> {
    attrs.check(name)?;
    let priority = attrs.priority();
    if priority == default {
        return Ok(());
    }
    let everywhere = runtime.machine.possible();
    priority.probe(name, runtime.base_policy, &everywhere)
}

impl fmt::Debug for Workqueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.handle, f)
    }
}
