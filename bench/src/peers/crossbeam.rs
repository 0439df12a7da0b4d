//! The pool that people write themselves: one thread per CPU behind an unbounded crossbeam channel.

use std::thread;

use anyhow::{Context as _, Result};
use crossbeam_channel::{Sender, bounded, unbounded};

use super::{Peer, Trips};
use crate::job::Job;

type Item = Box<dyn FnOnce() + Send>;

/// The sending side; the threads end with the process.
pub(crate) struct ChannelPool(Sender<Item>);

impl Peer for ChannelPool {
    fn start(job: &Job) -> Result<Self> {
        let (sender, receiver) = unbounded::<Item>();
        let threads = if job.size == 0 { job.cpus } else { job.size };
        for worker in 0..threads {
            let items = receiver.clone();
            thread::Builder::new()
                .name(format!("channel-{worker}"))
                .spawn(move || items.iter().for_each(|item| item()))
                .context("starting a thread of the channel pool")?;
        }
        Ok(Self(sender))
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        self.0.send(Box::new(item)).expect("the pool's threads hold receivers for ever");
    }

    fn round_trips(&self, trips: &mut Trips) {
        let (reply, replies) = bounded(1);
        trips.make(|| {
            let reply = reply.clone();
            self.spawn(move || reply.send(()).expect("the waiting side holds the receiver"));
            replies.recv().expect("this side holds a sender");
        });
    }
}
