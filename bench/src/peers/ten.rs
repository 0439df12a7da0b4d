//! How many items run at a time: each system's way of saying it.

use anyhow::{Context as _, Result, bail};
use cmwq::Workqueue;

use crate::bench_ten::{self, Limited};
use crate::job::Job;
use crate::original;
use crate::sys;
use crate::systems::System;

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let sample = match system {
        System::Cmwq => bench_ten::measure::<Managed>(job),
        System::CmwqPercpu => bench_ten::measure::<PerCpu>(job),
        System::CmwqUnbound => bench_ten::measure::<Unbound>(job),
        System::OriginalMt => bench_ten::measure::<MultiThreaded>(job),
        System::OriginalSt => bench_ten::measure::<SingleThreaded>(job),
        other => bail!("{} has no limit to set", other.name()),
    }?;
    Ok(serde_json::to_string(&sample)?)
}

fn limit(max_active: usize) -> Result<u32> {
    u32::try_from(max_active).context("a limit of items")
}

struct Managed(Workqueue);

impl Limited for Managed {
    fn start(max_active: usize) -> Result<Self> {
        let builder = Workqueue::builder("bench").managed().max_active(limit(max_active)?);
        builder.build().map(Self).context("creating a managed workqueue")
    }

    fn queue(&self, item: impl Fn() + Send + Sync + 'static) {
        drop(self.0.queue(item));
    }
}

struct PerCpu(Workqueue);

impl Limited for PerCpu {
    fn start(max_active: usize) -> Result<Self> {
        let builder = Workqueue::builder("bench").percpu().max_active(limit(max_active)?);
        builder.build().map(Self).context("creating a per-CPU workqueue")
    }

    fn queue(&self, item: impl Fn() + Send + Sync + 'static) {
        drop(self.0.queue(item));
    }
}

struct Unbound(Workqueue);

impl Limited for Unbound {
    fn start(max_active: usize) -> Result<Self> {
        let builder = Workqueue::builder("bench").unbound().max_active(limit(max_active)?);
        builder.build().map(Self).context("creating an unbound workqueue")
    }

    fn queue(&self, item: impl Fn() + Send + Sync + 'static) {
        drop(self.0.queue(item));
    }
}

struct MultiThreaded(original::Workqueue);

impl Limited for MultiThreaded {
    fn start(_max_active: usize) -> Result<Self> {
        original::Workqueue::multi_threaded("bench").map(Self)
    }

    fn queue(&self, item: impl Fn() + Send + Sync + 'static) {
        self.0.queue_work_on(sys::current_cpu(), &original::Work::new(item));
    }
}

struct SingleThreaded(original::Workqueue);

impl Limited for SingleThreaded {
    fn start(_max_active: usize) -> Result<Self> {
        original::Workqueue::single_threaded("bench").map(Self)
    }

    fn queue(&self, item: impl Fn() + Send + Sync + 'static) {
        self.0.queue_work(&original::Work::new(item));
    }
}
