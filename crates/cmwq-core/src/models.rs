//! Loom models: every interleaving of two or three threads, and every value the memory model lets
//! them read.
//!
//! `RUSTFLAGS="--cfg cmwq_loom" cargo test --manifest-path models/Cargo.toml -p cmwq-core-models
//! --release`
//!
//! `word` has the promises of the work word by themselves, `pool` those of queueing through a
//! pool's lock, `inbox` those of the way around it, `batch` those of items begun without it,
//! `disabling` those of cancelling with waiting,
//! `limit` those of a node's slots. `mutation` takes each ordering away in turn and expects some
//! model to notice.
//!
//! What callers do before they queue is an [`Event`]: a store that only the protocol can make
//! visible. What the owner of `PENDING` alone may touch (the item's link is such a thing) is an
//! [`Owned`]: loom reports unordered use.

mod batch;
mod disabling;
mod inbox;
mod limit;
mod mutation;
mod pool;
mod word;

use core::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex, MutexGuard};

use crate::policy::UNMANAGED;
use crate::{
    Inbox, Next, PoolConfig, PoolId, PoolState, PwqConfig, PwqId, WorkItem, WorkerId, WqKey,
};

/// A model of three threads, of which those interleavings are tried that need at most three
/// preemptions: all of them would take too long.
fn model_of_three(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A model whose threads wait for each other in loops, in its interleavings with few preemptions.
fn model_that_spins(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// What a queuer stores before it queues and the run must see.
#[derive(Debug)]
struct Event(AtomicUsize);

impl Event {
    fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn set(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

/// What only the owner of `PENDING` touches.
#[derive(Debug)]
struct Owned(UnsafeCell<u32>);

impl Owned {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    /// Loom fails the model if this is not ordered after every other use.
    fn touch(&self) {
        // SAFETY: loom checks what the models claim, that nobody else does this now.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}

// SAFETY: the models are about who may touch it when.
unsafe impl Sync for Owned {}

unsafe extern "C" fn nothing(_: *mut WorkItem) {}

/// An item and a pool with a lock, shared by the threads of a model.
struct World {
    pool: Mutex<PoolState>,
    pwq: PwqId,
    worker: WorkerId,
    item: WorkItem,
    event: Event,
    inbox: Inbox,
}

impl World {
    /// A pool that starts everything and has a worker and its standby.
    fn new() -> Arc<Self> {
        Self::with_limit(10)
    }

    fn with_limit(max_active: u32) -> Arc<Self> {
        let mut pool = PoolState::new(PoolConfig::new(PoolId(0), UNMANAGED));
        let ids = [(); 2].map(|()| {
            let id = pool.worker_new();
            let _ = pool.worker_created(id, None, 0);
            id
        });
        let pwq = pool.add_pwq(PwqConfig {
            wq: WqKey(0),
            max_active,
            node: None,
            cpu_intensive: false,
            rescuer: false,
            work_color: 0,
        });
        Arc::new(Self {
            pool: Mutex::new(pool),
            pwq,
            worker: ids[0],
            item: WorkItem::new(nothing),
            event: Event::new(),
            inbox: Inbox::new(),
        })
    }

    /// `queue_work`.
    fn queue(&self) -> bool {
        if self.item.claim().is_pending() {
            return false;
        }
        self.enqueue(&self.item);
        true
    }

    /// The second half of `queue_work`, for the owner of `PENDING`.
    fn enqueue(&self, item: &WorkItem) {
        // SAFETY: items outlive the model's threads, and every model runs what it queued.
        let _ = unsafe { self.lock().enqueue(self.pwq, NonNull::from(item)) };
    }

    /// The pool's lock, with what was in the inbox on its lists.
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        let mut pool = self.pool.lock().unwrap();
        for (pwq, item) in self.inbox.take() {
            // SAFETY: who pushed it owned PENDING; as in `enqueue`.
            let _ = unsafe { pool.enqueue(pwq, item) };
        }
        pool
    }

    /// The worker runs what it finds; `run` is called for each run, with its item.
    fn work(&self, mut run: impl FnMut(*mut WorkItem)) {
        loop {
            let next = self.lock().next(self.worker, || 0);
            let Next::Run(claim) = next else { return };
            run(claim.item);
            let _ = self.lock().finish(self.worker);
        }
    }

    /// Runs of the item, and whether the last of them saw the event.
    fn work_and_watch(&self) -> Option<bool> {
        let mut seen = None;
        self.work(|item| {
            if core::ptr::eq(item, &self.item) {
                seen = Some(self.event.is_set());
            }
        });
        seen
    }
}
