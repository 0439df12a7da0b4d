//! Alternating rounds: every system once per round, in a new random order each time.
//!
//! A machine drifts (frequency, neighbours, caches); systems that are measured in turn drift
//! together.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fastrand::Rng;
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;

use crate::child::{self, Measured, Watch};
use crate::external::External;
use crate::foreground::{Foreground, Running};
use crate::foreign::Burners;
use crate::job::{Bench, Job};
use crate::stats::Spread;
use crate::sys;
use crate::systems::{Role, System};

/// Everything that the benchmarks of one run share.
#[derive(Debug)]
pub(crate) struct Session {
    /// The systems to measure, in table order.
    pub(crate) systems: Vec<System>,
    /// Overrides every benchmark's own number of rounds.
    pub(crate) runs: Option<usize>,
    /// Fewer rounds, smaller loads.
    pub(crate) quick: bool,
    /// How long one measurement may take.
    pub(crate) limit: Duration,
    /// CPUs that each pool may use.
    pub(crate) cpus: usize,
    /// What runs beside every measurement, if anything, and is timed.
    pub(crate) foreground: Option<Foreground>,
    pub(crate) external: External,
    /// This program as another build has it, for [`System::CmwqOther`].
    pub(crate) other: Option<PathBuf>,
    pub(crate) rng: Rng,
}

/// One row's worth of measurements to make.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) system: System,
    pub(crate) job: Job,
}

/// What became of a [`Cell`].
#[derive(Debug)]
pub(crate) struct Outcome<S> {
    pub(crate) system: System,
    pub(crate) job: Job,
    pub(crate) samples: Vec<Measured<S>>,
    /// Why there are no (more) samples.
    pub(crate) problem: Option<String>,
}

impl<S> Outcome<S> {
    /// A figure of each round, over all of them. `None`: there are no samples.
    pub(crate) fn figure(&self, value: impl Fn(&Measured<S>) -> f64) -> Option<Spread> {
        Spread::of(&self.samples.iter().map(value).collect::<Vec<_>>())
    }

    /// The same measurements, of which only a part is looked at.
    pub(crate) fn map<T>(self, part: impl Fn(S) -> T) -> Outcome<T> {
        let Self { system, job, samples, problem } = self;
        let map = |one: Measured<S>| Measured {
            sample: part(one.sample),
            peak_threads: one.peak_threads,
            foreground_ns: one.foreground_ns,
        };
        Outcome { system, job, samples: samples.into_iter().map(map).collect(), problem }
    }
}

/// A figure of each round of the first of these that is the system's of that name, in the order of
/// the rounds, without those that have none: empty where no round does.
pub(crate) fn each_round<'a, S: 'a, V: Into<Option<f64>>>(
    outcomes: impl IntoIterator<Item = &'a Outcome<S>>,
    name: &str,
    value: impl Fn(&Measured<S>) -> V,
) -> Vec<f64> {
    let of = outcomes.into_iter().find(|outcome| outcome.system.name() == name);
    let values = |outcome: &Outcome<S>| -> Vec<f64> {
        outcome.samples.iter().filter_map(|one| value(one).into()).collect()
    };
    of.map_or_else(Vec::new, values)
}

/// How a benchmark's rounds are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds {
    pub(crate) runs: usize,
    /// How often a child's threads are counted, if they are.
    pub(crate) count_threads: Option<Duration>,
    /// Whether foreign busy loops run beside every measurement.
    pub(crate) foreign: bool,
}

/// Rounds of a quick run.
const QUICK_RUNS: usize = 2;

impl Session {
    /// The number of rounds of a benchmark whose own default is `default`.
    pub(crate) fn rounds(&self, default: usize) -> Rounds {
        let runs = self.runs.unwrap_or(if self.quick { QUICK_RUNS } else { default });
        Rounds { runs, count_threads: None, foreign: false }
    }

    /// The size of a load: as given, or the default for this kind of run.
    pub(crate) fn size(&self, given: Option<NonZeroUsize>, default: usize, quick: usize) -> usize {
        given.map_or(if self.quick { quick } else { default }, NonZeroUsize::get)
    }

