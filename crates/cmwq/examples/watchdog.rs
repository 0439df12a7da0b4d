//! Two ordered queues flush each other, and the watchdog says where.
//!
//! `cargo run -p cmwq --features stacks --example watchdog`: aborts after the first report.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use cmwq::Workqueue;

fn sync_index(data: &Workqueue, both: &Barrier) {
    both.wait();
    data.flush(); // waits for `sync_data`
}

fn sync_data(index: &Workqueue, both: &Barrier) {
    both.wait();
    index.flush(); // waits for `sync_index`
}

fn main() -> Result<(), cmwq::Error> {
    cmwq::watchdog::set_thresh(Duration::from_secs(1))?;
    cmwq::watchdog::set_panic_on_stall(1, Duration::ZERO)?;

    let ordered = |name| Workqueue::builder(name).ordered().build().map(Arc::new);
    let (index, data) = (ordered("index")?, ordered("data")?);
    let both = Arc::new(Barrier::new(2));
    let first = index.queue({
        let (data, both) = (Arc::clone(&data), Arc::clone(&both));
        move || sync_index(&data, &both)
    });
    let second = data.queue({
        let index = Arc::clone(&index);
        move || sync_data(&index, &both)
    });
    drop((first.join(), second.join()));
    Ok(())
}
