//! The systems that run inside a child process, each behind one small trait.
//!
//! Calls are resolved at compile time: a boxed `dyn` item would add the same allocation to every
//! system and so hide the very difference that is measured. Where a system's documentation
//! recommends another way for one of the loads, it overrides that load's method and says so.

#[cfg(feature = "blocking")]
mod blocking;
mod cmwq;
#[cfg(feature = "crossbeam")]
mod crossbeam;
mod crypt;
mod delayed;
mod futex;
mod idle;
mod perf_wq;
mod power;
mod queues;
mod raw;
#[cfg(feature = "rayon")]
mod rayon;
mod scaling;
mod showing;
#[cfg(feature = "tokio")]
mod tasks;
mod ten;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(feature = "tokio")]
mod tokio_delayed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;

pub(crate) use self::perf_wq::Reschedules;

use self::futex::Placement;

use crate::gate::Gate;
use crate::job::{Bench, Job};
use crate::systems::System;
use crate::timers::Timers;
use crate::{
    bench_block, bench_hash, bench_items, bench_mixed, bench_pictures, bench_roundtrip,
    bench_waits, bench_woken, sys,
};

/// A way of getting functions run, as its own documentation recommends.
pub(crate) trait Peer: Sized + Send + Sync + 'static {
    /// Starts the system for `job.cpus` CPUs, at its own default size, or with `job.size` threads
    /// where a size is given.
    fn start(job: &Job) -> Result<Self>;

    /// Queues an item, from outside or from another item.
    fn spawn(&self, item: impl FnOnce() + Send + 'static);

    /// Queues one of many items that may run on any CPU (directory hash).
    fn spawn_anywhere(&self, item: impl FnOnce() + Send + 'static) {
        self.spawn(item);
    }

    /// Queues an item when `delay` has passed; with a timer thread beside the pool where the system
    /// has no timers (perf-wq).
    #[cfg_attr(
        not(any(
            feature = "rayon",
            feature = "tokio",
            feature = "blocking",
            feature = "crossbeam"
        )),
        expect(dead_code, reason = "every pool is left out of this build")
    )]
    fn spawn_after(&'static self, delay: Duration, item: impl FnOnce() + Send + 'static) {
        Timers::of_process().after(delay, move || self.spawn(item));
    }

    /// Makes a call that blocks, inside an item; announces it where that is the documented way.
    fn block(call: impl FnOnce()) {
        call();
    }

    /// Queues an item that runs `compute`, then waits for `wait`, then calls `done` (mixed).
    fn spawn_mixed(
        &self,
        compute: impl FnOnce() + Send + 'static,
        wait: Duration,
        done: impl FnOnce() + Send + 'static,
    ) {
        self.spawn(move || {
            compute();
            Self::block(|| std::thread::sleep(wait));
            done();
        });
    }

    /// Queues an item that waits for `first`, then runs `compute`, then waits for `wait`, then
    /// calls `done` (mixed).
    fn spawn_fetching(
        &self,
        first: Duration,
        compute: impl FnOnce() + Send + 'static,
        wait: Duration,
        done: impl FnOnce() + Send + 'static,
    ) {
        self.spawn(move || {
            Self::block(|| std::thread::sleep(first));
            compute();
            if !wait.is_zero() {
                Self::block(|| std::thread::sleep(wait));
            }
            done();
        });
    }

    /// Queues an item of the block benchmark, where [`Peer::blockers`] of them occupy every worker
    /// they can.
    fn spawn_block(&self, item: impl FnOnce() + Send + 'static) {
        self.spawn(item);
    }

    /// How many running items leave no worker for the next one (block).
    fn blockers(&self, cpus: usize) -> usize {
        cpus
    }

    /// A producer: called with `n`, it queues `n` items of which each only counts `gate` down
    /// (items).
    fn feeder(&'static self, gate: &'static Gate) -> impl FnMut(usize) + Send + 'static {
        move |items| {
            for _ in 0..items {
                self.spawn(|| gate.done());
            }
        }
    }

    /// Queues one empty item and waits for it, again and again.
    fn round_trips(&self, trips: &mut Trips) {
        trips.make(|| {
            let gate = Arc::new(Gate::new(1));
            self.spawn({
                let gate = Arc::clone(&gate);
                move || gate.done()
            });
            gate.wait();
        });
    }
}

/// The clock of the round-trip benchmark: which trips to make, and how long each took.
#[derive(Debug)]
pub(crate) struct Trips {
    pub(crate) count: usize,
    pub(crate) ns: Vec<f64>,
}

impl Trips {
    pub(crate) fn new(count: usize) -> Self {
        Self { count, ns: Vec::with_capacity(count) }
    }

