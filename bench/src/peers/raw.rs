//! The Rust side of `capi`: the same steps as `peers/capi.c`, in the same order, through the
//! functions that the C library itself is made of.
#![expect(unsafe_code, reason = "embedded items are raw pointers, in C and so here")]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use cmwq::Workqueue;
use cmwq::raw::{self, Any, Delay, RawDelayed, WorkFn, WorkItem};

use crate::bench_capi::Sample;
use crate::job::Job;
use crate::sys;

const REUSED_ITEMS: usize = 8192;
const STEP_ASIDE: Duration = Duration::from_micros(50);

static LEFT: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn done(_item: *mut WorkItem) {
    // ORDERING: Release pairs with the Acquire in `items`.
    LEFT.fetch_sub(1, Ordering::Release);
}

unsafe extern "C" fn nothing(_item: *mut WorkItem) {}

/// An item that stays where it is for as long as the process lives.
fn leaked<T>(item: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(item)))
}

fn item(func: WorkFn) -> NonNull<WorkItem> {
    leaked(WorkItem::new(func))
}

/// Runs one round in this process.
pub(super) fn measure(job: &Job) -> Result<Sample> {
    let wq = Workqueue::builder("bench").percpu().build().context("creating a workqueue")?;
    let works: Vec<WorkItem> = (0..REUSED_ITEMS).map(|_| WorkItem::new(done)).collect();
    // Only ever used through this pointer from here on.
    let works = NonNull::from(works.leak()).cast();
    items(&wq, works, job.count / 10 + 1)?;
    let item = items(&wq, works, job.count)?;
    let trip = trips(&wq, job.count / 15 + 1);
    let call = calls(&wq, job.count * 10)?;
    Ok(Sample {
        item_ns: item.wall_ns,
        item_cpu_ns: item.cpu_ns,
        trip_ns: trip.wall_ns,
        trip_cpu_ns: trip.cpu_ns,
        call_ns: call.cpu_ns,
    })
}

/// Time that has passed, and CPU time of the whole process.
struct Cost {
    wall_ns: f64,
    cpu_ns: f64,
}

impl Cost {
    fn now() -> Self {
        Self { wall_ns: sys::now_ns() as f64, cpu_ns: sys::cpu_ns() as f64 }
    }

    /// Of one of `count` since then.
    fn since(&self, count: usize) -> Self {
        let now = Self::now();
        Self {
            wall_ns: (now.wall_ns - self.wall_ns) / count as f64,
            cpu_ns: (now.cpu_ns - self.cpu_ns) / count as f64,
        }
    }
}

fn items(wq: &Workqueue, works: NonNull<WorkItem>, count: usize) -> Result<Cost> {
    let start = Cost::now();
    LEFT.store(count, Ordering::Relaxed);
    for i in 0..count {
        // SAFETY: within the array; items live for ever.
        while !unsafe { raw::queue(wq, None, works.add(i % REUSED_ITEMS)) } {
            thread::sleep(STEP_ASIDE);
        }
    }
    wq.flush();
    // ORDERING: Acquire pairs with the Release in `done`.
    ensure!(LEFT.load(Ordering::Acquire) == 0, "a flush returned too early");
    Ok(start.since(count))
}

fn trips(wq: &Workqueue, count: usize) -> Cost {
    let work = item(nothing);
    let start = Cost::now();
    for _ in 0..count {
        // SAFETY: the item lives for ever.
        unsafe {
            raw::queue(wq, None, work);
            let _ = raw::flush(work.as_ref());
        }
    }
    start.since(count)
}

/// Queueing what is pending: the call, and nothing behind it.
fn calls(wq: &Workqueue, count: usize) -> Result<Cost> {
    let work = leaked(RawDelayed::new(nothing, false));
    let after = Duration::from_secs(100_000);
    // SAFETY: the item lives for ever.
    unsafe { raw::queue_delayed(wq, None, work, Delay { after, expires: 0 }) };
    let start = Cost::now();
    for _ in 0..count {
        // SAFETY: as above; the item begins with the work item.
        let is_queued = unsafe { raw::queue(wq, None, work.cast()) };
        ensure!(!is_queued, "what is pending was queued again");
    }
    let elapsed = start.since(count);
    // SAFETY: as above.
    let _ = unsafe { raw::cancel_sync(Any::Delayed(work.as_ref())) };
    Ok(elapsed)
}
