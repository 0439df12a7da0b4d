//! perf-wq's works on each system: how they are queued again after a while.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cmwq::{DelayedWork, Workqueue};

use super::Peer;
use crate::bench_perf_wq;
use crate::job::Job;
use crate::perf_wq::Load;
use crate::systems::System;
use crate::{original, sys};

/// A system with the works of a load, each of which it calls when its time has come.
pub(crate) trait Reschedules: Sync + 'static {
    /// Makes queues and works; nothing is armed yet.
    fn start(job: &Job, load: &'static Load) -> Result<&'static Self>;

    /// Arms a work for its first cycle.
    fn arm(&'static self, work: usize, delay: Duration);
}

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let sample = match system {
        System::Nothing => bench_perf_wq::nothing(),
        System::Cmwq => bench_perf_wq::measure::<Shared<{ Kind::Managed as u8 }>>(job),
        System::CmwqPercpu => bench_perf_wq::measure::<Shared<{ Kind::Percpu as u8 }>>(job),
        System::CmwqUnbound => bench_perf_wq::measure::<Shared<{ Kind::Unbound as u8 }>>(job),
        System::OriginalMt => bench_perf_wq::measure::<Own<true>>(job),
        System::OriginalSt => bench_perf_wq::measure::<Own<false>>(job),
        #[cfg(feature = "rayon")]
        System::Rayon => bench_perf_wq::measure::<Pooled<super::rayon::Rayon>>(job),
        #[cfg(feature = "tokio")]
        System::Tokio => bench_perf_wq::measure::<Pooled<super::tokio::Spawn>>(job),
        #[cfg(feature = "tokio")]
        System::TokioBlocking => bench_perf_wq::measure::<Pooled<super::tokio::SpawnBlocking>>(job),
        #[cfg(feature = "tokio")]
        System::TokioInplace => bench_perf_wq::measure::<Pooled<super::tokio::BlockInPlace>>(job),
        #[cfg(feature = "blocking")]
        System::Blocking => bench_perf_wq::measure::<Pooled<super::blocking::Unblock>>(job),
        #[cfg(feature = "crossbeam")]
        System::Crossbeam => bench_perf_wq::measure::<Pooled<super::crossbeam::ChannelPool>>(job),
        other => bail!("{} does not run perf-wq inside this program", other.name()),
    }?;
    Ok(serde_json::to_string(&sample)?)
}

