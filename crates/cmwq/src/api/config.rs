//! Settings of the whole process, made before the library is first used.

use std::fmt;
use std::time::Duration;

use crate::api::set_param;
use crate::detect::method::Detect;
use crate::engine::threads::thread_hooks::{self, ThreadHooks, WorkerThread};
use crate::os::error::Error;
use crate::os::notice;
use crate::os::panic::{self, ItemPanic};
use crate::os::topo::{AffinityScope, CpuSet};

/// Settings of the whole process, with types; to be [installed](Self::install) before the library
/// is first used.
///
/// What is not set here is as the environment says (`CMWQ_PARAMS`, `CMWQ_DETECT`), or as it is by
/// default. Settings here override the environment, as those of [`set_param`](crate::set_param) do.
/// A forked child has them, too, hooks and handlers included.
///
/// There is no method for `idle_ratio`, `cache_shard_size`, `cpu_intensive_warning_thresh`,
/// `watchdog_signal`, `dump_signal`, `panic_on_stall`, `panic_on_stall_time` and `control`: set
/// them by [`set_param`](crate::set_param), which lists all parameters with their units, before the
/// first use. The last four can also be set later, by [`dump_on_signal`](crate::dump_on_signal),
/// [`watchdog`](crate::watchdog) and [`control`](crate::control).
///
/// There is one set of pools in a process, and so one configuration: its purpose is that
/// everybody's items together do not run more than the CPUs can, and two sets of pools would not
/// know of each other. A queue is what isolates: it has its own limit, its own priority and CPUs
/// ([`Attrs`](crate::Attrs)), and its own [backlog](crate::Builder::max_queued), and blocked
/// threads are replaced.
///
/// ```standalone_crate
/// use std::time::Duration;
///
/// cmwq::Config::builder()
///     .idle_timeout(Duration::from_secs(5))
///     .stack_size(8 << 20)
///     .on_thread_start(|thread| println!("{} begins", thread.name()))
///     .on_notice(|text| eprintln!("workqueues: {text}"))
///     .install()?;
/// let wq = cmwq::Workqueue::new("first")?;
/// assert_eq!(wq.queue(|| 1).join().unwrap(), 1);
/// assert_eq!(cmwq::param("idle_timeout").unwrap(), "5");
/// assert!(cmwq::Config::builder().install().is_err(), "it was used");
/// # Ok::<(), cmwq::Error>(())
/// ```
#[must_use = "nothing is set until `install` is called"]
#[derive(Default)]
pub struct Config {
    params: Vec<(&'static str, String)>,
    detect: Option<Detect>,
    hooks: ThreadHooks,
    notices: Option<notice::Sink>,
    panics: Option<panic::Handler>,
}

impl Config {
    /// A configuration that changes nothing.
    pub fn builder() -> Self {
        Self::default()
    }

    fn param(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.params.push((name, value.to_string()));
        self
    }

    /// Which CPUs share a pool of unbound queues (`default_affinity_scope`): cache shards by
    /// default.
    pub fn default_affinity_scope(self, scope: AffinityScope) -> Self {
        self.param("default_affinity_scope", scope)
    }

    /// Which CPUs share a pool of managed queues (`managed_affinity_scope`):
    /// [`Cpu`](AffinityScope::Cpu), the default, or [`System`](AffinityScope::System), which
    /// suits programs whose items start other programs: those inherit the CPUs of the worker that
    /// starts them. As many items run at once as there are CPUs either way; with `System` a worker
    /// may run on all of them, and all share one lock.
    pub fn managed_affinity_scope(self, scope: AffinityScope) -> Self {
        self.param("managed_affinity_scope", scope)
    }

    /// The CPUs of unbound queues (`unbound_cpus`): all by default. May not be empty.
    pub fn unbound_cpus(self, cpus: &CpuSet) -> Self {
        self.param("unbound_cpus", cpus)
    }

    /// Whether [power-efficient](crate::Builder::power_efficient) queues are unbound
    /// (`power_efficient`).
    pub fn power_efficient(self, is_on: bool) -> Self {
        self.param("power_efficient", u8::from(is_on))
    }

    /// After how much CPU time without a sleep an item does not keep others from starting any more
    /// (`cpu_intensive_thresh_us`), in whole microseconds: 10 ms by default, up to 1 s on very slow
    /// machines. Zero, and less than a microsecond: never. There is no maximum but 2^64 − 1 µs,
    /// beyond which [`install`](Self::install) fails. Cannot be changed after the first use of the
    /// library.
    pub fn cpu_intensive_thresh(self, thresh: Duration) -> Self {
        self.param("cpu_intensive_thresh_us", thresh.as_micros())
    }

