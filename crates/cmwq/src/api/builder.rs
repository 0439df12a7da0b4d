//! How a queue is made.

use cmwq_core::{consts, limit};

use crate::api::workqueue::{Workqueue, check_attrs};
use crate::engine::queue::handle::Handle;
use crate::engine::runtime::Runtime;
use crate::engine::threads::rescuer;
use crate::engine::tools::account::Account;
use crate::engine::tools::attrs::{Attrs, Sched};
use crate::engine::wq::{Kind, Spec};
use crate::os::error::Error;
use crate::os::notice;
use crate::os::topo::{AffinityScope, CpuSet};

/// A description of a queue; see [`Workqueue::builder`].
#[must_use = "a builder makes a queue only when `build` is called"]
#[derive(Clone, Debug)]
pub struct Builder {
    name: String,
    kind: Option<Kind>,
    conflict: bool,
    power_efficient: bool,
    bh: bool,
    highpri: bool,
    cpu_intensive: bool,
    freezable: bool,
    mem_reclaim: bool,
    legacy: bool,
    sysfs: bool,
    max_active: u32,
    total: Option<u32>,
    max_queued: Option<u32>,
    sample_every: u32,
    attrs: Option<Attrs>,
}

/// Longest name, in bytes. KERNEL: `WQ_NAME_LEN` less the terminating null — same.
const MAX_NAME: usize = 31;

impl Builder {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: None,
            conflict: false,
            power_efficient: false,
            bh: false,
            highpri: false,
            cpu_intensive: false,
            freezable: false,
            mem_reclaim: false,
            legacy: false,
            sysfs: false,
            max_active: 0,
            total: None,
            max_queued: None,
            sample_every: 0,
            attrs: None,
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

    /// At most one *running* worker per CPU, as with [`percpu`](Self::percpu). But an item may run
    /// on any CPU: an idle CPU takes items of a CPU that has more than it can run. The default.
    ///
    /// No order is promised. An item usually begins on the CPU that queues it, unless the thread
    /// there goes on computing and the item needs a CPU for long. Items that need it for 200 µs or
    /// more, and have to wait, usually begin in the order of their coming, whichever CPUs with a
    /// common last-level cache queue them.
    pub fn managed(self) -> Self {
        self.kind(Kind::Managed)
    }

    /// One item at a time, in queueing order (`alloc_ordered_workqueue`).
    #[doc(alias = "alloc_ordered_workqueue")]
    pub fn ordered(self) -> Self {
        self.kind(Kind::Ordered)
    }

