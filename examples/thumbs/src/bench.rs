//! The same service on several pools, under the same load: what each serves, refuses, and how long
//! it takes.
//!
//! Every measurement has a server process of its own, on a fresh copy of the same database.
//! Requests arrive at random (Poisson), the same ones at the same times for each pool, whether or
//! not earlier ones were answered. A request's latency is from when it was due. The loads are parts
//! of what the machine can do at most, which is found out at the start of each round: a shared one
//! is faster at one time than at another. For the same reason all pools have their turns under one
//! load before the next load begins, and pools are compared within a round.

mod load;
mod machine;
mod server;
mod table;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;

use crate::limits::at_least_one;
use crate::picture;
use crate::pool::Kind;
use crate::service::THUMBNAIL_SIDE;
use crate::signals::Signals;
use crate::store::{Name, Sqlite, Store as _, Stored};

use load::{Load, Pictures, Sample};
use server::ServerProcess;

/// Pictures that are in the database before: numbers 0 to this. Clients store others.
const STORED: u64 = 64;
/// Clients that ask without a pause, to find out what can be served at most.
const CLIENTS: usize = 16;

/// Options of `bench`.
#[derive(Args, Debug)]
pub struct Options {
    /// The pools to compare, separated by commas: cmwq, blocking:THREADS, semaphore:JOBS (tokio's
    /// threads, on which a semaphore lets so many begin) and rayon:THREADS.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cmwq,blocking:4,blocking:16,blocking:512,semaphore:32,rayon:2,rayon:16"
    )]
    pools: Vec<Kind>,
    /// Loads, in per cent of what the machine can do at most.
    #[arg(long, value_delimiter = ',', default_value = "50,80,120", value_parser = at_least_one)]
    loads: Vec<u32>,
    /// Rounds; in each every pool has its turn under every load, in another order.
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    rounds: u32,
    /// How long each measurement takes, in seconds.
    #[arg(long, default_value_t = 6, value_parser = at_least_one)]
    seconds: u32,
    /// Lets every call of the database take so much longer, in milliseconds.
    #[arg(long, default_value_t = 0)]
    slow_disk_ms: u64,
    /// Requests per second that are 100 %, instead of finding out.
    #[arg(long, value_parser = rate)]
    most: Option<f64>,
    /// Where to put the databases, which are removed afterwards: on a disk, which is not where
    /// temporary files are in memory (tmpfs) [default: the directory for temporary files].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Requests per second, of which there are some.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "a number above 0 is needed".to_owned())
}

/// A pool under a load, in one round.
#[derive(Clone, Copy, Debug)]
struct Cell {
    round: u32,
    pool: Kind,
    percent: u32,
}

/// A folder that is removed with all that is in it, however the measurements end.
struct Folder(PathBuf);

impl Folder {
    fn create(parent: &Path) -> anyhow::Result<Self> {
        let folder = parent.join(format!("thumbs-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            table::say(&format!("{} is left: {error}", self.0.display()));
        }
    }
}

/// Measures and prints a table in Markdown.
///
/// # Errors
/// If something is to be measured twice, a server does not start or does not answer, or a signal
/// asks for an end.
pub async fn run(options: &Options) -> anyhow::Result<()> {
    once("--pools", &options.pools)?;
    once("--loads", &options.loads)?;
    let mut signals = Signals::new().context("watching for signals")?;
    let parent = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = Folder::create(&parent)?;
    tokio::select! {
        measured = measure(options, &folder.0) => measured,
        _ = signals.next() => bail!("a signal: nothing is printed"),
    }
}

/// Each row of the table is of one of them.
fn once<T: PartialEq + Display>(option: &str, values: &[T]) -> anyhow::Result<()> {
    for (at, value) in values.iter().enumerate() {
        ensure!(!values[..at].contains(value), "{value} stands twice in {option}");
    }
    Ok(())
}

async fn measure(options: &Options, folder: &Path) -> anyhow::Result<()> {
    let circumstances = machine::circumstances(folder);
    let pictures = Pictures::new()?;
    let names = populate(folder, &pictures)?;
    let mut capacities = Vec::new();
    let mut samples: Vec<(Cell, Sample)> = Vec::new();
    let mut random = fastrand::Rng::with_seed(options.seed);
    let (mut loads, mut pools) = (options.loads.clone(), options.pools.clone());
    for round in 1..=options.rounds {
        let most = match options.most {
            Some(most) => most,
            None => most_per_second(options, folder, &names, &pictures).await?,
        };
        capacities.push(most);
        random.shuffle(&mut loads);
        for &percent in &loads {
            random.shuffle(&mut pools);
            for &pool in &pools {
                table::say(&format!("round {round}: {pool} at {percent} %"));
                let server = ServerProcess::start(pool, folder, options.slow_disk_ms).await?;
                let load = Load {
                    per_second: most * f64::from(percent) / 100.0,
                    length: Duration::from_secs(options.seconds.into()),
                    seed: options.seed.wrapping_add(round.into()),
                };
                let sample = load.run(&server, &names, &pictures).await?;
                samples.push((Cell { round, pool, percent }, sample));
                server.stop().await?;
            }
        }
    }
    table::print(options, &circumstances, &capacities, &samples)
}

/// Makes the database of which every server gets a copy.
fn populate(folder: &Path, pictures: &Pictures) -> anyhow::Result<Vec<Name>> {
    let store = Sqlite::open(&server::template(folder))?;
    let put = |number| {
        let original = Vec::from(pictures.get(number));
        let name = Name::of(&original);
        let thumbnail = picture::smaller(&original, THUMBNAIL_SIDE)?;
        store.put(&name, &Stored { original, thumbnail })?;
        Ok(name)
    };
    (0..STORED).map(put).collect()
}

/// What the better of two pools serves when clients ask without a pause.
async fn most_per_second(
    options: &Options,
    folder: &Path,
    names: &[Name],
    pictures: &Arc<Pictures>,
) -> anyhow::Result<f64> {
    let mut most: f64 = 0.0;
    for pool in [Kind::Cmwq, Kind::Blocking(16)] {
        table::say(&format!("what can be served at most: {pool}"));
        let server = ServerProcess::start(pool, folder, options.slow_disk_ms).await?;
        let length = Duration::from_secs(options.seconds.into());
        most = most.max(load::closed(&server, names, pictures, CLIENTS, length).await?);
        server.stop().await?;
    }
    ensure!(most > 0.0, "no request was served, so there is no load to measure under");
    Ok(most)
}
