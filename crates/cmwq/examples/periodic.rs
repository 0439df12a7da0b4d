//! A poll that saves power: every 50 ms while the process is doing something anyway, and never a
//! wake-up for its own sake while it is not.
//!
//! `cargo run -p cmwq --example periodic`, and with `CMWQ_PARAMS=power_efficient=1`, then the items
//! may run on whatever CPU is awake.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cmwq::DelayedWork;

const PERIOD: Duration = Duration::from_millis(50);

#[expect(clippy::print_stdout, reason = "an example")]
fn main() {
    static POLL: OnceLock<DelayedWork> = OnceLock::new();
    static POLLS: AtomicU32 = AtomicU32::new(0);

    // Deferrable: its timer is no reason to wake an idle process.
    let poll = POLL.get_or_init(|| {
        DelayedWork::deferrable(|| {
            POLLS.fetch_add(1, Ordering::Relaxed);
            let again = POLL.get().expect("it is what runs");
            cmwq::system::power_efficient().queue_delayed_work(again, PERIOD);
        })
    });
    cmwq::system::power_efficient().queue_delayed_work(poll, PERIOD);

    // A process that is busy takes its polls along.
    let busy_until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < busy_until {
        let work = || std::thread::sleep(Duration::from_millis(5));
        let _ = cmwq::system::managed().queue(work).join();
    }
    println!("{} polls in a busy second", POLLS.swap(0, Ordering::Relaxed));

    // An idle one sleeps through.
    std::thread::sleep(Duration::from_secs(1));
    println!("{} polls in an idle second", POLLS.load(Ordering::Relaxed));
    poll.cancel_sync();
}
