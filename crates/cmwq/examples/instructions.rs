//! Takes so many thousand items one way through a queue, for `.ci/instructions`, which counts the instructions. Everything
//! is in turn, so that the same happens each time: either items are queued, or they are run. To be run on one CPU.

use std::error::Error;
use std::sync::{Arc, Barrier};
use std::time::Duration;
use std::{array, env};

use cmwq::{DelayedWork, Work, Workqueue};

/// Items of a batch; all of them may be active at once.
const BATCH: usize = 1000;
const FAR: Duration = Duration::from_secs(1_000_000);

fn main() -> Result<(), Box<dyn Error>> {
    let [Some(way), Some(batches)] = array::from_fn(|i| env::args().nth(i + 1)) else {
        return Err("which way, and how many thousand items?".into());
    };
    let batches: usize = batches.parse()?;
    let percpu = Workqueue::builder("percpu").percpu().build()?;
    let managed = Workqueue::new("managed")?;
    match &*way {
        "percpu-embedded" => {
            let works = embedded();
            for _ in 0..batches {
                behind_a_gate(&percpu, || {
                    works.iter().for_each(|work| assert!(percpu.queue_work(work)))
                });
            }
        }
        "percpu-closure" => {
            for _ in 0..batches {
                behind_a_gate(&percpu, || (0..BATCH).for_each(|_| drop(percpu.queue(|| ()))));
            }
        }
        "managed-embedded" => {
            let works = embedded();
            for _ in 0..batches {
                behind_a_gate(&managed, || {
                    works.iter().for_each(|work| assert!(managed.queue_work(work)))
                });
            }
        }
        "managed-closure" => {
            for _ in 0..batches {
                behind_a_gate(&managed, || (0..BATCH).for_each(|_| drop(managed.queue(|| ()))));
            }
        }
        "percpu-from-inside" => from_inside(&Arc::new(percpu), batches),
        "managed-from-inside" => from_inside(&Arc::new(managed), batches),
        "percpu-wait" => {
            let work = Work::new(|| ());
            for _ in 0..batches * BATCH {
                percpu.queue_work(&work);
                work.flush();
            }
        }
        "delayed-arm-cancel" => {
            let work = DelayedWork::new(|| ());
            for _ in 0..batches * BATCH {
                assert!(percpu.queue_delayed_work(&work, FAR));
                assert!(work.cancel());
            }
        }
        _ => return Err(format!("no such way: {way}").into()),
    }
    Ok(())
}

fn embedded() -> Vec<Work> {
    (0..BATCH).map(|_| Work::new(|| ())).collect()
}

/// Queues items while the queue's one running worker is held, and waits until all have run.
fn behind_a_gate(wq: &Workqueue, queue: impl FnOnce()) {
    let gate = Arc::new(Barrier::new(2));
    let at_gate = Arc::clone(&gate);
    drop(wq.queue(move || {
        at_gate.wait();
        at_gate.wait();
    }));
    gate.wait();
    queue();
    gate.wait();
    wq.flush();
}

fn from_inside(wq: &Arc<Workqueue>, batches: usize) {
    for _ in 0..batches {
        let inner = Arc::clone(wq);
        drop(wq.queue(move || (0..BATCH).for_each(|_| drop(inner.queue(|| ())))));
        wq.flush();
        // Those that it queued were not among what was waited for.
        wq.flush();
    }
}
