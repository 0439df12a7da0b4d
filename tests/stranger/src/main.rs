//! What a user of the published crate writes: the public interface, nothing hidden, default
//! features.

mod newer;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cmwq::{DelayedWork, Work, Workqueue};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    newer::settings()?;
    closures()?;
    borrowing()?;
    reusable()?;
    ordered()?;
    delayed()?;
    newer::all()?;
    println!("a stranger's program works");
    Ok(())
}

/// Closures give their results back, and a panic stays with its item.
fn closures() -> Result<(), cmwq::Error> {
    let queue = Workqueue::new("stranger")?;
    let handles: Vec<_> = (0..100_u32).map(|i| queue.queue(move || i * i)).collect();
    let sum: u32 = handles.into_iter().map(|handle| handle.join().expect("it returned")).sum();
    assert_eq!(sum, 328_350);
    std::panic::set_hook(Box::new(|_| {}));
    assert!(queue.queue(|| panic!("on purpose")).join().is_err());
    let _ = std::panic::take_hook();
    Ok(())
}

/// Closures that borrow.
fn borrowing() -> Result<(), cmwq::Error> {
    let queue = Workqueue::new("borrowing")?;
    let mut words = ["a", "b"].map(str::to_owned);
    queue.scope(|scope| {
        for word in &mut words {
            scope.queue(|| word.push('!'));
        }
    });
    assert_eq!(words, ["a!", "b!"]);
    Ok(())
}

/// A work that is pending is not queued again; `flush` waits for it.
fn reusable() -> Result<(), cmwq::Error> {
    let queue = Workqueue::new("reusable")?;
    let runs = Arc::new(AtomicUsize::new(0));
    let work = Work::new({
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    });
    for expected in 1..=3 {
        assert!(queue.queue_work(&work));
        work.flush();
        assert_eq!(runs.load(Ordering::Relaxed), expected);
    }
    Ok(())
}

/// An ordered queue runs one item after the other, in order.
fn ordered() -> Result<(), cmwq::Error> {
    let queue = Workqueue::builder("ordered").ordered().build()?;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    for i in 0..100 {
        let seen = Arc::clone(&seen);
        drop(queue.queue(move || seen.lock().expect("no panic").push(i)));
    }
    queue.flush();
    assert!(seen.lock().expect("no panic").iter().copied().eq(0..100));
    Ok(())
}

/// A timer that is cancelled never runs; one that is flushed runs at once.
fn delayed() -> Result<(), cmwq::Error> {
    let queue = Workqueue::new("delayed")?;
    let runs = Arc::new(AtomicUsize::new(0));
    let work = DelayedWork::new({
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::Relaxed);
        }
    });
    queue.queue_delayed_work(&work, Duration::from_secs(3600));
    assert!(work.cancel_sync());
    queue.queue_delayed_work(&work, Duration::from_secs(3600));
    work.flush();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    Ok(())
}
