//! The floor under every round trip: two threads, two futex words, nothing else.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use anyhow::{Result, bail};
use rustix::thread::futex::{Flags, wait, wake};

use super::Trips;
use crate::bench_roundtrip::{self, WARM_UP};
use crate::job::Job;
use crate::sys;

/// One direction of the ping-pong: 1 while a message is on its way.
#[derive(Default)]
struct Mailbox(AtomicU32);

impl Mailbox {
    fn send(&self) {
        // ORDERING: Release pairs with the Acquire in `receive`.
        self.0.store(1, Ordering::Release);
        // Fails only for a misaligned word, which an `AtomicU32` cannot be.
        let _ = wake(&self.0, Flags::PRIVATE, 1);
    }

    fn receive(&self) {
        // ORDERING: Acquire pairs with the Release in `send`.
        while self.0.swap(0, Ordering::Acquire) == 0 {
            // Woken, interrupted or no longer 0: the loop condition decides.
            let _ = wait(&self.0, Flags::PRIVATE, 0, None);
        }
    }
}

/// Where the two threads run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement {
    /// Wherever the scheduler puts them.
    Free,
    /// Both on the first allowed CPU.
    Same,
    /// On the first and the last allowed CPU.
    Apart,
}

impl Placement {
    fn cpus(self) -> Result<Option<(u32, u32)>> {
        let allowed = sys::allowed_cpus()?;
        Ok(match (self, &allowed[..]) {
            (Self::Free, _) => None,
            (Self::Same, [first, ..]) => Some((*first, *first)),
            (Self::Apart, [first, .., last]) => Some((*first, *last)),
            (Self::Same | Self::Apart, _) => bail!("too few CPUs allowed"),
        })
    }
}

/// Round trips between the calling thread and a second one.
pub(crate) fn measure(job: &Job, placement: Placement) -> Result<String> {
    let cpus = placement.cpus()?;
    let (ping, pong) = (Mailbox::default(), Mailbox::default());
    let mut trips = Trips::new(WARM_UP + job.count);
    thread::scope(|scope| {
        let partner = scope.spawn(|| -> Result<()> {
            cpus.map_or(Ok(()), |(_, theirs)| sys::pin_to(theirs))?;
            for _ in 0..WARM_UP + job.count {
                ping.receive();
                pong.send();
            }
            Ok(())
        });
        cpus.map_or(Ok(()), |(ours, _)| sys::pin_to(ours))?;
        trips.make(|| {
            ping.send();
            pong.receive();
        });
        partner.join().unwrap_or_else(|_| bail!("the second thread panicked"))
    })?;
    Ok(serde_json::to_string(&bench_roundtrip::sample(&trips.ns[WARM_UP..]))?)
}