/// Calls `make` with a place where what it makes can be found later, by the works it consists of.
fn leaked<T>(make: impl FnOnce(&'static OnceLock<T>) -> Result<T>) -> Result<&'static T> {
    let place: &'static OnceLock<T> = Box::leak(Box::new(OnceLock::new()));
    let made = make(place)?;
    Ok(place.get_or_init(|| made))
}

/// Which of cmwq's queues.
#[derive(Clone, Copy)]
enum Kind {
    Managed,
    Percpu,
    /// Starts every item at once, on whichever CPU: shows what management holds back.
    Unbound,
}

/// cmwq: a queue of this [`Kind`] for each of the load's, and delayed works.
struct Shared<const KIND: u8> {
    queues: Vec<Workqueue>,
    works: Vec<DelayedWork>,
    cpus: Vec<u32>,
    load: &'static Load,
}

impl<const KIND: u8> Shared<KIND> {
    fn queue_again(&self, work: usize) {
        if let Some(delay) = self.load.cycle(work, thread::sleep) {
            self.queues[self.load.queue_of(work)].queue_delayed_work(&self.works[work], delay);
        }
    }

    /// As [`super::warm_up`] of pools: the first threads are made before anything is timed.
    fn warm_up(&self, cpus: usize) -> Result<()> {
        let queue = self.queues.first().context("a load without queues")?;
        let item = |turn: usize| {
            if KIND == Kind::Percpu as u8 {
                queue.queue_on(self.cpus[turn % self.cpus.len()], || ())
            } else {
                queue.queue(|| ())
            }
        };
        let items: Vec<_> = (0..super::warm_up_items(cpus)).map(item).collect();
        items.into_iter().try_for_each(|item| item.join()).context("an empty item")
    }
}

impl<const KIND: u8> Reschedules for Shared<KIND> {
    fn start(job: &Job, load: &'static Load) -> Result<&'static Self> {
        let queue = |number| {
            let builder = Workqueue::builder(&format!("perf{number}"));
            let builder = match KIND {
                kind if kind == Kind::Percpu as u8 => builder.percpu(),
                kind if kind == Kind::Unbound as u8 => builder.unbound(),
                _ => builder.managed(),
            };
            builder.build().context("creating a workqueue")
        };
        let made = leaked(|place: &'static OnceLock<Self>| {
            let func = |work| {
                DelayedWork::new(move || {
                    place.get().into_iter().for_each(|it| it.queue_again(work))
                })
            };
            Ok(Self {
                queues: (0..load.queues()).map(queue).collect::<Result<_>>()?,
                works: (0..load.len()).map(func).collect(),
                cpus: sys::allowed_cpus()?,
                load,
            })
        })?;
        made.warm_up(job.cpus)?;
        Ok(made)
    }

    /// The works of per-CPU queues are dealt out to the CPUs and stay where they are.
    fn arm(&'static self, work: usize, delay: Duration) {
        let (queue, item) = (&self.queues[self.load.queue_of(work)], &self.works[work]);
        if KIND == Kind::Percpu as u8 {
            queue.queue_delayed_work_on(self.cpus[work % self.cpus.len()], item, delay);
        } else {
            queue.queue_delayed_work(item, delay);
        }
    }
}

/// The original workqueue: as many threads for each of the load's queues as there are CPUs, or one.
struct Own<const MULTI: bool> {
    queues: Vec<original::Workqueue>,
    works: Vec<original::Work>,
    cpus: Vec<u32>,
    load: &'static Load,
}

impl<const MULTI: bool> Own<MULTI> {
    fn queue_again(&self, work: usize) {
        if let Some(delay) = self.load.cycle(work, thread::sleep) {
            self.queues[self.load.queue_of(work)].queue_delayed_work(&self.works[work], delay);
        }
    }
}

impl<const MULTI: bool> Reschedules for Own<MULTI> {
    fn start(_job: &Job, load: &'static Load) -> Result<&'static Self> {
        let queue = |number| {
            let name = format!("perf{number}");
            if MULTI {
                original::Workqueue::multi_threaded(&name)
            } else {
                original::Workqueue::single_threaded(&name)
            }
        };
        leaked(|place: &'static OnceLock<Self>| {
            let func = |work| {
                original::Work::new(move || {
                    place.get().into_iter().for_each(|it| it.queue_again(work));
                })
            };
            Ok(Self {
                queues: (0..load.queues()).map(queue).collect::<Result<_>>()?,
                works: (0..load.len()).map(func).collect(),
                cpus: sys::allowed_cpus()?,
                load,
            })
        })
    }

    /// Dealt out to the CPUs, where they stay if each has a thread.
    fn arm(&'static self, work: usize, delay: Duration) {
        let queue = &self.queues[self.load.queue_of(work)];
        let cpu = self.cpus[work % self.cpus.len()];
        queue.queue_delayed_work_on(cpu, &self.works[work], delay);
    }
}

/// A pool without queues, and whatever it has for "later".
#[cfg_attr(
    not(any(feature = "rayon", feature = "tokio", feature = "blocking", feature = "crossbeam")),
    expect(dead_code, reason = "every pool is left out of this build")
)]
struct Pooled<P> {
    peer: P,
    load: &'static Load,
}

impl<P: Peer> Reschedules for Pooled<P> {
    fn start(job: &Job, load: &'static Load) -> Result<&'static Self> {
        let peer = P::start(job)?;
        super::warm_up(&peer, job.cpus);
        Ok(Box::leak(Box::new(Self { peer, load })))
    }

    fn arm(&'static self, work: usize, delay: Duration) {
        self.peer.spawn_after(delay, move || {
            let again = self.load.cycle(work, |time| P::block(|| thread::sleep(time)));
            again.into_iter().for_each(|delay| self.arm(work, delay));
        });
    }
}
