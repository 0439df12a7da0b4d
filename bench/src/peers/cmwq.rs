//! cmwq itself: the only module of this crate that names its API.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cmwq::{Work, Workqueue};

use super::{Peer, Trips};
use crate::gate::Gate;
use crate::job::Job;
use crate::sys;

/// `Workqueue::new`, the queue that manages its own concurrency; items are closures.
pub(crate) struct Managed(Workqueue);

impl Peer for Managed {
    fn start(_job: &Job) -> Result<Self> {
        Workqueue::new("bench").map(Self).context("creating a managed workqueue")
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        drop(self.0.queue(item));
    }

    fn round_trips(&self, trips: &mut Trips) {
        trips.make(|| self.0.queue(|| ()).join().expect("an empty item does not panic"));
    }
}

/// The managed queue, which may let the thread that waits run the item.
pub(crate) struct ByCaller(Workqueue);

impl Peer for ByCaller {
    fn start(_job: &Job) -> Result<Self> {
        Workqueue::new("bench").map(Self).context("creating a managed workqueue")
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        drop(self.0.queue(item));
    }

    fn round_trips(&self, trips: &mut Trips) {
        trips.make(|| self.0.run(|| ()).expect("an empty item does not panic"));
    }
}

/// An unbound queue, which manages nothing: a thread for each of its items, up to its limit.
pub(crate) struct Unbound(Workqueue);

impl Peer for Unbound {
    fn start(_job: &Job) -> Result<Self> {
        let queue = Workqueue::builder("bench").unbound().build();
        queue.map(Self).context("creating an unbound workqueue")
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        drop(self.0.queue(item));
    }
}

/// The managed queue with embedded, reusable work items: nothing is allocated per queueing.
pub(crate) struct Embedded(Workqueue);

/// Work items that one producer of the items benchmark queues in turn. Large enough that the
/// workers still have thousands of items left whenever the producer comes round to one that is not
/// done, small enough for a cache.
const REUSED_ITEMS: usize = 8192;

/// How long a producer steps aside when it has come round to an item that is still pending.
const STEP_ASIDE: Duration = Duration::from_micros(50);

impl Peer for Embedded {
    fn start(_job: &Job) -> Result<Self> {
        Workqueue::new("bench").map(Self).context("creating a managed workqueue")
    }

    /// Makes a new item for each call; the loads where that matters ([`Peer::feeder`],
    /// [`Peer::round_trips`]) reuse theirs.
    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        let item = Mutex::new(Some(item));
        let work = Work::new(move || {
            let item = item.lock().ok().and_then(|mut item| item.take());
            item.into_iter().for_each(|item| item());
        });
        self.0.queue_work(&work);
    }

    fn feeder(&'static self, gate: &'static Gate) -> impl FnMut(usize) + Send + 'static {
        let works: Vec<Work> = (0..REUSED_ITEMS).map(|_| Work::new(|| gate.done())).collect();
        move |items| {
            for work in works.iter().cycle().take(items) {
                // `false`: still pending from the last time round, and so this queueing would be
                // lost.
                while !self.0.queue_work(work) {
                    thread::sleep(STEP_ASIDE);
                }
            }
        }
    }

    fn round_trips(&self, trips: &mut Trips) {
        let work = Work::new(|| ());
        trips.make(|| {
            self.0.queue_work(&work);
            work.flush();
        });
    }
}

/// A per-CPU queue. With `TOLD`, items announce a blocking call by `cmwq::blocking`; without, the
/// pool has to notice.
pub(crate) struct PerCpu<const TOLD: bool> {
    queue: Workqueue,
    cpus: Vec<u32>,
    next: AtomicUsize,
}

impl<const TOLD: bool> Peer for PerCpu<TOLD> {
    fn start(_job: &Job) -> Result<Self> {
        let queue = Workqueue::builder("bench").percpu().build();
        let queue = queue.context("creating a per-CPU workqueue")?;
        Ok(Self { queue, cpus: sys::allowed_cpus()?, next: AtomicUsize::new(0) })
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        drop(self.queue.queue(item));
    }

    /// Deals the items out to all CPUs: `queue` alone would leave them on the CPU of the one that
    /// queues them.
    fn spawn_anywhere(&self, item: impl FnOnce() + Send + 'static) {
        // ORDERING: a counter only.
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        drop(self.queue.queue_on(self.cpus[turn % self.cpus.len()], item));
    }

    fn block(call: impl FnOnce()) {
        if TOLD {
            cmwq::blocking(call);
        } else {
            call();
        }
    }

    fn spawn_mixed(
        &self,
        compute: impl FnOnce() + Send + 'static,
        wait: Duration,
        done: impl FnOnce() + Send + 'static,
    ) {
        self.spawn_anywhere(move || {
            compute();
            Self::block(|| thread::sleep(wait));
            done();
        });
    }

    fn spawn_block(&self, item: impl FnOnce() + Send + 'static) {
        drop(self.queue.queue_on(self.cpus[0], item));
    }

    /// One running item is enough to hold back the next one of its CPU.
    fn blockers(&self, _cpus: usize) -> usize {
        1
    }

    fn round_trips(&self, trips: &mut Trips) {
        trips.make(|| self.queue.queue(|| ()).join().expect("an empty item does not panic"));
    }
}
