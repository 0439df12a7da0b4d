//! tokio's multi-threaded runtime, in the four ways in which its users run such items.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::block_in_place;

use super::{Peer, Trips};

fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().enable_time().build().context("starting tokio's runtime")
}

/// `spawn`, with blocking calls made straight from the task: common in practice, warned against in
/// tokio's documentation.
pub(crate) struct Spawn(Runtime);

impl Peer for Spawn {
    fn start(_cpus: usize) -> Result<Self> {
        runtime().map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { item() });
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
    fn start(_cpus: usize) -> Result<Self> {
        runtime().map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn_blocking(item);
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

/// `spawn`, with blocking calls announced by `block_in_place`.
pub(crate) struct BlockInPlace(Runtime);

impl Peer for BlockInPlace {
    fn start(_cpus: usize) -> Result<Self> {
        runtime().map(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { item() });
    }

    fn block(call: impl FnOnce()) {
        block_in_place(call);
    }
}

/// `spawn` with the wait rewritten as `tokio::time::sleep`: the item never blocks its thread at
/// all.
pub(crate) struct Async(Runtime);

impl Peer for Async {
    fn start(_cpus: usize) -> Result<Self> {
        runtime().map(Self)
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
