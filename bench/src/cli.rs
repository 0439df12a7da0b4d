//! The command line.

use std::io::Write as _;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum as _};
use comfy_table::Table;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use fastrand::Rng;

use crate::bench_crypt::CryptOptions;
use crate::bench_perf_wq::PerfWqOptions;
use crate::bench_pictures::PicturesOptions;
use crate::bench_power::PowerOptions;
use crate::bench_queues::QueuesOptions;
use crate::bench_scaling::ScalingOptions;
use crate::bench_sizes::SizesOptions;
use crate::bench_ten::TenOptions;
use crate::bench_waits::WaitsOptions;
use crate::bench_woken::WokenOptions;
use crate::external::External;
use crate::job::{Bench, Job, value_name};
use crate::machine::Machine;
use crate::report::{Report, Section};
use crate::rounds::Session;
use crate::systems::System;
use crate::write_up::ReportOptions;
use crate::{
    bench_block, bench_capi, bench_crypt, bench_delayed, bench_idle, bench_items, bench_mixed,
    bench_perf_wq, bench_pictures, bench_power, bench_queues, bench_roundtrip, bench_scaling,
    bench_showing, bench_sizes, bench_tasks, bench_ten, bench_waits, bench_woken, foreground,
    foreign, peers, sys, versions, write_up,
};

/// Measures cmwq and its peers side by side, in alternating rounds of one run.
///
/// Every measurement happens in a fresh child process. Within a round the systems take turns in a
/// random order. Tables show medians over the rounds, with the range in brackets; every ratio is
/// shown with both of its sides.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Common {
    /// Rounds per benchmark, instead of each one's own default (3 to 9).
    #[arg(long, global = true, value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Measure only these systems, separated by commas; see --list.
    #[arg(long, global = true, value_delimiter = ',', hide_possible_values = true)]
    peers: Vec<System>,
    /// Print JSON instead of tables; times in nanoseconds, null for never.
    #[arg(long, global = true)]
    json: bool,
    /// List the systems, how each is used, and whether it can be measured here; then stop.
    #[arg(long, global = true)]
    list: bool,
    /// Seed for the order of the systems and the phases of trials; the default is taken from the
    /// clock and printed.
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// Two rounds of smaller loads, and no foreign load in `all`: a rough look in well under a
    /// minute.
    #[arg(long, global = true)]
    quick: bool,
    /// Give up on a measurement that takes longer than this many seconds.
    #[arg(long, global = true, default_value_t = LIMIT_S)]
    limit_s: NonZeroU64,
}

const LIMIT_S: NonZeroU64 = NonZeroU64::new(60).unwrap();

