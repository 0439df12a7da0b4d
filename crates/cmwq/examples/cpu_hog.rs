//! An item that never sleeps and one that waits behind it: for `cmwq dump --stuck`, `cmwq monitor`
//! and `cmwq top`.
//!
//! Prints its process id and stays until it is interrupted. The hog is an item of a per-CPU queue:
//! after 10 ms the next item starts beside it, and `monitor` counts it under `CPUitsv`.

#![expect(clippy::print_stdout, reason = "it is what an example is for")]

use std::hint::black_box;

use cmwq::Workqueue;

/// What `cmwq dump --stuck` leads to.
#[inline(never)]
fn burn() {
    loop {
        black_box(0);
    }
}

fn main() -> Result<(), cmwq::Error> {
    let wq = Workqueue::builder("hogged").percpu().build()?;
    let hog = wq.queue_on(0, burn);
    let behind = wq.queue_on(0, || "the item behind it has run nevertheless");
    println!("process {}: {}", std::process::id(), behind.join().unwrap_or("it has not run"));
    // For ever.
    let _ = hog.join();
    Ok(())
}