    /// Items run on the CPU that queued them, or the one named, one at a time, in order, in that
    /// CPU's BH context, which is no worker: they must be short, and must not block (`WQ_BH`).
    /// Those of a [`highpri`](Self::highpri) BH queue come first. Only that and
    /// [`percpu`](Self::percpu) go with it; there is no limit to set.
    ///
    /// Inside, [`current_work`](crate::current_work) is `None`. Waiting for other items is a
    /// mistake that is logged once; while an item waits, those behind it on its CPU do too.
    ///
    /// KERNEL: `WQ_BH` — differs: a thread per CPU (of nice −20 where permitted) in place of
    /// softirqs, so the other threads of the CPU are not locked out, and blocking is not prevented.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("rx").bh().highpri().build()?;
    /// assert_eq!(wq.queue(|| 1).join().unwrap(), 1);
    /// assert!(cmwq::Workqueue::builder("odd").bh().max_active(4).build().is_err());
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "WQ_BH")]
    pub fn bh(mut self) -> Self {
        self.bh = true;
        self
    }

    /// Served by workers of nice −20, in pools of their own (`WQ_HIGHPRI`). That takes
    /// `CAP_SYS_NICE` or an `RLIMIT_NICE` of 40. Where it is not permitted, the workers have the
    /// niceness of the process, which is logged once: the pools are still their own, so items do
    /// not wait behind those of other queues, but share the CPUs with them as equals.
    ///
    /// An item that waits for one of a queue without this waits as long as that takes: priorities
    /// are not inherited.
    #[doc(alias = "WQ_HIGHPRI")]
    pub fn highpri(mut self) -> Self {
        self.highpri = true;
        self
    }

    /// Items do not keep others from starting; their own start is still managed
    /// (`WQ_CPU_INTENSIVE`). Means nothing for unbound and ordered queues.
    ///
    /// An item of another queue that uses the CPU for long without sleeping (the parameter
    /// `cpu_intensive_thresh_us`: 10 ms, more on slow machines, 0 for never) while others wait for
    /// that CPU is treated likewise from then on. On per-CPU queues it is also named, from the
    /// fourth time on (`cpu_intensive_warning_thresh`), with doubling intervals.
    #[doc(alias = "WQ_CPU_INTENSIVE")]
    pub fn cpu_intensive(mut self) -> Self {
        self.cpu_intensive = true;
        self
    }

    /// Starts nothing while the process is [frozen](crate::freeze) (`WQ_FREEZABLE`).
    #[doc(alias = "WQ_FREEZABLE")]
    pub fn freezable(mut self) -> Self {
        self.freezable = true;
        self
    }

    /// At least one item of the queue makes progress whatever happens: the queue has a *rescuer*, a
    /// thread in reserve that runs its items, one at a time, where no worker is available for them
    /// (`WQ_MEM_RECLAIM`). For queues on which something depends that must go on when the system
    /// has no more threads to give.
    ///
    /// The rescuer is called when an item has had nobody to come for it for 10 ms, and looks after
    /// each pool in need every 100 ms at the latest. It runs at nice −20 where permitted, on the
    /// CPUs of the pool it helps. While an item that it runs blocks, it does nothing else: items of
    /// one queue must not wait for each other, nor for items of queues without a rescuer; see
    /// [`current_is_rescuer`](crate::current_is_rescuer). An idle rescuer costs a sleeping thread.
    /// The first such queue of a process gets one more thread, which creates threads: rescuers are
    /// called also while a creation does not return, and who queues does not wait for one.
    ///
    /// **Where the system waits for the program to get memory back**: a file system or a block
    /// device in user space, which has to write pages before they can be freed. What such a program
    /// allocates, the system's part of its calls included, may wait for its own writing, and no
    /// rescuer helps there. So it should also call `prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)` (Linux
    /// 5.6, with `CAP_SYS_RESOURCE`): memory that such a thread asks for does not wait for that.
    /// That is a state of the calling thread, which threads inherit that it creates from then on.
    /// So call it in `main`, before the first use of this library and before other threads are
    /// started. Such programs also lock their memory (`mlockall`).
    ///
    /// KERNEL: `WQ_MEM_RECLAIM` — same, for want of threads instead of memory.
    ///
    /// ```
    /// let wq = cmwq::Workqueue::builder("writeback").mem_reclaim().build()?;
    /// assert!(wq.queue(cmwq::current_is_mem_reclaim).join().unwrap());
    /// # Ok::<(), cmwq::Error>(())
    /// ```
    #[doc(alias = "WQ_MEM_RECLAIM")]
    pub fn mem_reclaim(mut self) -> Self {
        self.mem_reclaim = true;
        self
    }

    /// Made as the kernel's old constructors make theirs: items of this queue may wait for queues
    /// without a rescuer though it has one (`__WQ_LEGACY`). See [`legacy`](crate::api::legacy).
    #[doc(alias = "__WQ_LEGACY")]
    pub fn legacy(mut self) -> Self {
        self.legacy = true;
        self
    }

    /// The queue's attributes can be changed by its name, from outside of the process, too, if that
    /// is [asked for](crate::observe::control) (`WQ_SYSFS`). See [`sysfs`](crate::observe::sysfs).
    ///
    /// A name can be there once: [`build`](Self::build) fails if another queue of it is. Not for BH
    /// queues.
    #[doc(alias = "WQ_SYSFS")]
    pub fn sysfs(mut self) -> Self {
        self.sysfs = true;
        self
    }

    /// Per-CPU, unless the parameter `power_efficient` is on, then unbound (`WQ_POWER_EFFICIENT`).
    #[doc(alias = "WQ_POWER_EFFICIENT")]
    pub fn power_efficient(mut self) -> Self {
        self.power_efficient = true;
        self
    }

    /// How many items may be in execution at once, blocked ones included: on each CPU for per-CPU
    /// queues, in all for others, but for what is said below of several NUMA nodes. From 1 to 2048;
    /// more is clamped to 2048 and logged. 0, the default, stands for 1024, whereas
    /// [`set_max_active`](Workqueue::set_max_active) makes it 1. An ordered queue has 1; a BH queue
    /// has no limit.
    ///
    /// Each item that blocks holds a thread, so this also bounds the queue's threads: set it to
    /// what is waited for can take, such as the number of connections to a database.
    ///
    /// On a machine with several NUMA nodes the limit of an unbound or managed queue is split: each
    /// node has a part of it as large as its part of the CPUs, rounded up, but no less than
    /// [`min_active`](crate::Workqueue::set_min_active), which is 8 or, if that is less, the limit
    /// itself. So with 4 on two nodes as many as 8 may run; and if only one of two nodes queues,
    /// 1024 gives at most 512. Items of which many wait for each other need a `min_active` that is
    /// as large.
    pub fn max_active(mut self, max_active: u32) -> Self {
        self.max_active = max_active;
        self
    }

    /// Sets all attributes at once; see [`Attrs`]. A high-priority queue's niceness stays −20
    /// unless they name another priority. For unbound and ordered queues; managed ones have a
    /// priority only (`nice` and `sched`), per-CPU ones have none.
    pub fn attrs(mut self, attrs: Attrs) -> Self {
        self.attrs = Some(attrs);
        self
    }

    fn attr(mut self, set: impl FnOnce(Attrs) -> Attrs) -> Self {
        self.attrs = Some(set(self.attrs.take().unwrap_or_default()));
        self
    }

    /// See [`Attrs::nice`]; for unbound, ordered and managed queues. [`build`](Self::build) tries a
    /// niceness that the queue would not have without this, by a thread that ends at once.
    pub fn nice(self, nice: i32) -> Self {
        self.attr(|attrs| attrs.nice(nice))
    }

    /// See [`Attrs::cpumask`]; for unbound and ordered queues.
    pub fn cpumask(self, cpumask: CpuSet) -> Self {
        self.attr(|attrs| attrs.cpumask(cpumask))
    }

    /// See [`Attrs::affinity_scope`]; for unbound queues.
    pub fn affinity_scope(self, scope: AffinityScope) -> Self {
        self.attr(|attrs| attrs.affinity_scope(Some(scope)))
    }

    /// See [`Attrs::affinity_strict`]; for unbound queues.
    pub fn affinity_strict(self, strict: bool) -> Self {
        self.attr(|attrs| attrs.affinity_strict(strict))
    }

    /// See [`Attrs::sched`]; for unbound, ordered and managed queues. Tried as a
    /// [niceness](Self::nice) is.
    pub fn sched(self, sched: Sched) -> Self {
        self.attr(|attrs| attrs.sched(sched))
    }

    /// For a per-CPU queue: how many items may be in execution on all CPUs together, besides
    /// [`max_active`](Self::max_active) on each. From 1 to 2048; values outside are clamped and
    /// logged, so 0 becomes 1. Without this call there is no such limit. Linux has none. Where it
    /// is reached, CPUs take turns.
    pub fn max_active_total(mut self, total: u32) -> Self {
        self.total = Some(total);
        self
    }

    /// How many closures may wait on the queue, queued and not yet begun: more are given back by
    /// [`try_queue`](Workqueue::try_queue) and [`try_queue_on`](Workqueue::try_queue_on). All other
    /// calls pay no attention to it: what [`queue`](Workqueue::queue), [`run`](Workqueue::run),
    /// [`scope`](Workqueue::scope) and [`IteratorOn`](crate::IteratorOn) queue counts, and may go
    /// beyond. 0 lets `try_queue` queue nothing.
    ///
    /// Reusable items do not count, and are always taken: each is its program's memory already and
    /// waits at most once, so there are never more of them than the program has made. Closures with
    /// a delay do not count either.
    ///
    /// It costs each closure of the queue two changes of a counter that all CPUs share.
    pub fn max_queued(mut self, max_queued: u32) -> Self {
        self.max_queued = Some(max_queued);
        self
    }

    /// Notes for every `every`-th closure how long it waited and ran, for [`Workqueue::times`] and
    /// [`Stats::oldest`](crate::Stats::oldest): 1 for all of them, 0, the default, for none. Not
    /// for closures with a delay, nor for reusable items: a [`Work`](crate::Work) has no room for
    /// the time at which it was queued, and `cmwq trace` tells how long each waits and runs.
    ///
    /// It costs each closure a change of a counter that all CPUs share, and each one that is noted
    /// reads the clock three times. The queue takes some 4 KiB more.
    pub fn sample_times(mut self, every: u32) -> Self {
        self.sample_every = every;
        self
    }

    /// Makes the queue. If it is the first of the process, this starts the runtime; see
    /// [`Workqueue::new`].
    ///
    /// # Errors
    /// No queue is made then. [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty name or
    /// one with a null character, kinds that exclude each other, a limit above 1 on an ordered
    /// queue, a limit on a BH queue, or attributes that make no sense or are not for this kind;
    /// [`PermissionDenied`](crate::ErrorKind::PermissionDenied) for a priority that the process may
    /// not have; [`ThreadCreation`](crate::ErrorKind::ThreadCreation) if the runtime's service
    /// thread, the queue's rescuer or, with the first such queue, the thread that creates threads,
    /// or the thread that tries a priority cannot be created;
    /// [`Unavailable`](crate::ErrorKind::Unavailable) after a [`shutdown`](crate::shutdown);
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for a name that is taken, see
    /// [`sysfs`](Self::sysfs).
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
        let mut attrs = self.attrs.clone();
        if let Some(attrs) = &mut attrs {
            if attrs.priority().is_base() {
                attrs.nice = spec.default_priority().nice;
            }
            self.check_kind_of(attrs, spec.kind)?;
            check_attrs(runtime, name, attrs, spec.default_priority())?;
        }
        let wq = runtime.new_wq(name, spec)?;
        if let Some(attrs) = attrs.filter(|attrs| *attrs != wq.default_attrs()) {
            wq.set_first_attrs(attrs);
        }
        let handle = Handle::new(wq, Account::new(self.max_queued, self.sample_every));
        if spec.mem_reclaim {
            rescuer::start(&handle).map_err(|error| {
                Error::thread(format!("cannot create the rescuer of workqueue '{name}'"), error)
            })?;
        }
        // The last step, as in the kernel: from now on others may change it.
        if self.sysfs {
            runtime.enter_sysfs(&handle)?;
        }
        Ok(Workqueue::of_handle(handle))
    }

    fn check_kind_of(&self, attrs: &Attrs, kind: Kind) -> Result<(), Error> {
        let wrong = match kind {
            Kind::Percpu | Kind::Bh => "a per-CPU queue has no attributes",
            Kind::Managed if !attrs.is_about_priority_only() => {
                "a managed queue uses all CPUs; of its attributes only the priority can be set"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("workqueue '{}': {wrong}", self.name)))
    }

    fn spec(&self, saves_power: bool) -> Result<Spec, Error> {
        let name = &self.name;
        if name.is_empty() || name.contains('\0') {
            return Err(Error::invalid("a workqueue needs a name, without null characters"));
        }
        if self.conflict {
            return Err(Error::invalid(format!(
                "workqueue '{name}': choose one of percpu, unbound, managed and ordered"
            )));
        }
        if self.bh {
            return self.bh_spec();
        }
        let mut kind = self.kind.unwrap_or(Kind::Managed);
        if self.power_efficient {
            if self.kind.is_some_and(|kind| kind != Kind::Percpu) {
                return Err(Error::invalid(format!(
                    "workqueue '{name}': power_efficient is for per-CPU queues"
                )));
            }
            kind = Kind::power_efficient(saves_power);
        }
        if self.total.is_some() && kind != Kind::Percpu && !self.power_efficient {
            return Err(Error::invalid(format!(
                "workqueue '{name}': max_active_total is for per-CPU queues; here max_active is \
                 for all CPUs of a NUMA node together"
            )));
        }
        if kind == Kind::Ordered && self.max_active > 1 {
            return Err(Error::invalid(format!(
                "workqueue '{name}': an ordered queue runs one item at a time; leave max_active out"
            )));
        }
        if self.max_active != 0 {
            tell_max_active("max_active", name, self.max_active);
        }
        if let Some(total) = self.total {
            tell_max_active("max_active_total", name, total);
        }
        Ok(Spec {
            kind,
            highpri: self.highpri,
            cpu_intensive: self.cpu_intensive,
            freezable: self.freezable,
            mem_reclaim: self.mem_reclaim,
            max_active: self.max_active,
            total: self.total,
            legacy: self.legacy,
        })
    }
}

