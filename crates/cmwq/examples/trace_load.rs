//! Runs so many empty items, every fourth on a queue called `quarter` and the rest on `load`, with
//! CMWQ_TRACE set, without ever outrunning the trace: after each batch it waits until the file has
//! all of it. For `.ci/trace-check`.

use std::error::Error;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// Items per batch: their events fit into any one ring.
const BATCH: u64 = 8_000;
/// Four events of 48 bytes are the least that an item leaves.
const BYTES_PER_ITEM: u64 = 4 * 48;

fn main() -> Result<(), Box<dyn Error>> {
    let items: u64 = env::args().nth(1).ok_or("how many items?")?.parse()?;
    let file = env::var("CMWQ_TRACE")?;
    let (load, quarter) = (cmwq::Workqueue::new("load")?, cmwq::Workqueue::new("quarter")?);
    let mut done = 0;
    while done < items {
        let batch = BATCH.min(items - done);
        for item in done..done + batch {
            // The last one of four.
            let wq = if item % 4 == 3 { &quarter } else { &load };
            drop(wq.queue(|| ()));
        }
        load.flush();
        quarter.flush();
        done += batch;
        let patience = Instant::now() + Duration::from_secs(60);
        while fs::metadata(&file)?.len() < done * BYTES_PER_ITEM {
            if Instant::now() > patience {
                return Err("the trace does not come".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}
