//! `cmwq sim --scale`: how cost grows with CPUs, queues and items.

mod rungs;
mod table;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cmwq_sim::config::Checks;
use cmwq_sim::studies::scale::{self, Size};
use cmwq_sim::{Config, Outcome, Progress, Shape, simulate, simulate_watched};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::Args;
use crate::exit;
use crate::output::{self, print};
use rungs::Rung;

/// What came of a rung.
#[derive(Debug, Serialize)]
struct Row {
    grown: &'static str,
    topology: String,
    cpus: u32,
    queues: usize,
    items: usize,
    /// Queueings.
    queued: u64,
    events: u64,
    pools: u64,
    pwqs: u64,
    workers_made: u64,
    virtual_ms: f64,
    wall_s: f64,
    /// CPU time of this process: what the run costs where others use the machine, too.
    cpu_s: f64,
    ns_per_item: f64,
    bytes_per_cpu: u64,
    bytes_per_queue: u64,
    bytes_per_item: u64,
    /// Of this process.
    peak_rss_bytes: Option<u64>,
    digest: String,
    complaint: Option<String>,
}

/// What one more CPU takes, near the largest machine.
#[derive(Debug, Serialize)]
struct PerCpu {
    used_queues: usize,
    bytes: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    seed: u64,
    rungs: &'a [Row],
    bytes_per_additional_cpu: &'a [PerCpu],
}

/// Climbs the ladder, or stands on the one rung that was asked for.
pub(super) fn run(args: &Args) -> ExitCode {
    let rows = match climb_all(args) {
        Ok(rows) => rows,
        Err(code) => return code,
    };
    let per_cpu: Vec<_> = [0, 1, 4, 16].map(per_cpu).into();
    let seed = seed(args);
    let document = Document { seed, rungs: &rows, bytes_per_additional_cpu: &per_cpu };
    let text = if args.json { json(&document) } else { table::tail(&document) };
    let printed = print(&text);
    if rows.iter().all(|row| row.complaint.is_none()) {
        return printed;
    }
    ExitCode::from(exit::FAILED)
}

/// As text each line comes when its run is done: the last ones take minutes.
///
/// # Errors
/// The exit code, as soon as nothing can be printed any more.
fn climb_all(args: &Args) -> Result<Vec<Row>, ExitCode> {
    let show = io::stderr().is_terminal();
    let say = |text: String| if args.json { Ok(()) } else { output::write(&text) };
    say(table::head())?;
    let climb = |rung: &Rung| {
        let row = climb(seed(args), rung, args, show);
        say(table::line(&row)).map(|()| row)
    };
    rungs::list(args).iter().map(climb).collect()
}

fn seed(args: &Args) -> u64 {
    args.seed.unwrap_or(1)
}

fn json(document: &Document<'_>) -> String {
    serde_json::to_string(document).expect("numbers and strings are valid JSON") + "\n"
}

fn climb(seed: u64, rung: &Rung, args: &Args, show: bool) -> Row {
    forget_peak_rss();
    let Size { shape, queues, items } = rung.size;
    let plan = scale::plan(seed, rung.size, args.scope);
    let config = scale::config(seed, rung.size);
    let bar = bar(rung, plan.calls.len() as u64, show);
    let (started, used) = (Instant::now(), cpu_time());
    let outcome = simulate_watched(&plan, &config, &mut |progress| advance(&bar, progress));
    let (wall, cpu) = (started.elapsed(), cpu_time() - used);
    bar.finish_and_clear();
    let Outcome { stats, memory, .. } = outcome;
    Row {
        grown: rung.grown,
        topology: shape.to_string(),
        cpus: shape.cpus(),
        queues,
        items,
        queued: stats.queued,
        events: stats.events,
        pools: stats.pools,
        pwqs: memory.nr_pwqs,
        workers_made: stats.workers,
        virtual_ms: outcome.last_item as f64 / 1e6,
        wall_s: wall.as_secs_f64(),
        cpu_s: cpu.as_secs_f64(),
        ns_per_item: cpu.as_nanos() as f64 / stats.queued.max(1) as f64,
        bytes_per_cpu: memory.structures() / u64::from(shape.cpus()),
        bytes_per_queue: memory.pwqs / queues.max(1) as u64,
        bytes_per_item: memory.items / items.max(1) as u64,
        peak_rss_bytes: peak_rss(),
        digest: format!("{:016x}", outcome.digest.value()),
        complaint: outcome.violation.map(|violation| violation.to_string()),
    }
}

fn bar(rung: &Rung, len: u64, show: bool) -> ProgressBar {
    let target = if show { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(len), target);
    let style = "[{elapsed}] {prefix} {wide_bar} {percent}% {msg}";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    let Size { shape, queues, items } = rung.size;
    bar.set_prefix(format!("{} CPUs, {queues} queues, {items} items", shape.cpus()));
    bar
}

fn advance(bar: &ProgressBar, progress: Progress) {
    bar.set_position(progress.nr_called);
    bar.set_message(format!("({} waiting or running)", progress.outstanding));
}

/// What a CPU adds when each of so many per-CPU queues is used on it: the difference between two
/// machines, so that what there is once does not count.
fn per_cpu(used_queues: usize) -> PerCpu {
    let structures = |cpus| {
        let shape = Shape::large(cpus);
        let plan = scale::touch_everything(shape, used_queues);
        let config = Config { shape, checks: Checks::None, ..Config::exact(1) };
        simulate(&plan, &config).memory.structures()
    };
    let (half, whole) = (2_048, 4_096);
    let bytes = (structures(whole) - structures(half)) / u64::from(whole - half);
    PerCpu { used_queues, bytes }
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).expect("CPU time is not negative")
}

/// The kernel forgets the highest memory use of this process so far. Where it may not, the figures
/// of later rungs are those of the largest one so far.
fn forget_peak_rss() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn peak_rss() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
