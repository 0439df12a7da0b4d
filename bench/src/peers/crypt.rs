//! Queues by their affinity scope, and the pools beside them (crypt).

use anyhow::{Context as _, Result, bail};
use cmwq::{AffinityScope, Workqueue};

use super::Peer;
use crate::bench_crypt;
use crate::job::Job;
use crate::systems::System;

/// Does `job` on `system` in this process and returns the result as one line of JSON.
pub(super) fn measure(system: System, job: &Job) -> Result<String> {
    let sample = match system {
        System::Cmwq => bench_crypt::measure::<super::cmwq::Managed>(job),
        System::CmwqWhole => bench_crypt::measure::<Unbound<false, false>>(job),
        System::CmwqCache => bench_crypt::measure::<Unbound<true, false>>(job),
        System::CmwqCacheStrict => bench_crypt::measure::<Unbound<true, true>>(job),
        #[cfg(feature = "rayon")]
        System::Rayon => bench_crypt::measure::<super::rayon::Rayon>(job),
        #[cfg(feature = "tokio")]
        System::TokioBlocking => bench_crypt::measure::<super::tokio::SpawnBlocking>(job),
        #[cfg(feature = "crossbeam")]
        System::Crossbeam => bench_crypt::measure::<super::crossbeam::ChannelPool>(job),
        other => bail!("{} takes no part", other.name()),
    }?;
    Ok(serde_json::to_string(&sample)?)
}

/// An unbound queue of scope `cache` or `system`. As dm-crypt's, it runs as many items at a time as
/// there are CPUs.
struct Unbound<const CACHE: bool, const STRICT: bool>(Workqueue);

impl<const CACHE: bool, const STRICT: bool> Peer for Unbound<CACHE, STRICT> {
    fn start(job: &Job) -> Result<Self> {
        let scope = if CACHE { AffinityScope::Cache } else { AffinityScope::System };
        let limit = u32::try_from(job.cpus).context("a limit of items")?;
        let builder = Workqueue::builder("bench").unbound().max_active(limit);
        let builder = builder.affinity_scope(scope).affinity_strict(STRICT);
        builder.build().map(Self).context("creating an unbound workqueue")
    }

    fn spawn(&self, item: impl FnOnce() + Send + 'static) {
        drop(self.0.queue(item));
    }
}
