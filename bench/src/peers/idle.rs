//! How each system makes a queue, or what takes its place.

use anyhow::{Context as _, Result, bail};
use cmwq::Workqueue;

use crate::bench_idle::{self, Makes};
use crate::job::Job;
use crate::systems::System;

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let sample = match system {
        System::Cmwq => bench_idle::measure::<Managed>(job),
        System::CmwqPercpu => bench_idle::measure::<PerCpu>(job),
        #[cfg(feature = "tokio")]
        System::Tokio => bench_idle::measure::<tasks::Tasks>(job),
        other => bail!("{} makes no queues inside this program", other.name()),
    }?;
    Ok(serde_json::to_string(&sample)?)
}

/// A vector whose memory is resident already.
fn touched<T>(count: usize, filler: impl Fn() -> T) -> Vec<T> {
    let mut room: Vec<T> = (0..count).map(|_| filler()).collect();
    room.clear();
    room
}

struct Managed(Vec<Option<Workqueue>>);

impl Makes for Managed {
    fn start(count: usize) -> Result<Self> {
        Ok(Self(touched(count, || None)))
    }

    fn make(&mut self) -> Result<()> {
        self.0.push(Some(Workqueue::new("idle").context("creating a managed workqueue")?));
        Ok(())
    }
}

struct PerCpu(Vec<Option<Workqueue>>);

impl Makes for PerCpu {
    fn start(count: usize) -> Result<Self> {
        Ok(Self(touched(count, || None)))
    }

    fn make(&mut self) -> Result<()> {
        let queue = Workqueue::builder("idle").percpu().build();
        self.0.push(Some(queue.context("creating a per-CPU workqueue")?));
        Ok(())
    }
}

#[cfg(feature = "tokio")]
mod tasks {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use anyhow::{Context as _, Result};
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::touched;
    use crate::bench_idle::Makes;

    type Item = Box<dyn FnOnce() + Send>;

    /// A task that runs what comes through its channel.
    pub(super) struct Tasks {
        runtime: Runtime,
        queues: Vec<Option<UnboundedSender<Item>>>,
        waiting: Arc<AtomicUsize>,
    }

    impl Makes for Tasks {
        fn start(count: usize) -> Result<Self> {
            let runtime =
                Builder::new_multi_thread().build().context("starting tokio's runtime")?;
            let queues = touched(count, || None);
            Ok(Self { runtime, queues, waiting: Arc::default() })
        }

        fn make(&mut self) -> Result<()> {
            let (sender, mut items) = unbounded_channel::<Item>();
            let waiting = Arc::clone(&self.waiting);
            drop(self.runtime.spawn(async move {
                waiting.fetch_add(1, Ordering::Relaxed);
                while let Some(item) = items.recv().await {
                    item();
                }
            }));
            self.queues.push(Some(sender));
            Ok(())
        }

        fn settle(&mut self) {
            while self.waiting.load(Ordering::Relaxed) < self.queues.len() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}
