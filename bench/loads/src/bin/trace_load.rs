//! Runs so many empty items, every fourth on a queue called `quarter` and the rest on `load`, with
//! CMWQ_TRACE set, without ever outrunning the trace: after each batch it waits until the file has
//! all of it. For `.ci/trace-check`.

use std::error::Error;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::time::{Duration, Instant};
use std::{env, thread};

use cmwq::trace::file::{Block, read_block, read_head};
use cmwq::trace::{Kind, Record, unpack};

/// Items per batch: their events fit into any one ring.
const BATCH: u64 = 8_000;
const EVENTS_PER_ITEM: u64 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let items: u64 = env::args().nth(1).ok_or("how many items?")?.parse()?;
    let file = env::var("CMWQ_TRACE")?;
    let (load, quarter) = (cmwq::Workqueue::new("load")?, cmwq::Workqueue::new("quarter")?);
    let mut written = Written { file: File::open(file)?, at: 0, events: 0 };
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
        while written.look()? < done * EVENTS_PER_ITEM {
            if Instant::now() > patience {
                return Err("the trace does not come".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// How far the trace has come.
struct Written {
    file: File,
    /// Behind the last block that was there as a whole.
    at: u64,
    events: u64,
}

impl Written {
    /// Events of items that are in the file.
    fn look(&mut self) -> io::Result<u64> {
        self.file.seek(SeekFrom::Start(self.at))?;
        if self.at == 0 && read_head(&mut self.file).is_err() {
            return Ok(0);
        }
        loop {
            self.at = self.file.stream_position()?;
            match read_block(&mut self.file)? {
                Some(Block::Events { events, .. }) => {
                    self.events += events.iter().flat_map(unpack).filter(is_of_item).count() as u64;
                }
                Some(_) => {}
                None => return Ok(self.events),
            }
        }
    }
}

fn is_of_item(record: &Record) -> bool {
    matches!(record, Record::Event(event) if event.kind <= Kind::ExecuteEnd)
}
