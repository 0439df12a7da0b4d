//! What one measurement is asked to do, as the command line of the process that does it.
//!
//! One flat set of `--name value` pairs for every benchmark: the child processes in Rust, C++ and
//! Go all read the same.

use std::time::Duration;

use clap::{Args, ValueEnum};

/// The benchmarks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Bench {
    /// Items that compute, then block.
    Mixed,
    /// From a block to the next item's start.
    Block,
    /// Queue, run, done: cost per item.
    Items,
    /// Queue one item and wait for it.
    Roundtrip,
    /// Arm, cancel, and wait for timers.
    Delayed,
    /// Queues that are never used.
    Idle,
    /// Ten items that sleep, behind a limit.
    Ten,
    /// Works that burn, sleep and queue themselves again after a while.
    PerfWq,
    /// A directory's files read and hashed, from a cold cache.
    Hash,
    /// The C library's calls beside those from Rust.
    Capi,
    /// Items of a process that is looked at, or not.
    Showing,
    /// Queues until memory or threads run out.
    Queues,
    /// Periodic works on an idle machine: whom they wake.
    Power,
    /// How an item's cost grows with what there is of everything.
    Scaling,
    /// Blocks that are encrypted by workers and verified by issuers.
    Crypt,
    /// Items that wait and compute in turns.
    Waits,
    /// Pictures that are fetched, made smaller and written.
    Pictures,
    /// Closures that tokio's tasks await.
    Tasks,
    /// Items that wake all at once, and compute.
    Woken,
}

/// Where the items of [`Bench::Items`] and [`Bench::Waits`] come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Producers {
    /// One thread outside the pool.
    One,
    /// As many threads outside the pool as there are CPUs.
    Many,
    /// One item inside the pool.
    Inside,
}

/// One measurement.
#[derive(Args, Clone, Debug, Eq, PartialEq)]
pub(crate) struct Job {
    /// The benchmark.
    #[arg(long)]
    pub(crate) bench: Bench,
    /// Where items come from (items, waits).
    #[arg(long, default_value = "one")]
    pub(crate) producers: Producers,
    /// CPUs that the pool may use.
    #[arg(long)]
    pub(crate) cpus: usize,
    /// Items, trials or trips.
    #[arg(long)]
    pub(crate) count: usize,
    /// CPU time that an item burns, in microseconds (mixed, block).
    #[arg(long, default_value_t = 0)]
    pub(crate) burn_us: u64,
    /// How long an item blocks (mixed) or at most blocks (block), or within which time all timers
    /// expire (delayed), or how long a measurement takes (crypt), in microseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) wait_us: u64,
    /// How long an item blocks before it burns (mixed), how long a picture takes to come
    /// (pictures), or the time from one item to the next (tasks), in microseconds.
    #[arg(long, default_value_t = 0)]
    pub(crate) first_us: u64,
    /// Seed of whatever is random in the measurement; 0: a new one for each.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Threads of the pool; 0: the system's own default.
    #[arg(long, default_value_t = 0)]
    pub(crate) size: usize,
    /// Most items of a queue at a time (ten); 0: the default.
    #[arg(long, default_value_t = 0)]
    pub(crate) max_active: usize,
    /// Threads that keep `count` blocks in flight each (crypt).
    #[arg(long, default_value_t = 0)]
    pub(crate) issuers: usize,
    /// The works, as [`crate::perf_wq::Work`] spells them (perf-wq).
    #[arg(long, default_value = "")]
    pub(crate) works: String,
    /// Where the files are (hash, pictures).
    #[arg(long, default_value = "")]
    pub(crate) folder: String,
    /// Which of a system's ways (queues, power, scaling), or what an item does (waits).
    #[arg(long, default_value = "")]
    pub(crate) variant: String,
    /// Memory that may be taken, in MiB (queues); 0: no limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) memory_mib: u64,
    /// How often the load is done again in the same process (waits, pictures, hash): 0 or 1.
    #[arg(long, default_value_t = 0)]
    pub(crate) again: u32,
}

impl Job {
    /// A job without the optional parts.
    pub(crate) fn new(bench: Bench, cpus: usize, count: usize) -> Self {
        Self {
            bench,
            producers: Producers::One,
            cpus,
            count,
            burn_us: 0,
            wait_us: 0,
            first_us: 0,
            seed: 0,
            size: 0,
            max_active: 0,
            issuers: 0,
            works: String::new(),
            folder: String::new(),
            variant: String::new(),
            memory_mib: 0,
            again: 0,
        }
    }

    pub(crate) fn burn(&self) -> Duration {
        Duration::from_micros(self.burn_us)
    }

    pub(crate) fn wait(&self) -> Duration {
        Duration::from_micros(self.wait_us)
    }

    pub(crate) fn first_wait(&self) -> Duration {
        Duration::from_micros(self.first_us)
    }

    /// `CMWQ_PARAMS` of the process that measures, where the benchmark chooses them.
    pub(crate) fn params(&self) -> Option<&str> {
        (self.bench == Bench::Power).then_some(self.variant.as_str())
    }

    /// The arguments from which the child builds this job again.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let pairs = [
            ("--bench", value_name(self.bench)),
            ("--producers", value_name(self.producers)),
            ("--cpus", self.cpus.to_string()),
            ("--count", self.count.to_string()),
            ("--burn-us", self.burn_us.to_string()),
            ("--wait-us", self.wait_us.to_string()),
            ("--seed", self.seed.to_string()),
        ];
        // Unknown to the peers in other languages that take no part in what needs them.
        let rare = [
            ("--first-us", self.first_us.to_string()),
            ("--size", self.size.to_string()),
            ("--max-active", self.max_active.to_string()),
            ("--issuers", self.issuers.to_string()),
            ("--works", self.works.clone()),
            ("--folder", self.folder.clone()),
            ("--variant", self.variant.clone()),
            ("--memory-mib", self.memory_mib.to_string()),
            ("--again", self.again.to_string()),
        ];
        let given = |(_, value): &(&str, String)| !value.is_empty() && value != "0";
        let all = pairs.into_iter().chain(rare.into_iter().filter(given));
        all.flat_map(|(name, value)| [name.to_owned(), value]).collect()
    }
}

/// The name of a value as the command line spells it.
pub(crate) fn value_name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |named| named.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Child {
        #[command(flatten)]
        job: Job,
    }

    #[test]
    fn a_job_survives_the_command_line() {
        let job = Job {
            producers: Producers::Many,
            burn_us: 7,
            wait_us: 8,
            first_us: 12,
            seed: u64::MAX,
            size: 5,
            max_active: 6,
            issuers: 9,
            works: "0:1".to_owned(),
            folder: "/a/b".to_owned(),
            variant: "used".to_owned(),
            memory_mib: 9,
            again: 1,
            ..Job::new(Bench::Roundtrip, 3, 11)
        };
        let line = std::iter::once("child".to_owned()).chain(job.to_args());
        assert_eq!(Child::try_parse_from(line).unwrap().job, job);
    }
}
