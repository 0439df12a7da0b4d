//! What a user reaches for after the first day: errors that travel, closures taken back, bounds,
//! intervals, iterators, closing without waiting, settings of the process.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cmwq::{Config, IteratorOn as _, Periodic, Workqueue};

type Anything = Box<dyn Error + Send + Sync>;

/// Threads that began, as the hook counts them.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Before anything else: settings are for a library that is not in use.
pub(crate) fn settings() -> Result<(), Anything> {
    Config::builder()
        .idle_timeout(Duration::from_secs(60))
        .on_thread_start(|_| {
            THREADS.fetch_add(1, Ordering::Relaxed);
        })
        .install()?;
    Ok(())
}

pub(crate) fn all() -> Result<(), Anything> {
    let queue = Workqueue::new("newer")?;
    let sum = queue.queue(|| 1 + 1).join()?;
    assert_eq!(sum, 2);
    assert!(THREADS.load(Ordering::Relaxed) > 0, "the hook was not called");
    assert!(Config::builder().install().is_err(), "it is in use");
    travels();
    bounded()?;
    intervals()?;
    iterators()?;
    taken_back()?;
    closed()
}

/// `?` in functions of any error type.
fn travels() {
    fn fails() -> Result<(), Anything> {
        let queue = Workqueue::new("fails")?;
        queue.queue(|| panic!("on purpose")).join()?;
        Ok(())
    }
    std::panic::set_hook(Box::new(|_| {}));
    assert!(fails().is_err());
    let _ = std::panic::take_hook();
}

/// What does not fit comes back.
fn bounded() -> Result<(), Anything> {
    let queue = Workqueue::builder("bounded").ordered().max_queued(1).build()?;
    let (open, gate) = mpsc::channel::<()>();
    let (send, begun) = mpsc::channel();
    let first = queue.queue(move || {
        let _ = send.send(());
        gate.recv()
    });
    begun.recv()?;
    let second = queue.queue(|| ());
    let refused = queue.try_queue(|| 42).err().ok_or("it was queued")?;
    assert!(refused.is_full());
    assert_eq!((refused.into_inner())(), 42);
    drop(open);
    assert!(first.join()?.is_err());
    second.join()?;
    Ok(())
}

fn intervals() -> Result<(), Anything> {
    let queue = Workqueue::new("intervals")?;
    let (send, ticks) = mpsc::channel();
    let periodic = Periodic::every(Duration::from_millis(1)).start(&queue, move |_| {
        let _ = send.send(());
    });
    for _ in 0..3 {
        ticks.recv()?;
    }
    periodic.stop_sync();
    Ok(())
}

fn iterators() -> Result<(), Anything> {
    let queue = Workqueue::new("iterators")?;
    let squares: Vec<u32> = (0..100).map_on(&queue, 8, |n| n * n).collect();
    assert!(squares.iter().copied().eq((0..100).map(|n| n * n)));
    Ok(())
}

/// A closure that has not begun can be taken back.
fn taken_back() -> Result<(), Anything> {
    let queue = Workqueue::new("taken-back")?;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = {
        let runs = Arc::clone(&runs);
        move || runs.fetch_add(1, Ordering::Relaxed)
    };
    let later = queue.queue_delayed(count, Duration::from_secs(3600));
    assert!(later.cancel_sync().is_none());
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    Ok(())
}

fn closed() -> Result<(), Anything> {
    let queue = Workqueue::new("closed")?;
    let last = queue.queue(|| 42);
    let closing = queue.close();
    assert_eq!(last.join()?, 42);
    closing.wait();
    Ok(())
}
