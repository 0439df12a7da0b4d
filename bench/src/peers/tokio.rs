//! tokio's multi-threaded runtime, in the four ways in which its users run such items.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::block_in_place;

use super::{Peer, Trips};
use crate::job::Job;

fn builder() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.enable_time();
    builder
}

fn build(mut builder: Builder) -> Result<Runtime> {
    builder.build().context("starting tokio's runtime")
}

/// A runtime whose workers run the items themselves.
fn runtime(job: &Job) -> Result<Runtime> {
    let mut builder = builder();
    if job.size > 0 {
        builder.worker_threads(job.size);
    }
    build(builder)
}

/// `spawn`, with blocking calls made straight from the task: common in practice, warned against in
/// tokio's documentation.
pub(crate) struct Spawn(Runtime);

impl Peer for Spawn {
    fn start(job: &Job) -> Result<Self> {
        runtime(job).map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { item() });
    }

    fn spawn_after(&'static self, delay: Duration, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move {
            tokio::time::sleep(delay).await;
            item();
        });
    }

    fn round_trips(&self, trips: &mut Trips) {
        self.0.block_on(async {
            for _ in 0..trips.count {
                let start = Instant::now();
                tokio::spawn(async {}).await.expect("an empty task neither panics nor is aborted");
                trips.record(start);
            }
        });
    }
}

/// `spawn_blocking`: the documented place for calls that block.
pub(crate) struct SpawnBlocking(Runtime);

impl Peer for SpawnBlocking {
    fn start(job: &Job) -> Result<Self> {
        let mut builder = builder();
        if job.size > 0 {
            builder.max_blocking_threads(job.size);
        }
        build(builder).map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn_blocking(item);
    }

    fn spawn_after(&'static self, delay: Duration, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move {
            tokio::time::sleep(delay).await;
            // Detached: nobody waits for it.
            drop(tokio::task::spawn_blocking(item));
        });
    }

    fn round_trips(&self, trips: &mut Trips) {
        self.0.block_on(async {
            for _ in 0..trips.count {
                let start = Instant::now();
                let done = tokio::task::spawn_blocking(|| ()).await;
                done.expect("an empty closure does not panic");
                trips.record(start);
            }
        });
    }
}

/// `cmwq_tokio::spawn_blocking`: the same, on a managed queue.
pub(crate) struct ManagedBlocking(Runtime);

impl Peer for ManagedBlocking {
    fn start(job: &Job) -> Result<Self> {
        runtime(job).map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        drop(cmwq_tokio::spawner().spawn_blocking_on(item, self.0.handle()));
    }

    fn round_trips(&self, trips: &mut Trips) {
        self.0.block_on(async {
            for _ in 0..trips.count {
                let start = Instant::now();
                cmwq_tokio::spawn_blocking(|| ()).await.expect("an empty closure does not panic");
                trips.record(start);
            }
        });
    }
}

/// `spawn`, with blocking calls announced by `block_in_place`.
pub(crate) struct BlockInPlace(Runtime);

impl Peer for BlockInPlace {
    fn start(job: &Job) -> Result<Self> {
        runtime(job).map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { item() });
    }

    fn spawn_after(&'static self, delay: Duration, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move {
            tokio::time::sleep(delay).await;
            item();
        });
    }

    fn block(call: impl FnOnce()) {
        block_in_place(call);
    }
}

/// `spawn` with the wait rewritten as `tokio::time::sleep`: the item never blocks its thread at
/// all.
pub(crate) struct Async(Runtime);

impl Peer for Async {
    fn start(job: &Job) -> Result<Self> {
        runtime(job).map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { item() });
    }

    fn spawn_mixed(
        &self,
        compute: impl FnOnce() + Send + 'static,
        wait: Duration,
        done: impl FnOnce() + Send + 'static,
    ) {
        self.0.spawn(async move {
            compute();
            tokio::time::sleep(wait).await;
            done();
        });
    }
}