impl Builder {
    /// KERNEL: `__WQ_BH_ALLOWS`, and the check of `max_active` — same, as an error instead of a
    /// warning and NULL. A limit in all is refused likewise.
    fn bh_spec(&self) -> Result<Spec, Error> {
        let name = &self.name;
        let is_percpu = self.kind.is_none_or(|kind| kind == Kind::Percpu);
        let other = self.power_efficient
            || self.cpu_intensive
            || self.freezable
            || self.mem_reclaim
            || self.legacy
            || self.sysfs;
        if !is_percpu || other {
            return Err(Error::invalid(format!(
                "workqueue '{name}': only highpri and percpu go with bh"
            )));
        }
        let limit = match self.total {
            Some(_) => Some("max_active_total"),
            None => (self.max_active != 0).then_some("max_active"),
        };
        if let Some(limit) = limit {
            return Err(Error::invalid(format!(
                "workqueue '{name}': a bh queue has no limit; leave {limit} out"
            )));
        }
        Ok(Spec { highpri: self.highpri, ..Spec::of(Kind::Bh) })
    }
}

/// Says if another limit than this is taken. `setting`: which of them.
///
/// KERNEL: `wq_clamp_max_active` — same.
pub(crate) fn tell_max_active(setting: &str, name: &str, asked: u32) {
    let taken = limit::in_range(asked);
    if taken != asked {
        notice::always(format!(
            "{setting} {asked} of workqueue '{name}' is out of range, {taken} taken (1 to {})",
            consts::WQ_MAX_ACTIVE
        ));
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
