//! rayon: a work-stealing pool of one thread per CPU.

use anyhow::{Context as _, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Peer, Trips};
use crate::job::Job;

/// `ThreadPool::spawn` for fire-and-forget items, `ThreadPool::install` to run one and wait for it.
pub(crate) struct Rayon(ThreadPool);

impl Peer for Rayon {
    fn start(job: &Job) -> Result<Self> {
        // 0 means the default, here as there.
        ThreadPoolBuilder::new()
            .num_threads(job.size)
            .build()
            .map(Self)
            .context("starting rayon's thread pool")
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(item);
    }

    fn round_trips(&self, trips: &mut Trips) {
        trips.make(|| self.0.install(|| ()));
    }
}
