//! The Linux kernel's concurrency-managed workqueues, for any Linux process: a thread pool nobody
//! has to size.
//!
//! Queue functions; shared worker pools run them. The pools keep *just enough* workers runnable:
//! one per CPU, and the moment the last running one **blocks** (a lock, a file, a sleep, a page
//! fault; nobody has to say so), the next item starts on another worker. A CPU does not stay idle
//! while work waits. A block is noticed after tens of microseconds, or after up to 4 ms where other
//! programs use the CPU all the time. Few threads compete for each CPU, and items that wait do not
//! use up the pool. Limits hold all the same: items that wait for others behind a `max_active` or
//! `max_workers` that they use up wait for ever.
//!
//! ```
//! let wq = cmwq::Workqueue::new("hello")?;
//! let handles: Vec<_> = (0..100)
//!     .map(|i| wq.queue(move || {
//!         std::thread::sleep(std::time::Duration::from_millis(1)); // blocks: others run meanwhile
//!         i * 2
//!     }))
//!     .collect();
//! let sum: i32 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
//! assert_eq!(sum, 9900);
//! # Ok::<(), cmwq::Error>(())
//! ```
//!
//! - [`Workqueue`]: closures with a [`JoinHandle`], reusable [`Work`] and [`DelayedWork`],
//!   [`scope`](Workqueue::scope) for closures that borrow, [`flush`](Workqueue::flush),
//!   [`drain`](Workqueue::drain). [`Work::cancel_sync`] and [`Work::disable`] cancel items.
//! - [`Builder`]: the kinds of queue, limits, [rescuers](Builder::mem_reclaim), [BH](Builder::bh);
//!   [backlogs](Builder::max_queued).
//! - [`IteratorOn`]: functions over iterators, with bounded look-ahead. [`Periodic`]: functions at
//!   intervals.
//! - [`system`]: the queues every process has.
//! - [`RcuWork`]: items that wait for readers to go; [`rcu_read_lock`], [`set_grace_periods`].
//! - [`Attrs`]: where and with which priority the workers of a queue run.
//! - [`Config`]: settings of the process, hooks of threads, a sink for notices.
//! - [`blocking`]: to say that one is about to block, where that is known.
//! - [`watch_children`], [`watch_process`]: to count as running while a program runs that the item
//!   waits for. [`leave_cpu`]: before it starts programs or threads that are to have all CPUs.
//! - [`Workqueue::stats`], [`Workqueue::is_congested`], [`set_worker_desc`],
//!   [`show_all_workqueues`]: what queues and workers do. [`watchdog`]: who stands still.
//! - [`sysfs`]: attributes as text, as the kernel's files have them; [`control`]: changing them
//!   from outside of the process.
//! - [`freeze`], [`thaw`]: stopping the queues that take part. [`rescan_cpus`]: CPUs that leave and
//!   return are noticed; this looks at once.
//! - [`OutsideBacklog`]: what waits for a queue elsewhere, shown to those who look.
//! - [`Detect`]: how blocking is noticed.
//! - The crate `cmwq-observe`: the state of another process's queues, pools and workers, changing
//!   it from there, and what this machine offers.
//! - [`legacy`], [`execute_in_process_context`]: for code that comes from the kernel;
//!   `docs/compat.md` in the repository has every name of its interface.
//!
//! # What it does to a process
//!
//! Threads are created as items need them. Surplus ones leave when they have been idle for 300 s;
//! up to two idle ones stay in each pool ([`Config::idle_timeout`]). A process whose queues are
//! idle has no wake-ups. The process may end at any time; [`shutdown`] is for those who want to
//! leave nothing running.
//!
//! **Threads that are no workers.** [`Config::max_workers`] does not count these:
//!
//! | thread | how many | stack |
//! |---|---|---|
//! | service (timers, retries) | one, from the first queue on | 256 KiB |
//! | creator of threads | one, from the first queue with a [rescuer](Builder::mem_reclaim) on | 256 KiB |
//! | sentinels, of the idle class | one for each CPU on which items of a per-CPU or managed queue have waited; none with [`Detect::Tick`] and [`Detect::Inline`] | 64 KiB |
//! | [BH](Builder::bh) contexts | one for each CPU for which a BH item was queued | [`Config::stack_size`] |
//! | [rescuers](Builder::mem_reclaim) | one for each queue that has one | [`Config::stack_size`] |
//! | [`watchdog`] | one, once work has waited | 2 MiB |
//! | [`control`]; the writer of `CMWQ_TRACE` | one each, if asked for | 256 KiB; 2 MiB |
//!
//! Stacks are address space: only what was used takes memory. Workers have
//! [`Config::stack_size`], too, which is 2 MiB by default.
//!
//! Settings come from the environment (`CMWQ_PARAMS`, `CMWQ_DETECT`, `CMWQ_CONTROL` for the
//! [control socket](control), `CMWQ_TRACE=FILE` for a trace), or from [`set_param`] and [`Config`],
//! and `CMWQ_QUIET=1` silences the notices about what is degraded; a program with privileges of its
//! own (set-user-ID, file capabilities) reads no variable.
//!
//! **CPUs.** Workers of the default queues are bound to one CPU until they wait; a program or a
//! thread that an item starts inherits that, unless the item calls [`leave_cpu`] before.
//!
//! **Panics.** A panic in a function never takes a worker or another item with it; it goes to
//! `join`, or to the [panic handler](set_panic_handler). In a program built with `panic = "abort"`
//! there is nothing to catch: a panic in an item ends the process. So does, with a message, a
//! function that does not return because C code in it ends the thread or a C++ exception leaves it.
//!
//! **Signals.** Worker threads inherit the creating thread's signal mask, through any number of
//! workers: that of the program's thread whose call made the library or a pool create its first
//! thread; from the first queue with a rescuer on, that of the library's first thread. A program
//! that takes signals by `signalfd` or `sigwait` blocks them before it first uses this library, as
//! before it starts any thread. Nothing here may be called from a signal handler
//! but [`watchdog::touch`]. For stacks in reports the [watchdog] interrupts the threads that a
//! report is about, whose sleeps and waits with a time limit then fail with `EINTR`.
//!
//! **Fork.** After `fork` the child has fresh pools behind the same handles, with the same
//! [`Config`], hooks and handlers. The parent's items stay the parent's: in the child they are not
//! pending, wherever they were, and can be queued; waiting for one of them, by a [`JoinHandle`], a
//! [`Waiting`] or a [`scope`](Workqueue::scope), is over at once. A work function that forks must
//! not return in the child, which would end with a message: it executes a program there, or calls
//! `_exit`. A daemon forks before it first uses this library. Handlers of `pthread_atfork` may use
//! it, if they were registered after it was loaded. This library makes its threads in a child
//! without `std::thread`, and so should the program: if another thread of the parent was
//! about to begin or end at the fork, a lock of Rust's library is held in the child for ever, and
//! [`std::thread::spawn`] hangs.
//!
//! **Copies.** Two versions of this crate in one program, or this crate and `libcmwq.so`, are two
//! sets of pools that do not know of each other: each keeps a running worker on every CPU.
//!
//! # Features
//!
//! All are off by default, and the library depends on nothing but `libc` then.
//!
//! | feature | what it adds | what it brings |
//! |---|---|---|
//! | `stacks` | stacks of the items in the way, in reports of [stalls](watchdog); without it they name the functions | `backtrace`, `framehop` |
//! | `liburcu` | grace periods of `liburcu-memb.so.8`, loaded when the first [`RcuWork`] is queued; see [`set_grace_periods`] | nothing |
//! | `metrics` | `cmwq::metrics::record`: statistics of queues and pools for exporters, such as Prometheus | `metrics` |
//! | `tracing` | items as spans and events | `tracing` |
//! | `usdt` | USDT probes, for `perf` and `bpftrace` | `probe` |

