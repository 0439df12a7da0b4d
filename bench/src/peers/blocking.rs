//! The `blocking` crate: smol's process-wide pool for blocking calls, which grows by itself.

use anyhow::Result;
use futures_lite::future::block_on;

use super::{Peer, Trips};
use crate::job::Job;

/// `unblock`, detached for fire-and-forget items, awaited to run one and wait for it.
pub(crate) struct Unblock;

impl Peer for Unblock {
    /// Its size is an environment variable, set by who started this process.
    fn start(_job: &Job) -> Result<Self> {
        Ok(Self)
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        blocking::unblock(item).detach();
    }

    fn round_trips(&self, trips: &mut Trips) {
        trips.make(|| block_on(blocking::unblock(|| ())));
    }
}
