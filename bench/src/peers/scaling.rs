//! Queueing through many queues, into a long one, and from many threads.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use cmwq::{Builder, Workqueue};

use crate::bench_scaling::{PENDING, PRODUCERS, QUEUES, Sample};
use crate::gate::Gate;
use crate::job::Job;
use crate::original;
use crate::sys;
use crate::systems::System;

/// Something that runs empty items.
trait Queue: Send + Sync + Sized + 'static {
    fn queue(&self, item: impl Fn() + Send + Sync + 'static);
}

impl Queue for Workqueue {
    fn queue(&self, item: impl Fn() + Send + Sync + 'static) {
        drop(Self::queue(self, item));
    }
}

impl Queue for original::Workqueue {
    fn queue(&self, item: impl Fn() + Send + Sync + 'static) {
        self.queue_work(&original::Work::new(item));
    }
}

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let is_one_at_a_time = job.variant == PENDING;
    let build = |how: fn(Builder) -> Builder| {
        let builder = how(Workqueue::builder("scale"));
        let builder = if is_one_at_a_time { builder.max_active(1) } else { builder };
        builder.build().context("creating a workqueue")
    };
    let sample = match system {
        System::Cmwq => with(job, || build(Builder::managed)),
        System::CmwqPercpu => with(job, || build(Builder::percpu)),
        System::OriginalMt => with(job, || original::Workqueue::with_small_stacks("scale", true)),
        System::OriginalSt => with(job, || original::Workqueue::with_small_stacks("scale", false)),
        other => bail!("{} has no queues inside this program", other.name()),
    }?;
    Ok(serde_json::to_string(&sample)?)
}

fn with<Q: Queue>(job: &Job, make: impl Fn() -> Result<Q>) -> Result<Sample> {
    let run: fn(&Job, &Arc<Vec<Q>>, usize) = match job.variant.as_str() {
        QUEUES => in_turn,
        PENDING => in_bursts,
        PRODUCERS => from_threads,
        other => bail!("no way of scaling is called {other}"),
    };
    let nr_queues = if job.variant == QUEUES { job.size } else { 1 };
    let queues = Arc::new((0..nr_queues).map(|_| make()).collect::<Result<Vec<Q>>>()?);
    // Threads are started and links made by some of the items.
    run(job, &queues, (job.count / 10).max(nr_queues));
    let (cpu, start) = (sys::cpu_ns(), Instant::now());
    run(job, &queues, job.count);
    let wall = sys::duration_ns(start.elapsed());
    let each = |ns: u64| ns as f64 / job.count as f64;
    // Their destructors would be the next thing to wait for.
    std::mem::forget(queues);
    Ok(Sample { cpu_ns: each(sys::cpu_ns() - cpu), wall_ns: each(wall) })
}

/// One thread, one queue after the other.
fn in_turn<Q: Queue>(_job: &Job, queues: &Arc<Vec<Q>>, count: usize) {
    let gate = Gate::leaked(count);
    queues.iter().cycle().take(count).for_each(|queue| queue.queue(|| gate.done()));
    gate.wait();
}

/// So many at a time pile up behind one that waits.
fn in_bursts<Q: Queue>(job: &Job, queues: &Arc<Vec<Q>>, count: usize) {
    let queue = &queues[0];
    let mut left = count;
    while left > 0 {
        let burst = left.min(job.size);
        let (plugged, plug) = (Gate::leaked(1), &*Box::leak(Box::new(Barrier::new(2))));
        queue.queue(move || {
            plugged.done();
            plug.wait();
        });
        plugged.wait();
        let gate = Gate::leaked(burst);
        (0..burst).for_each(|_| queue.queue(|| gate.done()));
        plug.wait();
        gate.wait();
        left -= burst;
    }
}

/// So many threads queue at once.
fn from_threads<Q: Queue>(job: &Job, queues: &Arc<Vec<Q>>, count: usize) {
    let gate = Gate::leaked(count);
    let ready = Barrier::new(job.size);
    thread::scope(|scope| {
        for producer in 0..job.size {
            let share = count / job.size + usize::from(producer < count % job.size);
            let (ready, queue) = (&ready, &queues[0]);
            scope.spawn(move || {
                ready.wait();
                (0..share).for_each(|_| queue.queue(|| gate.done()));
            });
        }
    });
    gate.wait();
}