    /// How long nothing may happen where work waits before the [watchdog](crate::watchdog) reports
    /// it (`watchdog_thresh`): 30 s by default, zero for never, 1e9 s at most.
    pub fn watchdog_thresh(self, thresh: Duration) -> Self {
        self.param("watchdog_thresh", thresh.as_secs_f64())
    }

    /// After how long a surplus idle worker leaves (`idle_timeout`): 300 s by default, 1e9 s at
    /// most. Zero: at once. Surplus are those beyond two in each pool, and only when there is at
    /// least one of them for every four busy ones (`idle_ratio`); the two stay as long as the pool
    /// does. Cannot be changed after the first use of the library.
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        self.param("idle_timeout", timeout.as_secs_f64())
    }

    /// How many workers there may be, of all queues together (`max_workers`): any number by
    /// default, which 0 stands for.
    ///
    /// Items that block need a worker each. Where there are as many as there may be, items wait
    /// until a worker is free, though CPUs may be idle, and that is logged once. Pools let idle
    /// workers go that others need more, down to one each. Two rules keep it from standing still: a
    /// pool may always have one worker, so a process with `n` pools may have up to `n` more than
    /// this; and queues with a [rescuer](crate::Builder::mem_reclaim), whose thread does not count,
    /// go on. Items that wait for items of other queues may otherwise wait for ever.
    ///
    /// [Other threads](crate#what-it-does-to-a-process) than workers do not count either: the
    /// service thread, the creator, sentinels, BH contexts, the watchdog.
    pub fn max_workers(self, max: u32) -> Self {
        self.param("max_workers", max)
    }

    /// How large the stacks of threads are that run functions (`stack_size`), in bytes, rounded up
    /// to whole KiB: 2 MiB by default, from 64 KiB to 1 GiB.
    pub fn stack_size(self, bytes: usize) -> Self {
        self.param("stack_size", bytes.div_ceil(1024))
    }

    /// Whether tools can see the state of this process (`inspect`): they can by default.
    pub fn inspect(self, is_on: bool) -> Self {
        self.param("inspect", u8::from(is_on))
    }

    /// How blocking is noticed (`CMWQ_DETECT`): by the best that works here unless said otherwise.
    pub fn detect(mut self, detect: Detect) -> Self {
        self.detect = Some(detect);
        self
    }

    /// What each thread calls that will run work functions, before the first of them: workers,
    /// rescuers, BH contexts. While it has not returned, the thread runs nothing; it must not wait
    /// for items. Its panics are swallowed. A child that it forks must not return from it.
    pub fn on_thread_start(mut self, hook: impl Fn(&WorkerThread) + Send + Sync + 'static) -> Self {
        self.hooks.start = Some(Box::new(hook));
        self
    }

    /// What each of these threads calls when it leaves, after the last function. Threads that are
    /// there when the process ends do not call it, unless [`shutdown`](crate::shutdown) is called
    /// before, which waits for it. Its panics are swallowed. A child that it forks must not return
    /// from it.
    pub fn on_thread_stop(mut self, hook: impl Fn(&WorkerThread) + Send + Sync + 'static) -> Self {
        self.hooks.stop = Some(Box::new(hook));
        self
    }

    /// What is called with each notice, in place of writing it to standard error: what does not
    /// work here or works less well, and what the program does wrong. Each is a text without a
    /// newline at its end. `CMWQ_QUIET` does not silence it, and [`notices`](crate::notices) keeps
    /// them as well. It is called on any thread, perhaps while the library holds locks: it must not
    /// call the library, nor fork. Its panics are swallowed.
    pub fn on_notice(mut self, sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.notices = Some(Box::new(sink));
        self
    }

    /// As [`set_item_panic_handler`](crate::set_item_panic_handler).
    pub fn on_panic(mut self, handler: impl Fn(&ItemPanic<'_>) + Send + Sync + 'static) -> Self {
        self.panics = Some(panic::handler(handler));
        self
    }

    /// Makes this the process's configuration, once.
    ///
    /// # Errors
    /// Nothing is set then. [`InvalidInput`](crate::ErrorKind::InvalidInput): a value that is out
    /// of range; the message says which, and what there is.
    /// [`Unavailable`](crate::ErrorKind::Unavailable): the library was used already, or another
    /// configuration installed.
    pub fn install(self) -> Result<(), Error> {
        let Self { params, detect, hooks, notices, panics } = self;
        set_param::configure(params, detect, || {
            // Nobody else has come here before.
            thread_hooks::set(hooks);
            if let Some(sink) = notices {
                notice::set_sink(sink);
            }
        })?;
        if let Some(handler) = panics {
            panic::set(handler);
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { params, detect, hooks, notices, panics } = self;
        f.debug_struct("Config")
            .field("params", params)
            .field("detect", detect)
            .field("hooks", hooks)
            .field("on_notice", &notices.is_some())
            .field("on_panic", &panics.is_some())
            .finish()
    }
}
