//! How each system makes one more queue, for counting how many there can be.

use std::mem;

use anyhow::{Context as _, Result, bail};
use cmwq::{Builder, Workqueue};

use crate::bench_queues::{self, USED};
use crate::job::Job;
use crate::original;
use crate::sys;
use crate::systems::System;

/// Does `job` on `system` in this process and returns the result as one line of JSON.
///
/// Queues are forgotten as soon as they are made: a process that only counts them keeps none of its
/// own memory for each, and they end with it.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let cpus = sys::allowed_cpus()?;
    let sample = match system {
        System::OriginalMt => bench_queues::measure(job, cpus.len(), || original(true)),
        System::OriginalSt => bench_queues::measure(job, 1, || original(false)),
        _ => {
            let build = builder(system, &job.variant)?;
            let is_used = job.variant == USED;
            bench_queues::measure(job, 0, || ours(&build, is_used, &cpus))
        }
    }?;
    Ok(serde_json::to_string(&sample)?)
}

fn original(multi: bool) -> Result<()> {
    original::Workqueue::with_small_stacks("count", multi).map(mem::forget)
}

fn builder(system: System, variant: &str) -> Result<Builder> {
    let builder = Workqueue::builder("count");
    Ok(match (system, variant) {
        (System::Cmwq, _) => builder.managed(),
        (System::CmwqPercpu, _) => builder.percpu(),
        (System::CmwqUnbound, "ordered") => builder.ordered(),
        (System::CmwqUnbound, _) => builder.unbound(),
        (other, _) => bail!("{} makes no queues inside this program", other.name()),
    })
}

fn ours(builder: &Builder, is_used: bool, cpus: &[u32]) -> Result<()> {
    let queue = builder.clone().build().context("creating a workqueue")?;
    if is_used {
        let items: Vec<_> = cpus.iter().map(|&cpu| queue.queue_on(cpu, || ())).collect();
        items.into_iter().for_each(|item| item.join().expect("an empty item does not panic"));
    }
    mem::forget(queue);
    Ok(())
}
