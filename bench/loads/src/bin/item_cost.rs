//! Empty items, and nothing else: `item_cost embedded 100` runs 100 batches of 500 reusable items
//! on a per-CPU queue, `item_cost closure 100` as many closures. Everything happens on one worker:
//! an item queues a batch, and itself behind it.
//!
//! The instructions of one item, queueing and running, are what valgrind's callgrind counts on that
//! thread (the one with the most) for many batches, less what it counts for few, by the items
//! between them:
//!
//! ```sh
//! cargo build --release -p cmwq-loads --bin item_cost
//! export CMWQ_DETECT=tick
//! for batches in 20 60; do
//!     valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file=cost.$batches \
//!         target/release/item_cost embedded $batches
//!     grep -h '^totals:' cost.$batches-* | sort -k2n | tail -1
//! done
//! ```

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use cmwq::{Work, Workqueue};

/// Less than may be active at once.
const BATCH: usize = 500;

struct Load {
    wq: Workqueue,
    /// Empty: closures.
    works: Vec<Work>,
    done: Sender<()>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let kind = env::args().nth(1).ok_or("embedded or closure?")?;
    let batches = env::args().nth(2).ok_or("how many batches?")?.parse::<usize>()?;
    let embedded = match kind.as_str() {
        "embedded" => BATCH,
        "closure" => 0,
        other => return Err(format!("embedded or closure, not {other}").into()),
    };
    let (done, is_done) = channel();
    let wq = Workqueue::builder("cost").percpu().build()?;
    let works = (0..embedded).map(|_| Work::new(|| ())).collect();
    let load = Arc::new(Load { wq, works, done });
    let of_first = Arc::clone(&load);
    drop(load.wq.queue(move || feed(of_first, batches)));
    is_done.recv()?;
    Ok(())
}

/// The queue is that of the caller's CPU, so all this waits behind the caller, and nobody is woken.
fn feed(load: Arc<Load>, batches: usize) {
    if batches == 0 {
        // Nobody listens only if the receiver is gone, and then nobody waits either.
        let _ = load.done.send(());
        return;
    }
    load.works.iter().for_each(|work| _ = load.wq.queue_work(work));
    (load.works.len()..BATCH).for_each(|_| drop(load.wq.queue(|| ())));
    let of_next = Arc::clone(&load);
    drop(load.wq.queue(move || feed(of_next, batches - 1)));
}
