//! Machines that share a queue: run it in as many terminals, or on as many machines, as you like.
//!
//! ```text
//! nats-server -js &
//! cargo run -p cmwq-nats --example fleet                    # serves, and queues 1,000 items
//! cargo run -p cmwq-nats --example fleet -- --serve         # only serves; may be killed
//! cargo run -p cmwq-nats --example fleet -- --serve HOST    # on another machine
//! ```
//!
//! Each item computes for 2 ms and blocks for 5 ms. Nobody says how many of them a machine should
//! take: while one computes on each CPU it takes no other, and when they block it does.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_nats::{Broker, Item};

const ITEMS: u32 = 1000;

/// How many items are there, and how many there were at most.
#[derive(Default)]
struct Peak {
    now: AtomicU32,
    most: AtomicU32,
}

impl Peak {
    fn enter(&self) {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }

    fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let only_serves = args.first().is_some_and(|arg| arg == "--serve");
    if only_serves {
        args.remove(0);
    }
    let broker = Broker::connect(args.first().map_or("127.0.0.1:4222", String::as_str))?;
    let queue = broker.queue("fleet").dead_after(Duration::from_secs(5)).open()?;

    let (computing, running) = (Arc::new(Peak::default()), Arc::new(Peak::default()));
    let machine = {
        let (computing, running) = (computing.clone(), running.clone());
        queue.serve().function("work", move |item: &Item| {
            running.enter();
            computing.enter();
            let sum = compute(item.payload());
            computing.leave();
            thread::sleep(Duration::from_millis(5));
            running.leave();
            if sum == 0 { Err("impossible".into()) } else { Ok(()) }
        })
    }
    .start()?;

    if only_serves {
        let mut before = 0;
        loop {
            thread::sleep(Duration::from_secs(1));
            let stats = machine.stats();
            if stats.completed != before {
                println!(
                    "{} items done, {} of them not at first",
                    stats.completed, stats.taken_again
                );
                before = stats.completed;
            }
        }
    }

    let begun = Instant::now();
    for i in 0..ITEMS {
        let _ = queue.queue("work", i.to_string())?;
    }
    let queued = begun.elapsed();
    queue.flush()?;
    println!(
        "{ITEMS} items queued in {:.0} ms, done after {:.0} ms; this machine did {} of them: \
         {} computed at once, {} were there at once",
        queued.as_secs_f64() * 1e3,
        begun.elapsed().as_secs_f64() * 1e3,
        machine.stats().completed,
        computing.most(),
        running.most(),
    );
    machine.close();
    Ok(())
}

/// Computes for some 2 ms.
fn compute(payload: &[u8]) -> u64 {
    let end = Instant::now() + Duration::from_millis(2);
    let mut sum = 1 + payload.len() as u64;
    while Instant::now() < end {
        sum = std::hint::black_box(sum.rotate_left(5) ^ 0x9e37_79b9_7f4a_7c15) | 1;
    }
    sum
}
