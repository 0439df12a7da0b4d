//! The queues that every process has, as the kernel has its `system_*_wq`. Made on first use.
//!
//! Share them for a few short items. A program with many items, or items that wait for each other,
//! makes its own queue: that costs next to nothing, since the workers are shared anyway.
//!
//! ```
//! let answer = cmwq::system::managed().queue(|| 42);
//! assert_eq!(answer.join().unwrap(), 42);
//! ```

use crate::api::builder::Builder;
use crate::api::workqueue::Workqueue;
use crate::engine::queue::handle;
use crate::os::error::Error;
use crate::os::sync::OnceLock;

macro_rules! system_queues {
    ($($(#[$doc:meta])* $name:ident = $label:literal $(, $alias:literal)? => $build:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Panics
            /// If it is the process's first use of this library and the service thread cannot be
            /// created; and after a [`shutdown`](crate::shutdown) before which this was never
            /// called. Make a queue of your own to have that as an error.
            $(#[doc(alias = $alias)])?
            #[must_use]
            pub fn $name() -> &'static Workqueue {
                fallible::$name().unwrap_or_else(|error| {
                    panic!("cannot make the system workqueue '{}': {error}", $label)
                })
            }
        )*

        /// The same, for those that can go on without: the next call tries again.
        #[doc(hidden)]
        pub mod fallible {
            use super::{Builder, Error, OnceLock, Workqueue, get_or_build};
            $(
                /// As its namesake above.
                ///
                /// # Errors
                /// If the service thread cannot be created, or after a shutdown.
                pub fn $name() -> Result<&'static Workqueue, Error> {
                    static QUEUE: OnceLock<Workqueue> = OnceLock::new();
                    let build: fn(Builder) -> Builder = $build;
                    get_or_build(&QUEUE, $label, build)
                }
            )*
        }
    };
}

/// A queue of the process's, made now if there is none yet.
pub(crate) fn get_or_build(
    queue: &'static OnceLock<Workqueue>,
    name: &str,
    build: fn(Builder) -> Builder,
) -> Result<&'static Workqueue, Error> {
    if let Some(queue) = queue.get() {
        return Ok(queue);
    }
    // Of two that are made at the same time, one is dropped before anything was queued on it, and
    // behind the lock.
    let mut made = Some(build(Workqueue::builder(name)).build()?);
    // Not while another thread forks: the child would wait for ever for who is setting the cell.
    let _forks = handle::lock_successors();
    Ok(queue.get_or_init(|| made.take().expect("it is set once")))
}

system_queues! {
    /// Managed: the queue of [`Workqueue::new`], shared by the process.
    managed = "events_managed" => |b| b.managed();
    /// Per-CPU: short items that want to stay on their CPU.
    percpu = "events", "system_percpu_wq" => |b| b.percpu();
    /// Per-CPU, served by workers of nice −20.
    highpri = "events_highpri", "system_highpri_wq" => |b| b.percpu().highpri();
    /// Per-CPU, for items that may take long. The same pools: it only keeps flushes of [`percpu`]
    /// short.
    long = "events_long", "system_long_wq" => |b| b.percpu();
    /// BH: items that must not block, run in order by the CPU's BH context.
    bh = "events_bh", "system_bh_wq" => |b| b.bh();
    /// BH, before those of [`bh`].
    bh_highpri = "events_bh_highpri", "system_bh_highpri_wq" => |b| b.bh().highpri();
    /// Unbound: items start at once, wherever there is a CPU.
    unbound = "events_unbound", "system_dfl_wq" => |b| b.unbound().max_active(2048);
    /// Unbound, for items that may take long: it only keeps flushes of [`unbound`] short.
    unbound_long = "events_dfl_long", "system_dfl_long_wq" => |b| b.unbound().max_active(2048);
    /// Per-CPU, and stops while the process is [frozen](crate::freeze).
    freezable = "events_freezable", "system_freezable_wq" => |b| b.percpu().freezable();
    /// Per-CPU unless the parameter `power_efficient` is on, then unbound.
    power_efficient = "events_power_efficient", "system_power_efficient_wq" =>
        |b| b.power_efficient();
    /// Freezable and power-efficient: see [`freezable`] and [`power_efficient`].
    freezable_power_efficient = "events_freezable_pwr_efficient",
        "system_freezable_power_efficient_wq" =>
        |b| b.freezable().power_efficient();
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use std::thread;

    use super::{OnceLock, get_or_build, handle};
    use crate::engine::runtime::Runtime;

    /// As a thread that forks has it.
    #[test]
    #[cfg_attr(miri, ignore = "it starts the service thread")]
    fn no_queue_is_published_during_a_fork() {
        static QUEUE: OnceLock<super::Workqueue> = OnceLock::new();
        let is_made = || {
            let runtime = Runtime::existing();
            runtime.is_some_and(|runtime| !runtime.users_wqs_named("made beside").is_empty())
        };
        let forks = handle::lock_successors();
        let maker = thread::spawn(|| _ = get_or_build(&QUEUE, "made beside", |b| b).unwrap());
        while !is_made() {
            thread::yield_now();
            assert!(!maker.is_finished(), "it has not waited");
        }
        for _ in 0..1_000 {
            thread::yield_now();
            assert!(QUEUE.get().is_none(), "a child would have found it half-way");
        }
        drop(forks);
        maker.join().unwrap();
        assert!(QUEUE.get().is_some());
    }
}
