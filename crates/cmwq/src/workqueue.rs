//! The queue as users see it, and how one is made.

use std::fmt;
use std::time::Duration;

use cmwq_core::consts;

use crate::closure::{self, JoinHandle};
use crate::error::Error;
use crate::notice;
use crate::runtime::Runtime;
use crate::work::{DelayedWork, Work};
use crate::wq::{Handle, Kind, Spec};

/// A workqueue: a cheap front-end to worker pools that all queues share and that size themselves.
///
/// Clones are the same queue. When the last clone is dropped, the queue waits for its items and
/// goes; dropped from inside one of its own items, it goes when that item and the others are done.
///
/// | made by | pool | starts an item when |
/// |---|---|---|
/// | [`new`](Self::new), [`Builder::managed`] | one per CPU, workers pinned; idle CPUs help busy ones | some CPU has no *running* worker |
/// | [`Builder::percpu`] | one per CPU, workers pinned | no other worker of that CPU *runs* |
/// | [`Builder::unbound`] | one per pod | at once, up to `max_active` |
/// | [`Builder::ordered`] | one | the one before has finished |
///
/// A worker *runs* until it blocks, in whatever way: a lock, a file, a page fault, a sleep. That is
/// noticed within microseconds, and the next item starts on another worker.
#[derive(Clone)]
#[doc(alias = "workqueue_struct")]
pub struct Workqueue {
    handle: Handle,
}

impl Workqueue {
    /// A managed queue with the default limit: what most programs want.
    ///
    /// # Errors
    /// If the name is empty or the runtime's service thread cannot be created.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::new("checksums")?;
    /// let sum = wq.queue(|| (1..=10).sum::<u32>());
    /// assert_eq!(sum.join().unwrap(), 55);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn new(name: &str) -> Result<Self, Error> {
        Self::builder(name).build()
    }

    /// Describes a queue before it is made. KERNEL: `alloc_workqueue` — same flags, by name.
    #[doc(alias = "alloc_workqueue")]
    pub fn builder(name: &str) -> Builder {
        Builder::new(name)
    }

    /// The queue's name, at most 31 bytes.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    /// Queues a closure. Never blocks for work to be done, never fails: without a thread to run it,
    /// it waits.
    ///
    /// Items of one queue start in the order in which they were queued, as far as they go to the
    /// same pool. On a per-CPU queue that is the calling CPU's.
    ///
    /// ```
    /// # let wq = cmwq::Workqueue::new("doc")?;
    /// let handle = wq.queue(|| std::fs::read_to_string("/proc/version").is_ok());
    /// let _ = handle.join().unwrap();
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "queue_work")]
    pub fn queue<F, T>(&self, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.queue_closure(None, func)
    }

    /// Queues a closure for CPU number `cpu`. On a per-CPU queue it runs there (on another CPU, if
    /// that one is not, or no longer, ours to use); on others it only chooses the pod.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("pinned").percpu().build()?;
    /// assert_eq!(wq.queue_on(0, || 1).join().unwrap(), 1);
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "queue_work_on")]
    pub fn queue_on<F, T>(&self, cpu: usize, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.queue_closure(Some(cpu_number(cpu)), func)
    }

    fn queue_closure<F, T>(&self, cpu: Option<u32>, func: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (item, handle) = closure::item(func);
        // SAFETY: a fresh item of a closure, which owns a reference to itself until its run.
        let queued = unsafe { self.handle.queue_item(cpu, item) };
        debug_assert!(queued, "a fresh item was pending");
        handle
    }

    /// Queues a closure when `delay` has passed: not before, and usually within a millisecond
    /// after.
    ///
    /// The queue stays in being until then, also without other handles. With a zero delay it is
    /// queued at once.
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
    pub fn queue_delayed_on<F, T>(&self, cpu: usize, func: F, delay: Duration) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.delay_closure(Some(cpu_number(cpu)), func, delay)
    }

    fn delay_closure<F, T>(&self, cpu: Option<u32>, func: F, delay: Duration) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (item, handle) = closure::delayed(func);
        // SAFETY: a fresh item of a closure, which owns a reference to itself until its run.
        let queued = unsafe { crate::delayed::DelayedItem::queue(item, &self.handle, cpu, delay) };
        debug_assert!(queued, "a fresh item was pending");
        handle
    }

    /// Queues a reusable item. `true`: this call queued it; `false`: it was pending already.
    ///
    /// KERNEL: `queue_work` — same.
    pub fn queue_work(&self, work: &Work) -> bool {
        work.queue_on(&self.handle, None)
    }

    /// As [`queue_work`](Self::queue_work), for a CPU as in [`queue_on`](Self::queue_on).
    pub fn queue_work_on(&self, cpu: usize, work: &Work) -> bool {
        work.queue_on(&self.handle, Some(cpu_number(cpu)))
    }

    /// Queues a reusable item when `delay` has passed. `false`: it was pending already, and its
    /// delay is unchanged.
    ///
    /// KERNEL: `queue_delayed_work` — same.
    pub fn queue_delayed_work(&self, work: &DelayedWork, delay: Duration) -> bool {
        work.queue_on(&self.handle, None, delay)
    }

    /// As [`queue_delayed_work`](Self::queue_delayed_work), for a CPU as in
    /// [`queue_on`](Self::queue_on).
    pub fn queue_delayed_work_on(&self, cpu: usize, work: &DelayedWork, delay: Duration) -> bool {
        work.queue_on(&self.handle, Some(cpu_number(cpu)), delay)
    }

    /// Waits for an item's last queueing; see [`Work::flush`].
    pub fn flush_work(&self, work: &Work) -> bool {
        work.flush()
    }

    /// Waits until everything that was queued before this call has finished. Not for what is queued
    /// meanwhile, so it returns under continuous load; not for armed timers.
    ///
    /// Called from a work function of another queue it counts as blocking at once. From one of its
    /// own items it would wait for itself: don't.
    ///
    /// KERNEL: `flush_workqueue` — same.
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
}

