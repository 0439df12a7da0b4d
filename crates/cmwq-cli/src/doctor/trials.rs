//! The measurement: how long after an item has blocked the next one of the same CPU starts.
//!
//! An item of a per-CPU queue queues a second one behind itself, computes, takes the time and
//! blocks; the second takes the time when it starts. While the first computes, the second has to
//! wait, so that the difference is the reaction to the block and nothing else. Only what any
//! program can call is used.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use cmwq::{Detect, JoinHandle, Workqueue};
use serde::{Deserialize, Serialize};

/// How long the first item computes.
const BURN: Duration = Duration::from_millis(1);

/// How long it blocks: ten times what any source should need.
const BLOCK: Duration = Duration::from_millis(5);

/// Trials on each CPU that do not count: they create workers and wake up what slept.
const WARM_UP: u32 = 5;

/// So many CPUs are measured, one after the other.
const MAX_CPUS: usize = 4;

/// How long an item may take before the measurement is given up: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a measuring process tells the one that started it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Measurement {
    /// The source that was in use.
    pub(super) source: String,
    /// How fast it is.
    pub(super) latency: Latency,
    /// What the library said meanwhile.
    pub(super) notices: Vec<String>,
}

/// How fast a source notices that an item has blocked.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Latency {
    /// How often it was measured.
    pub(super) trials: u32,
    /// On which CPUs.
    pub(super) cpus: Vec<u32>,
    /// Half of the next items had started so many microseconds after the block.
    pub(super) p50_us: f64,
    /// 99 of 100 had.
    pub(super) p99_us: f64,
    /// All had.
    pub(super) max_us: f64,
    /// Trials in which the next item started only when the block was over.
    pub(super) late: u32,
    /// Trials in which the next item started before the first blocked, which count as no time at
    /// all.
    pub(super) early: u32,
}

/// Measures the source in use, `count` times.
///
/// # Errors
/// In words, if the library cannot be used.
pub(super) fn run(count: u32) -> Result<Measurement, String> {
    let diagnosis = cmwq_observe::diagnose().map_err(|error| error.to_string())?;
    let queue = Workqueue::builder("doctor").percpu().build().map_err(|error| error.to_string())?;
    let trial = Trial { queue: &queue, is_inline: diagnosis.detect == Detect::Inline };
    let allowed: Vec<u32> = diagnosis.machine.allowed.iter().collect();
    let cpus = spread(&allowed, MAX_CPUS.min(count as usize));
    let mut latencies = Vec::new();
    for (index, cpu) in cpus.iter().enumerate() {
        for number in 0..WARM_UP {
            trial.run(*cpu, number)?;
        }
        for number in share(count, cpus.len(), index) {
            latencies.push(trial.run(*cpu, number)?);
        }
    }
    let source = diagnosis.detect.to_string();
    Ok(Measurement { source, latency: summary(cpus, &latencies), notices: cmwq::notices() })
}

struct Trial<'a> {
    queue: &'a Workqueue,
    is_inline: bool,
}

impl Trial<'_> {
    /// The reaction time; `None` if the second item did not wait for the first to block.
    fn run(&self, cpu: u32, number: u32) -> Result<Option<Duration>, String> {
        let queue = self.queue.clone();
        let is_inline = self.is_inline;
        let first = self.queue.queue_on(cpu, move || {
            let second = queue.queue_on(cpu, Instant::now);
            compute(BURN + phase(number));
            let blocked = Instant::now();
            block(is_inline);
            (blocked, second)
        });
        let (blocked, second) = wait(first)?;
        Ok(wait(second)?.checked_duration_since(blocked))
    }
}

fn block(is_inline: bool) {
    if is_inline { cmwq::blocking(|| thread::sleep(BLOCK)) } else { thread::sleep(BLOCK) }
}

fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

/// Up to a millisecond, different each time and evenly spread, so that no tick is always met in the
/// same phase.
fn phase(number: u32) -> Duration {
    // Steps of the golden section.
    Duration::from_micros(u64::from(number) * 618 % 1000)
}

