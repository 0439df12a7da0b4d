//! tokio's timers: behind tasks, and by themselves.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use crate::bench_delayed::{Book, Timers};

fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread().enable_time().build().context("starting tokio's runtime")
}

/// How often the waiting side looks whether the runtime's threads are done.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// A task per item that sleeps and then runs the function; cancelled by aborting it.
pub(crate) struct Tasks {
    runtime: Runtime,
    book: &'static Book,
    tasks: Vec<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
    spawned: usize,
}

/// A timer exists only once the task was polled, and is gone only once the task was dropped: both
/// happen on the runtime's threads.
#[derive(Debug, Default)]
struct Counts {
    armed: AtomicUsize,
    gone: AtomicUsize,
}

struct CountsWhenDropped(Arc<Counts>);

impl Drop for CountsWhenDropped {
    fn drop(&mut self) {
        // ORDERING: a count; nothing is published by it.
        self.0.gone.fetch_add(1, Ordering::Relaxed);
    }
}

impl Timers for Tasks {
    fn start(_cpus: usize, book: &'static Book) -> Result<Self> {
        let tasks = (0..book.len()).map(|_| None).collect();
        Ok(Self { runtime: runtime()?, book, tasks, counts: Arc::default(), spawned: 0 })
    }

    fn arm(&mut self, item: usize, delay: Duration) {
        let (book, counts) = (self.book, Arc::clone(&self.counts));
        let due = tokio::time::Instant::now() + delay;
        self.spawned += 1;
        self.tasks[item] = Some(self.runtime.spawn(async move {
            let counted = CountsWhenDropped(counts);
            let mut sleep = std::pin::pin!(tokio::time::sleep_until(due));
            let mut is_first = true;
            poll_fn(|context| {
                let polled = sleep.as_mut().poll(context);
                if std::mem::take(&mut is_first) {
                    counted.0.armed.fetch_add(1, Ordering::Relaxed);
                }
                polled
            })
            .await;
            book.fired(item);
        }));
    }

    fn settle(&mut self) {
        while self.counts.armed.load(Ordering::Relaxed) < self.spawned {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn cancel(&mut self, item: usize) {
        if let Some(task) = self.tasks[item].take() {
            task.abort();
        }
    }

    fn settle_cancelled(&mut self) {
        while self.counts.gone.load(Ordering::Relaxed) < self.spawned {
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// `Sleep` futures that are polled once, which registers them with the timing wheel, and dropped in
/// place, which takes them off. No task, and nothing to run: what the wheel itself costs.
pub(crate) struct Sleeps {
    runtime: Runtime,
    sleeps: Vec<Pin<Box<Option<Sleep>>>>,
}

impl Timers for Sleeps {
    const FIRES: bool = false;

    fn start(_cpus: usize, book: &'static Book) -> Result<Self> {
        let sleeps = (0..book.len()).map(|_| Box::pin(None)).collect();
        Ok(Self { runtime: runtime()?, sleeps })
    }

    fn arm(&mut self, item: usize, delay: Duration) {
        let _entered = self.runtime.enter();
        let slot = &mut self.sleeps[item];
        slot.as_mut().set(Some(tokio::time::sleep(delay)));
        let mut context = Context::from_waker(Waker::noop());
        if let Some(sleep) = slot.as_mut().as_pin_mut() {
            let polled = sleep.poll(&mut context);
            debug_assert_eq!(polled, Poll::Pending, "seconds ahead");
        }
    }

    fn cancel(&mut self, item: usize) {
        self.sleeps[item].as_mut().set(None);
    }
}