fn cpu_number(cpu: usize) -> u32 {
    u32::try_from(cpu).unwrap_or(u32::MAX)
}

impl fmt::Debug for Workqueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.handle, f)
    }
}

/// A description of a queue; see [`Workqueue::builder`].
#[must_use = "a builder makes a queue only when `build` is called"]
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    kind: Option<Kind>,
    conflict: bool,
    power_efficient: bool,
    highpri: bool,
    cpu_intensive: bool,
    max_active: u32,
}

/// Longest name, in bytes. KERNEL: `WQ_NAME_LEN` less the terminating null — same.
const MAX_NAME: usize = 31;

impl Builder {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: None,
            conflict: false,
            power_efficient: false,
            highpri: false,
            cpu_intensive: false,
            max_active: 0,
        }
    }

    fn kind(mut self, kind: Kind) -> Self {
        self.conflict |= self.kind.is_some_and(|other| other != kind);
        self.kind = Some(kind);
        self
    }

    /// Items run on the CPU that queued them, or the one named; one *running* worker per CPU
    /// (`WQ_PERCPU`).
    #[doc(alias = "WQ_PERCPU")]
    pub fn percpu(self) -> Self {
        self.kind(Kind::Percpu)
    }

    /// Items start at once, up to `max_active`, on any CPU of the pod; no concurrency management
    /// (`WQ_UNBOUND`).
    #[doc(alias = "WQ_UNBOUND")]
    pub fn unbound(self) -> Self {
        self.kind(Kind::Unbound)
    }

    /// One *running* worker per CPU, as with [`percpu`](Self::percpu), but any CPU: one that has nothing to run takes
    /// items from one that has more than it can. The default.
    pub fn managed(self) -> Self {
        self.kind(Kind::Managed)
    }

    /// One item at a time, in queueing order (`alloc_ordered_workqueue`).
    #[doc(alias = "alloc_ordered_workqueue")]
    pub fn ordered(self) -> Self {
        self.kind(Kind::Ordered)
    }

    /// Served by workers of nice −20 where permitted, in pools of their own; where not permitted
    /// that is said once, and the pools are still their own (`WQ_HIGHPRI`).
    #[doc(alias = "WQ_HIGHPRI")]
    pub fn highpri(mut self) -> Self {
        self.highpri = true;
        self
    }

    /// Items do not keep others from starting; their own start is still managed
    /// (`WQ_CPU_INTENSIVE`). Means nothing for unbound and ordered queues.
    #[doc(alias = "WQ_CPU_INTENSIVE")]
    pub fn cpu_intensive(mut self) -> Self {
        self.cpu_intensive = true;
        self
    }

    /// Per-CPU, unless the parameter `power_efficient` is on, then unbound (`WQ_POWER_EFFICIENT`).
    #[doc(alias = "WQ_POWER_EFFICIENT")]
    pub fn power_efficient(mut self) -> Self {
        self.power_efficient = true;
        self
    }

    /// How many items may be in execution at once: on each CPU for per-CPU queues, in all for
    /// others. 0 stands for 1024; above 2048 is said and clamped. An ordered queue has 1.
    pub fn max_active(mut self, max_active: u32) -> Self {
        self.max_active = max_active;
        self
    }

    /// Makes the queue.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty name, kinds that exclude each
    /// other, or a limit on an ordered queue; [`ThreadCreation`](crate::ErrorKind::ThreadCreation)
    /// if the runtime's service thread cannot be created.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("disk").unbound().max_active(4).build()?;
    /// assert_eq!(wq.name(), "disk");
    /// assert!(cmwq::Workqueue::builder("odd").percpu().unbound().build().is_err());
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    pub fn build(self) -> Result<Workqueue, Error> {
        let runtime = Runtime::global()?;
        self.build_on(runtime)
    }

    pub(crate) fn build_on(self, runtime: &'static Runtime) -> Result<Workqueue, Error> {
        let spec = self.spec(runtime.params.power_efficient)?;
        let name = shorten(&self.name);
        Ok(Workqueue { handle: Handle::new(runtime.new_wq(name, spec)) })
    }

    fn spec(&self, power_efficient: bool) -> Result<Spec, Error> {
        let name = &self.name;
        if name.is_empty() || name.contains('\0') {
            return Err(Error::invalid("a workqueue needs a name, without null characters"));
        }
        if self.conflict {
            return Err(Error::invalid(format!(
                "workqueue '{name}': choose one of percpu, unbound, managed and ordered"
            )));
        }
        let mut kind = self.kind.unwrap_or(Kind::Managed);
        if self.power_efficient {
            if self.kind.is_some_and(|kind| kind != Kind::Percpu) {
                return Err(Error::invalid(format!(
                    "workqueue '{name}': power_efficient is for per-CPU queues"
                )));
            }
            kind = if power_efficient { Kind::Unbound } else { Kind::Percpu };
        }
        if kind == Kind::Ordered && self.max_active > 1 {
            return Err(Error::invalid(format!(
                "workqueue '{name}': an ordered queue runs one item at a time; leave max_active out"
            )));
        }
        Ok(Spec {
            kind,
            highpri: self.highpri,
            cpu_intensive: self.cpu_intensive,
            max_active: clamp_max_active(name, self.max_active),
        })
    }
}

/// KERNEL: `wq_clamp_max_active` — same.
fn clamp_max_active(name: &str, asked: u32) -> u32 {
    match asked {
        0 => consts::WQ_DFL_ACTIVE,
        1..=consts::WQ_MAX_ACTIVE => asked,
        _ => {
            notice::always(format!(
                "max_active {asked} of workqueue '{name}' is out of range, {} taken (1 to {})",
                consts::WQ_MAX_ACTIVE,
                consts::WQ_MAX_ACTIVE
            ));
            consts::WQ_MAX_ACTIVE
        }
    }
}

/// KERNEL: names are truncated to 31 bytes with one warning — same.
fn shorten(name: &str) -> &str {
    if name.len() <= MAX_NAME {
        return name;
    }
    let end = (0..=MAX_NAME).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    let short = &name[..end];
    notice::once(notice::Notice::Name, || {
        format!("workqueue name '{name}' is too long, '{short}' is used")
    });
    short
}
