//! Runtimes, and waiting with a limit.

use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use cmwq::Workqueue;
use cmwq_tokio::{JoinHandle, Spawner};
use tokio::runtime::{Builder, Runtime};

/// How long anything may take before a test gives up. Only failing tests ever wait that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(200);

/// A runtime of each kind, one after the other.
#[track_caller]
pub(crate) fn on_each_runtime<F: Future<Output = ()>>(test: impl Fn() -> F) {
    for runtime in [one_thread(), threads()] {
        block_on(&runtime, test());
    }
}

pub(crate) fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs a future that must be ready in time.
#[track_caller]
pub(crate) fn block_on<T>(runtime: &Runtime, future: impl Future<Output = T>) -> T {
    runtime.block_on(within(future))
}

/// A future that must be ready in time.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this was never ready")
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "this never came about: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// An ordered queue: one closure at a time.
pub(crate) fn ordered(name: &str) -> Spawner {
    Spawner::new(Workqueue::builder(name).ordered().build().unwrap())
}

/// An ordered queue with so many places.
pub(crate) fn with_places(name: &str, places: u32) -> Spawner {
    Spawner::new(Workqueue::builder(name).ordered().max_queued(places).build().unwrap())
}

/// Closed until it is opened, for good, or dropped. Clones are the same gate, and do not open it.
#[derive(Default)]
pub(crate) struct Gate(Arc<Door>);

#[derive(Default)]
pub(crate) struct Door(Mutex<bool>, Condvar);

impl Gate {
    pub(crate) fn door(&self) -> Arc<Door> {
        Arc::clone(&self.0)
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Door {
    /// Blocks until it is open.
    pub(crate) fn pass(&self) {
        let is_open = self.0.lock().unwrap();
        let (is_open, _) = self.1.wait_timeout_while(is_open, PATIENCE, |open| !*open).unwrap();
        assert!(*is_open, "a gate was never opened");
    }
}

/// Occupies an ordered queue until the gate opens.
pub(crate) async fn occupy(spawner: &Spawner, gate: &Gate) -> JoinHandle<()> {
    let (begun, is_begun) = tokio::sync::oneshot::channel();
    let door = gate.door();
    let first = spawner.spawn_blocking(move || {
        begun.send(()).unwrap();
        door.pass();
    });
    within(is_begun).await.unwrap();
    first
}

/// Counts its drops.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<()>);

impl Drops {
    /// How many clones there are.
    pub(crate) fn alive(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}