    /// Makes every trip by calling `trip`, which returns when the item is done.
    pub(crate) fn make(&mut self, mut trip: impl FnMut()) {
        for _ in 0..self.count {
            let start = Instant::now();
            trip();
            self.record(start);
        }
    }

    /// A trip that began at `start` ends now; for systems whose trips need their own loop.
    pub(crate) fn record(&mut self, start: Instant) {
        self.ns.push(sys::duration_ns(start.elapsed()) as f64);
    }
}

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(crate) fn measure(system: System, job: &Job) -> Result<String> {
    // Not loads of a `Peer`: most of them have no timers or no queues.
    match job.bench {
        Bench::Delayed => return delayed::measure(system, job),
        Bench::Idle => return idle::measure(system, job),
        Bench::Crypt => return crypt::measure(system, job),
        Bench::Ten => return ten::measure(system, job),
        Bench::PerfWq => return perf_wq::measure(system, job),
        Bench::Power => return power::measure(system, job),
        Bench::Scaling => return scaling::measure(system, job),
        Bench::Queues => return queues::measure(system, job),
        #[cfg(feature = "tokio")]
        Bench::Tasks => return tasks::measure(system, job),
        Bench::Capi => return Ok(serde_json::to_string(&raw::measure(job)?)?),
        Bench::Showing => return Ok(serde_json::to_string(&showing::measure(system, job)?)?),
        _ => {}
    }
    match system {
        System::Cmwq => with::<cmwq::Managed>(job),
        System::CmwqUnbound => with::<cmwq::Unbound>(job),
        System::CmwqWork => with::<cmwq::Embedded>(job),
        System::CmwqPercpu | System::CmwqPerf | System::CmwqSentinel | System::CmwqTick => {
            with::<cmwq::PerCpu<false>>(job)
        }
        System::CmwqInline => with::<cmwq::PerCpu<true>>(job),
        #[cfg(feature = "rayon")]
        System::Rayon => with::<rayon::Rayon>(job),
        #[cfg(feature = "tokio")]
        System::CmwqTokio => with::<tokio::ManagedBlocking>(job),
        System::CmwqRun => with::<cmwq::ByCaller>(job),
        #[cfg(feature = "tokio")]
        System::Tokio => with::<tokio::Spawn>(job),
        #[cfg(feature = "tokio")]
        System::TokioBlocking => with::<tokio::SpawnBlocking>(job),
        #[cfg(feature = "tokio")]
        System::TokioInplace => with::<tokio::BlockInPlace>(job),
        #[cfg(feature = "tokio")]
        System::TokioAsync => with::<tokio::Async>(job),
        #[cfg(feature = "blocking")]
        System::Blocking => with::<blocking::Unblock>(job),
        #[cfg(feature = "crossbeam")]
        System::Crossbeam => with::<crossbeam::ChannelPool>(job),
        System::Futex => futex::measure(job, Placement::Free),
        System::FutexSame => futex::measure(job, Placement::Same),
        System::FutexApart => futex::measure(job, Placement::Apart),
        other => anyhow::bail!("{} does not run inside this program", other.name()),
    }
}

fn with<P: Peer>(job: &Job) -> Result<String> {
    Ok(match job.bench {
        Bench::Mixed => serde_json::to_string(&bench_mixed::measure::<P>(job)?)?,
        Bench::Block => serde_json::to_string(&bench_block::measure::<P>(job)?)?,
        Bench::Items => serde_json::to_string(&bench_items::measure::<P>(job)?)?,
        Bench::Roundtrip => serde_json::to_string(&bench_roundtrip::measure::<P>(job)?)?,
        Bench::Hash => serde_json::to_string(&bench_hash::measure::<P>(job)?)?,
        Bench::Waits => serde_json::to_string(&bench_waits::measure::<P>(job)?)?,
        Bench::Woken => serde_json::to_string(&bench_woken::measure::<P>(job)?)?,
        Bench::Pictures => serde_json::to_string(&bench_pictures::measure::<P>(job)?)?,
        other => anyhow::bail!("{other:?} is a benchmark of its own"),
    })
}

/// How many items those are.
const fn warm_up_items(cpus: usize) -> usize {
    cpus * 4
}

/// Runs a few empty items per CPU and waits for them, so that no measurement includes the very
/// first thread start.
pub(crate) fn warm_up<P: Peer>(peer: &P, cpus: usize) {
    let items = warm_up_items(cpus);
    let gate = Gate::leaked(items);
    for _ in 0..items {
        peer.spawn(|| gate.done());
    }
    gate.wait();
}