impl Common {
    /// What an experiment is repeated with: the options that were given, and the seed that was
    /// taken.
    fn repeat(&self, seed: u64) -> String {
        let names: Vec<_> = self.peers.iter().map(|system| system.name()).collect();
        let given = [
            self.quick.then(|| "--quick ".to_owned()),
            self.runs.map(|runs| format!("--runs {runs} ")),
            (!names.is_empty()).then(|| format!("--peers {} ", names.join(","))),
            (self.limit_s != LIMIT_S).then(|| format!("--limit-s {} ", self.limit_s)),
        ];
        format!("{}--seed {seed}", given.into_iter().flatten().collect::<String>())
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Items that compute and then block: makespan against the ideal, threads, items computing at
    /// once.
    Mixed(MixedOptions),
    /// Time from a worker's block to the start of the next queued item.
    Block(BlockOptions),
    /// Cost of queueing and running an empty item: one producer, one per CPU, from inside the pool.
    Items(ItemsOptions),
    /// Queue one item and wait for it, beside a bare futex ping-pong.
    Roundtrip(RoundtripOptions),
    /// Items with a timer: cost of arming and of cancelling a million, and how late they come.
    Delayed(DelayedOptions),
    /// Queues that are never used: memory and time to make each.
    Idle(IdleOptions),
    /// Ten items that sleep, at most so many at a time, on one CPU: makespan against the ideal.
    Ten(TenOptions),
    /// Works that burn, sleep and queue themselves again, beside a foreground program.
    PerfWq(PerfWqOptions),
    /// The best pool size of each peer for mixed and perf-wq, and cmwq without a size beside it.
    Sizes(SizesOptions),
    /// Items that wait and compute in turns: cmwq without a size beside the best size of each peer.
    Waits(WaitsOptions),
    /// Pictures fetched, decoded, made smaller, written and synced: the same comparison.
    Pictures(PicturesOptions),
    /// Closures that tokio's tasks await: cmwq-tokio beside tokio's own `spawn_blocking`.
    Tasks,
    /// Items that wait for one event and then compute: how many at once, and how soon half of them
    /// are done.
    Woken(WokenOptions),
    /// Queues until memory or threads run out, within limits that it sets itself; other numbers of
    /// CPUs by computation.
    Queues(QueuesOptions),
    /// Periodic works with power_efficient off and on: whom they wake here, and energy by
    /// simulation.
    Power(PowerOptions),
    /// How an item's cost grows with queues, pending items, producers; with CPUs and contention by
    /// simulation.
    Scaling(ScalingOptions),
    /// Runs every experiment and writes REPORT.md, with plots.
    Report(ReportOptions),
    /// What calling from C costs, beside the same calls from Rust.
    Capi(CapiOptions),
    /// What it costs that a process shows its state, and that it is traced.
    Showing(ShowingOptions),
    /// Blocks that workers encrypt and issuers verify: affinity scopes side by side.
    Crypt(CryptOptions),
    /// Seven of them, `mixed` also with foreign load: all but ten, perf-wq, showing, sizes,
    /// waits, pictures, tasks, woken, queues, power, scaling and crypt; about five minutes on two
    /// CPUs.
    All,
    /// One measurement in this process.
    #[command(hide = true)]
    Child(ChildOptions),
    /// A busy loop on one CPU.
    #[command(hide = true, name = foreign::SPIN)]
    Spin {
        #[arg(long)]
        cpu: u32,
    },
    /// A computation of so many units.
    #[command(hide = true, name = foreground::COMPUTE)]
    Compute {
        #[arg(long)]
        units: u64,
    },
}

/// Options of `mixed`; what is not given has the default that the help text names.
#[derive(Args, Debug, Default)]
pub(crate) struct MixedOptions {
    /// Run one foreign busy loop, in a process of its own, on each CPU during every measurement.
    #[arg(long)]
    pub(crate) foreign: bool,
    /// Items per CPU [default: 200].
    #[arg(long)]
    pub(crate) items_per_cpu: Option<NonZeroUsize>,
    /// CPU time that each item burns, in microseconds [default: 1000].
    #[arg(long)]
    pub(crate) burn_us: Option<u64>,
    /// How long each item then blocks, in microseconds [default: 5000].
    #[arg(long)]
    pub(crate) sleep_us: Option<u64>,
    /// How long each item blocks before it computes, in microseconds: what fetches and then
    /// computes [default: 0].
    #[arg(long)]
    pub(crate) first_us: Option<u64>,
}

/// Options of `block`.
#[derive(Args, Debug, Default)]
pub(crate) struct BlockOptions {
    /// Trials per round [default: 200, with --quick 60].
    #[arg(long)]
    pub(crate) trials: Option<NonZeroUsize>,
    /// How long blocked items wait for the next one to start, in milliseconds
    /// [default: 1000, with --quick 300].
    #[arg(long)]
    pub(crate) give_up_ms: Option<u64>,
}

/// Options of `items`.
#[derive(Args, Debug, Default)]
pub(crate) struct ItemsOptions {
    /// Items per measurement [default: 300000, with --quick 50000].
    #[arg(long)]
    pub(crate) count: Option<NonZeroUsize>,
}

/// Options of `roundtrip`.
#[derive(Args, Debug, Default)]
pub(crate) struct RoundtripOptions {
    /// Round trips per measurement [default: 20000, with --quick 5000].
    #[arg(long)]
    pub(crate) trips: Option<NonZeroUsize>,
}

/// Options of `delayed`.
#[derive(Args, Debug, Default)]
pub(crate) struct DelayedOptions {
    /// Items per measurement [default: 1000000, with --quick 100000].
    #[arg(long)]
    pub(crate) count: Option<NonZeroUsize>,
    /// Time over which the timers that are waited for expire, in milliseconds [default: 2000].
    #[arg(long)]
    pub(crate) window_ms: Option<NonZeroU64>,
}

/// Options of `idle`.
#[derive(Args, Debug, Default)]
pub(crate) struct IdleOptions {
    /// Queues to make [default: 1000000, with --quick 100000].
    #[arg(long)]
    pub(crate) count: Option<NonZeroUsize>,
}

/// Options of `capi`.
#[derive(Args, Debug, Default)]
pub(crate) struct CapiOptions {
    /// Items per measurement [default: 300000, with --quick 50000].
    #[arg(long)]
    pub(crate) count: Option<NonZeroUsize>,
}

/// Options of `showing`.
#[derive(Args, Debug, Default)]
pub(crate) struct ShowingOptions {
    /// Items of each kind per measurement [default: 400000, with --quick 80000].
    #[arg(long)]
    pub(crate) count: Option<NonZeroUsize>,
    /// This program of another build, to be measured in the same rounds.
    #[arg(long, value_name = "PATH")]
    pub(crate) against: Option<PathBuf>,
}

/// Options of the hidden `child`.
#[derive(Args, Debug)]
struct ChildOptions {
    #[arg(long)]
    peer: System,
    #[command(flatten)]
    job: Job,
}

/// Parses the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if this fails too.
            let _ = writeln!(std::io::stderr(), "cmwq-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    let Cli { command, common } = cli;
    if common.list {
        return list(&common.peers);
    }
    match command {
        None => Cli::command()
            .error(ErrorKind::MissingSubcommand, "name a benchmark, `all`, or use --list")
            .exit(),
        Some(Command::Spin { cpu }) => foreign::spin(cpu),
        Some(Command::Compute { units }) => foreground::compute(units),
        Some(Command::Child(options)) => child(&options),
        Some(benchmark) => compare(benchmark, &common),
    }
}

fn child(options: &ChildOptions) -> Result<()> {
    sys::die_with_parent()?;
    let line = peers::measure(options.peer, &options.job)?;
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()?;
    // Not by returning: some pools wait in their destructors, and nothing is measured any more.
    std::process::exit(0)
}

fn compare(benchmark: Command, common: &Common) -> Result<()> {
    let seed = common.seed.unwrap_or_else(seed_from_clock);
    let machine = Machine::describe();
    let mut session = Session {
        systems: chosen(&common.peers),
        runs: common.runs.map(usize::from),
        quick: common.quick,
        limit: Duration::from_secs(common.limit_s.get()),
        cpus: machine.cpus,
        foreground: None,
        external: External::default(),
        other: None,
        rng: Rng::with_seed(seed),
    };
    if let Command::Report(options) = benchmark {
        return write_up::run(&mut session, &options, seed, &common.repeat(seed));
    }
    let sections = sections(&mut session, benchmark)?;
    ensure!(
        sections.iter().any(|section| !section.rows.is_empty()),
        "none of the systems named by --peers takes part in this benchmark"
    );
    let versions = versions::of(&sections, &session.external);
    let report = Report { machine, versions, seed, sections };
    let text =
        if common.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.text() };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn sections(session: &mut Session, benchmark: Command) -> Result<Vec<Section>> {
    Ok(match benchmark {
        Command::Mixed(options) => vec![bench_mixed::run(session, &options)?],
        Command::Block(options) => vec![bench_block::run(session, &options)?],
        Command::Items(options) => vec![bench_items::run(session, &options)?],
        Command::Roundtrip(options) => vec![bench_roundtrip::run(session, &options)?],
        Command::Delayed(options) => vec![bench_delayed::run(session, &options)?],
        Command::Idle(options) => vec![bench_idle::run(session, &options)?],
        Command::Ten(options) => vec![bench_ten::run(session, &options)?],
        Command::PerfWq(options) => bench_perf_wq::run(session, &options)?,
        Command::Sizes(options) => bench_sizes::run(session, &options)?,
        Command::Waits(options) => bench_waits::run(session, &options)?,
        Command::Pictures(options) => vec![bench_pictures::run(session, &options)?],
        Command::Tasks => bench_tasks::run(session)?,
        Command::Woken(options) => vec![bench_woken::run(session, &options)?],
        Command::Capi(options) => vec![bench_capi::run(session, &options)?],
        Command::Showing(options) => vec![bench_showing::run(session, &options)?],
        Command::Power(options) => bench_power::run(session, &options)?,
        Command::Scaling(options) => bench_scaling::run(session, &options)?,
        Command::Queues(options) => bench_queues::run(session, &options)?,
        Command::Crypt(options) => bench_crypt::run(session, &options)?,
        Command::All => all(session)?,
        Command::Child(_) | Command::Spin { .. } | Command::Compute { .. } | Command::Report(_) => {
            Vec::new()
        }
    })
}

fn all(session: &mut Session) -> Result<Vec<Section>> {
    let mut sections = vec![bench_mixed::run(session, &MixedOptions::default())?];
    if !session.quick {
        let foreign = MixedOptions { foreign: true, ..MixedOptions::default() };
        sections.push(bench_mixed::run(session, &foreign)?);
    }
    sections.push(bench_block::run(session, &BlockOptions::default())?);
    sections.push(bench_items::run(session, &ItemsOptions::default())?);
    sections.push(bench_roundtrip::run(session, &RoundtripOptions::default())?);
    sections.push(bench_delayed::run(session, &DelayedOptions::default())?);
    sections.push(bench_idle::run(session, &IdleOptions::default())?);
    sections.push(bench_capi::run(session, &CapiOptions::default())?);
    Ok(sections)
}

/// The systems named, or all of them; in table order, each once.
fn chosen(named: &[System]) -> Vec<System> {
    let is_chosen = |system: &&System| named.is_empty() || named.contains(system);
    System::all().iter().filter(is_chosen).copied().collect()
}

fn list(named: &[System]) -> Result<()> {
    let external = External::default();
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(["system", "used as", "here", "takes part in"]);
    let mut reasons = String::new();
    for system in chosen(named) {
        let part = Bench::value_variants().iter().filter(|&&bench| system.role(bench).is_some());
        let part: Vec<String> = part.map(|&bench| value_name(bench)).collect();
        let absent = external.absent(system);
        let here = if absent.is_none() { "yes" } else { "no" };
        table.add_row([&system.name(), system.how(), here, &part.join(" ")]);
        reasons.extend(absent.map(|reason| format!("{}: {reason}\n", system.name())));
    }
    write!(std::io::stdout(), "{table}\n{reasons}")?;
    Ok(())
}

/// Any number will do, as long as it is printed.
fn seed_from_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn named_systems_come_in_table_order_and_once() {
        let named = [System::Rayon, System::Cmwq, System::Rayon];
        assert_eq!(chosen(&named), [System::Cmwq, System::Rayon]);
        assert_eq!(chosen(&[]), System::all());
    }

    #[test]
    fn options_may_follow_the_benchmark() {
        let cli = Cli::try_parse_from(["bench", "mixed", "--peers", "rayon,go", "--runs", "2"]);
        let common = cli.unwrap().common;
        assert_eq!((common.peers, common.runs), (vec![System::Rayon, System::Go], Some(2)));
        assert!(Cli::try_parse_from(["bench", "mixed", "--runs", "0"]).is_err());
    }

    #[test]
    fn what_repeats_an_experiment_names_every_option_that_was_given() {
        let repeat = |given: &str| {
            let words = ["bench", "report"].into_iter().chain(given.split_whitespace());
            Cli::try_parse_from(words).unwrap().common.repeat(7)
        };
        assert_eq!(repeat(""), "--seed 7");
        let all = "--quick --runs 2 --peers rayon,go --limit-s 90 --seed 7";
        assert_eq!(repeat(all), all);
    }
}
