//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};

/// Every operation of the library at random, for as long as one likes.
#[derive(Debug, Parser)]
#[command(name = "cmwq-soak", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// From Rust, in this process.
    Soak(SoakArgs),
    /// From C: soak.c is compiled against the library, and run.
    C(CArgs),
    /// Computes and sleeps by turns, as a load beside a soak.
    #[command(hide = true)]
    Burn,
}

/// What both have.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// For how long.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub(crate) secs: u64,
    /// Decides what each thread does; by default the time.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// How many threads make calls; by default two per CPU and four.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// A call that takes longer than this is a failure.
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    pub(crate) patience: u64,
    /// The summary as JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SoakArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Forks now and then; the children use the queues they inherit, and queues of their own.
    #[arg(long)]
    pub(crate) fork: bool,
    /// Changes the CPU masks of threads of this process, the library's too, and of unbound queues.
    #[arg(long)]
    pub(crate) mask_changes: bool,
    /// Now and then no thread can be had. As root it becomes another user for that, since root has
    /// no such limit.
    #[arg(long)]
    pub(crate) failing_threads: bool,
    /// A child process per CPU computes.
    #[arg(long)]
    pub(crate) foreign_load: bool,
    /// All of the switches above.
    #[arg(long)]
    pub(crate) all: bool,
    /// More memory than this is a failure.
    #[arg(long, default_value_t = 2_048, value_name = "MIB")]
    pub(crate) max_rss: u64,
    /// More threads than this are a failure.
    #[arg(long, default_value_t = 8_192)]
    pub(crate) max_threads: u64,
}

impl SoakArgs {
    fn with_all(mut self) -> Self {
        if self.all {
            self.fork = true;
            self.mask_changes = true;
            self.failing_threads = true;
            self.foreign_load = true;
        }
        self
    }

    /// The command that does the same again.
    pub(crate) fn command(&self, seed: u64, threads: usize) -> String {
        let switches = [
            (self.fork, " --fork"),
            (self.mask_changes, " --mask-changes"),
            (self.failing_threads, " --failing-threads"),
            (self.foreign_load, " --foreign-load"),
        ];
        let switches = switches.iter().filter(|(is_on, _)| *is_on).map(|(_, name)| *name);
        format!(
            "cargo run --release -p cmwq-soak -- soak --secs {} --seed {seed} --threads \
             {threads} --patience {} --max-rss {} --max-threads {}{}",
            self.common.secs,
            self.common.patience,
            self.max_rss,
            self.max_threads,
            switches.collect::<String>()
        )
    }
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CArgs {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Where libcmwq.so was built; by default it is built, for release.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) lib: Option<PathBuf>,
    /// What the C compiler is told besides, such as -fsanitize=address.
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) cflag: Vec<String>,
}

impl CArgs {
    /// The command that does the same again.
    pub(crate) fn command(&self, seed: u64, threads: usize) -> String {
        let common = &self.common;
        let mut command = format!(
            "cargo run --release -p cmwq-soak -- c --secs {} --seed {seed} --threads {threads} \
             --patience {}",
            common.secs, common.patience
        );
        for flag in &self.cflag {
            command += &format!(" --cflag={flag}");
        }
        command
    }
}

impl Common {
    pub(crate) fn seed(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.seed.unwrap_or(now.as_millis() as u64)
    }

    pub(crate) fn threads(&self) -> usize {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or(2 * cpus + 4).max(1)
    }
}

pub(crate) fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Soak(args) => crate::run::soak(&args.with_all()),
        Verb::C(args) => crate::c_twin::run(&args),
        Verb::Burn => crate::disturb::burn(),
    }
}