fn wait<T>(item: JoinHandle<T>) -> Result<T, String> {
    match item.join_timeout(PATIENCE) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("an item did not finish within {} s", PATIENCE.as_secs())),
    }
}

/// At most `count` of the CPUs, from all over the machine; the last is among them.
fn spread(cpus: &[u32], count: usize) -> Vec<u32> {
    let count = count.clamp(1, cpus.len());
    (1..=count).map(|number| cpus[cpus.len() * number / count - 1]).collect()
}

/// The numbers of those of `count` trials that are made on the CPU at `index` of `nr_cpus`.
fn share(count: u32, nr_cpus: usize, index: usize) -> impl Iterator<Item = u32> {
    (0..count).filter(move |number| *number as usize % nr_cpus == index)
}

fn summary(cpus: Vec<u32>, latencies: &[Option<Duration>]) -> Latency {
    let mut sorted: Vec<Duration> = latencies.iter().map(|it| it.unwrap_or_default()).collect();
    sorted.sort_unstable();
    Latency {
        trials: latencies.len() as u32,
        cpus,
        p50_us: percentile_us(&sorted, 50),
        p99_us: percentile_us(&sorted, 99),
        max_us: percentile_us(&sorted, 100),
        late: sorted.iter().filter(|latency| **latency >= BLOCK).count() as u32,
        early: latencies.iter().filter(|latency| latency.is_none()).count() as u32,
    }
}

/// The smallest of the `sorted` values that is not exceeded by `percent` of them.
fn percentile_us(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    let value = sorted.get(rank - 1).copied().unwrap_or_default();
    value.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Option<Duration> {
        Some(Duration::from_micros(us))
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let latencies: Vec<_> = (1..=200).rev().map(us).collect();
        let latency = summary(vec![1], &latencies);
        assert_eq!((latency.p50_us, latency.p99_us, latency.max_us), (100.0, 198.0, 200.0));
        assert_eq!((latency.trials, latency.late, latency.early), (200, 0, 0));
        let latency = summary(vec![1], &[us(7)]);
        assert_eq!((latency.p50_us, latency.p99_us, latency.max_us), (7.0, 7.0, 7.0));
    }

    #[test]
    fn early_and_late_trials_are_told() {
        let latency = summary(vec![1], &[None, us(4999), us(5000), us(5100)]);
        assert_eq!((latency.early, latency.late), (1, 2));
        assert_eq!((latency.p50_us, latency.max_us), (4999.0, 5100.0));
    }

    #[test]
    fn cpus_are_spread_over_the_machine() {
        assert_eq!(spread(&[3], 4), [3]);
        assert_eq!(spread(&[0, 1], 4), [0, 1]);
        assert_eq!(spread(&[0, 1], 1), [1]);
        let all: Vec<u32> = (0..128).collect();
        assert_eq!(spread(&all, 4), [31, 63, 95, 127]);
    }

    #[test]
    fn every_trial_is_made_once() {
        for (count, nr_cpus) in [(200, 4), (3, 3), (7, 2), (1, 1)] {
            let mut all: Vec<u32> =
                (0..nr_cpus).flat_map(|index| share(count, nr_cpus, index)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn phases_differ_and_stay_below_a_millisecond() {
        let mut phases: Vec<_> = (0..200).map(phase).collect();
        assert!(phases.iter().all(|phase| *phase < Duration::from_millis(1)));
        phases.sort_unstable();
        phases.dedup();
        assert_eq!(phases.len(), 200);
    }

    /// The source in use, whichever it is, on the real machine.
    #[test]
    fn the_next_item_waits_for_the_block() {
        let latency = run(8).unwrap().latency;
        assert_eq!(latency.trials, 8);
        assert!(latency.early < 8, "{latency:?}");
        assert!(latency.p50_us <= latency.p99_us && latency.p99_us <= latency.max_us);
    }
}