// The models leave out what asks the operating system, and with it the use of much that is here.
#![cfg_attr(any(cmwq_loom, cmwq_shuttle), allow(dead_code))]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "cmwq runs on 64-bit Linux only: it uses that kernel's interfaces and 64-bit work words"
);

mod api;
mod detect;
mod engine;
#[cfg(all(any(test, fuzzing), not(any(cmwq_loom, cmwq_shuttle))))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(test, any(cmwq_loom, cmwq_shuttle)))]
mod models;
mod observe;
mod os;
mod record;

/// Who looks at the engine from above. The engine calls them by its own trait.
static OBSERVERS: &dyn engine::process::observers::Observers = &observe::observers::All;

pub use api::awaiting::Waiting;
pub use api::builder::Builder;
pub use api::closure::{AbortOnDrop, JoinError, JoinHandle};
pub use api::config::Config;
pub use api::early::{notices, set_item_panic_handler, set_panic_handler};
pub use api::execute::{Execution, execute_in_process_context, schedule_on_each_cpu, work_on_cpu};
#[cfg(feature = "explore")]
#[doc(hidden)]
pub use api::explore;
pub use api::iter::{IteratorOn, MapOn, MapUnorderedOn};
pub use api::legacy;
pub use api::observing::{set_worker_desc, show_one_workqueue};
pub use api::outside::OutsideBacklog;
pub use api::periodic::{MissedTicks, Periodic, PeriodicBuilder, Tick};
pub use api::places::{
    default_affinity_scope, rescan_cpus, set_default_affinity_scope, set_unbound_cpumask,
    unbound_cpumask,
};
#[doc(hidden)]
pub use api::raw;
pub use api::rcu::{GracePeriods, RcuFunc, RcuHead, RcuWork, rcu_read_lock, set_grace_periods};
pub use api::refused::Refused;
pub use api::scope::{Scope, ScopedJoinHandle};
pub use api::set_param::{param, set_param};
pub use api::shutdown::{ShutdownError, shutdown};
pub use api::system;
pub use api::try_queue::TryQueueError;
pub use api::watching::{ProcessWatch, leave_cpu, watch_children, watch_process};
pub use api::work::{DelayedWork, WeakDelayedWork, WeakWork, Work, WorkId, current_work};
pub use api::workqueue::Workqueue;
pub use detect::method::Detect;
pub use engine::item::flush::Busy;
pub use engine::process::freezing::{freeze, freeze_busy, thaw};
pub use engine::process::readers::RcuReadGuard;
pub use engine::threads::current::{blocking, current_is_mem_reclaim};
pub use engine::threads::thread_hooks::WorkerThread;
pub use engine::tools::attrs::{Attrs, Sched};
pub use engine::tools::histogram::{Histogram, Times};
pub use engine::tools::reclaim::current_is_rescuer;
pub use observe::control;
#[cfg(all(feature = "metrics", not(any(cmwq_loom, cmwq_shuttle))))]
pub use observe::metrics;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
#[doc(hidden)]
pub use observe::shared;
pub use observe::show::{Report, report, show_all_workqueues, show_freezable_workqueues};
pub use observe::stats::Stats;
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub use observe::sysfs;
pub use observe::watchdog;
pub use observe::watchdog::{dump_on_signal, set_handler as set_watchdog_handler};
pub use os::error::{Error, ErrorKind};
#[doc(hidden)]
pub use os::foreign;
pub use os::panic::ItemPanic;
pub use os::topo::{AffinityScope, CpuSet, ParseCpuSetError, ParseScopeError};
#[doc(hidden)]
pub use record::trace;
