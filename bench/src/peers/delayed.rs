//! How each system delays a function.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cmwq::{DelayedWork, Workqueue};

use crate::bench_delayed::{self, Book, Timers};
use crate::job::Job;
use crate::systems::System;

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let sample = match system {
        System::CmwqWork => bench_delayed::measure::<Embedded>(job),
        #[cfg(feature = "tokio")]
        System::Tokio => bench_delayed::measure::<super::tokio_delayed::Tasks>(job),
        #[cfg(feature = "tokio")]
        System::TokioAsync => bench_delayed::measure::<super::tokio_delayed::Sleeps>(job),
        other => bail!("{} delays nothing inside this program", other.name()),
    }?;
    Ok(serde_json::to_string(&sample)?)
}

/// A managed queue and delayed items that are made once.
struct Embedded {
    queue: Workqueue,
    works: Vec<DelayedWork>,
}

impl Timers for Embedded {
    fn start(_cpus: usize, book: &'static Book) -> Result<Self> {
        let queue = Workqueue::new("bench").context("creating a managed workqueue")?;
        let works = (0..book.len()).map(|item| DelayedWork::new(move || book.fired(item)));
        Ok(Self { queue, works: works.collect() })
    }

    fn arm(&mut self, item: usize, delay: Duration) {
        let armed = self.queue.queue_delayed_work(&self.works[item], delay);
        debug_assert!(armed, "armed twice");
    }

    fn cancel(&mut self, item: usize) {
        let cancelled = self.works[item].cancel();
        debug_assert!(cancelled, "cancelled twice");
    }
}