    /// The chosen systems that take part in a benchmark, with their roles.
    pub(crate) fn entrants(&self, bench: Bench) -> Vec<(System, Role)> {
        let role = |&system: &System| Some((system, system.role(bench)?));
        self.systems.iter().filter_map(role).collect()
    }

    /// Measures every cell `rounds.runs` times. A system that fails once is not tried again.
    pub(crate) fn alternate<S: DeserializeOwned>(
        &mut self,
        label: &str,
        cells: Vec<Cell>,
        rounds: Rounds,
    ) -> Result<Vec<Outcome<S>>> {
        let progress = progress_bar(cells.len() * rounds.runs);
        let mut outcomes: Vec<Outcome<S>> = cells
            .into_iter()
            .map(|Cell { system, job }| {
                let problem = self.external.absent(system);
                Outcome { system, job, samples: Vec::new(), problem }
            })
            .collect();
        let mut order: Vec<usize> = (0..outcomes.len()).collect();
        for round in 1..=rounds.runs {
            self.rng.shuffle(&mut order);
            for &index in &order {
                let outcome = &mut outcomes[index];
                progress.set_message(format!(
                    "{label} {round}/{}: {}",
                    rounds.runs,
                    outcome.system.name()
                ));
                if outcome.problem.is_none() {
                    self.once(outcome, rounds)?;
                }
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        Ok(outcomes)
    }

    fn once<S: DeserializeOwned>(
        &mut self,
        outcome: &mut Outcome<S>,
        rounds: Rounds,
    ) -> Result<()> {
        let random = self.rng.u64(..);
        let seed = if outcome.job.seed == 0 { random } else { outcome.job.seed };
        let job = Job { seed, ..outcome.job.clone() };
        let mut command = self.command(outcome.system, &job)?;
        let watch = Watch { limit: self.limit, count_threads: rounds.count_threads };
        let _burners = rounds.foreign.then(Burners::start).transpose()?;
        let foreground = self.foreground.as_ref().map(Foreground::start).transpose()?;
        let measured = thread::scope(|scope| {
            // It may end before the measured child or after it.
            let timed = foreground.map(|running| scope.spawn(|| Running::wait(running)));
            let measured = child::run(&mut command, watch);
            let took = timed.map(|timed| timed.join().expect("waiting does not panic"));
            (measured, took.transpose())
        });
        let (measured, foreground) = measured;
        let foreground_ns = foreground?.map_or(0.0, |took| sys::duration_ns(took) as f64);
        match measured {
            Ok(measured) => outcome.samples.push(Measured { foreground_ns, ..measured }),
            Err(error) => outcome.problem = Some(format!("failed: {error:#}")),
        }
        Ok(())
    }

    fn command(&self, system: System, job: &Job) -> Result<Command> {
        let mut command = match self.external.program(system) {
            Some(program) => Command::new(program),
            None => {
                let other = self.other.as_ref().filter(|_| system == System::CmwqOther);
                let this = std::env::current_exe().context("finding this program's own file")?;
                let mut command = Command::new(other.unwrap_or(&this));
                command.arg("child");
                command
            }
        };
        for name in child::CLEARED {
            command.env_remove(name);
        }
        if let Some(name) = system.size_variable().filter(|_| job.size > 0) {
            command.env(name, job.size.to_string());
        }
        command.args(["--peer", &system.name()]).args(job.to_args());
        let beside_others =
            |params: &str| format!("{} {params}", std::env::var("CMWQ_PARAMS").unwrap_or_default());
        let own = job.params().map(str::to_owned);
        if let Some(params) = own.or_else(|| system.params().map(beside_others)) {
            command.env("CMWQ_PARAMS", params);
        }
        if let Some(detect) = system.detect() {
            command.env("CMWQ_DETECT", detect);
        }
        Ok(command)
    }
}

/// On a terminal only; it draws between measurements, never during one.
fn progress_bar(length: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("[{bar:30}] {pos}/{len} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length as u64).with_style(style)
}
