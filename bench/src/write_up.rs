//! `report`: every experiment in turn, and one document about all of them.
//!
//! What an experiment found is kept in a file of its own below `report/`, so that a run that was
//! interrupted can go on (`--resume`), and the document is written anew after each one.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use fastrand::Rng;

use crate::cli::{
    BlockOptions, CapiOptions, DelayedOptions, IdleOptions, ItemsOptions, MixedOptions,
    RoundtripOptions, ShowingOptions,
};
use crate::document::{self, Kept};
use crate::machine::{Machine, Others};
use crate::report::Section;
use crate::rounds::Session;
use crate::{
    bench_block, bench_capi, bench_crypt, bench_delayed, bench_idle, bench_items, bench_mixed,
    bench_perf_wq, bench_pictures, bench_power, bench_queues, bench_roundtrip, bench_scaling,
    bench_showing, bench_sizes, bench_tasks, bench_ten, bench_waits, bench_woken, plot, versions,
};

/// Options of `report`.
#[derive(Args, Debug)]
pub(crate) struct ReportOptions {
    /// Folder of REPORT.md and of report/ with its plots.
    #[arg(long, default_value = "bench")]
    pub(crate) out: PathBuf,
    /// Keep what is there of an earlier run, measure only what is missing.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Measure nothing: write the document anew from what is kept.
    #[arg(long, conflicts_with_all = ["resume", "only"])]
    pub(crate) rewrite: bool,
    /// Only these experiments, separated by commas; those of earlier runs stay in the document.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// An experiment: its name, how to run it alone, and what runs it.
struct Experiment {
    name: &'static str,
    arguments: &'static str,
    run: fn(&mut Session) -> Result<Vec<Section>>,
}

const EXPERIMENTS: [Experiment; 20] = [
    Experiment {
        name: "mixed",
        arguments: "mixed",
        run: |session| Ok(vec![bench_mixed::run(session, &MixedOptions::default())?]),
    },
    Experiment {
        name: "mixed-foreign",
        arguments: "mixed --foreign",
        run: |session| {
            let options = MixedOptions { foreign: true, ..MixedOptions::default() };
            Ok(vec![bench_mixed::run(session, &options)?])
        },
    },
    Experiment {
        name: "block",
        arguments: "block",
        run: |session| Ok(vec![bench_block::run(session, &BlockOptions::default())?]),
    },
    Experiment {
        name: "items",
        arguments: "items",
        run: |session| Ok(vec![bench_items::run(session, &ItemsOptions::default())?]),
    },
    Experiment {
        name: "roundtrip",
        arguments: "roundtrip",
        run: |session| Ok(vec![bench_roundtrip::run(session, &RoundtripOptions::default())?]),
    },
    Experiment {
        name: "delayed",
        arguments: "delayed",
        run: |session| Ok(vec![bench_delayed::run(session, &DelayedOptions::default())?]),
    },
    Experiment {
        name: "idle",
        arguments: "idle",
        run: |session| Ok(vec![bench_idle::run(session, &IdleOptions::default())?]),
    },
    Experiment {
        name: "capi",
        arguments: "capi",
        run: |session| Ok(vec![bench_capi::run(session, &CapiOptions::default())?]),
    },
    Experiment {
        name: "showing",
        arguments: "showing",
        run: |session| Ok(vec![bench_showing::run(session, &ShowingOptions::default())?]),
    },
    Experiment {
        name: "ten",
        arguments: "ten",
        run: |session| Ok(vec![bench_ten::run(session, &bench_ten::TenOptions::default())?]),
    },
    Experiment {
        name: "perf-wq",
        arguments: "perf-wq",
        run: |session| bench_perf_wq::run(session, &bench_perf_wq::PerfWqOptions::default()),
    },
    Experiment {
        name: "crypt",
        arguments: "crypt",
        run: |session| bench_crypt::run(session, &bench_crypt::CryptOptions::default()),
    },
    Experiment {
        name: "sizes",
        arguments: "sizes",
        run: |session| bench_sizes::run(session, &bench_sizes::SizesOptions::default()),
    },
    Experiment {
        name: "waits",
        arguments: "waits",
        run: |session| bench_waits::run(session, &bench_waits::WaitsOptions::default()),
    },
    Experiment {
        name: "pictures",
        arguments: "pictures",
        run: |session| {
            let options = bench_pictures::PicturesOptions::default();
            Ok(vec![bench_pictures::run(session, &options)?])
        },
    },
    Experiment { name: "tasks", arguments: "tasks", run: bench_tasks::run },
    Experiment {
        name: "woken",
        arguments: "woken",
        run: |session| Ok(vec![bench_woken::run(session, &bench_woken::WokenOptions::default())?]),
    },
    Experiment {
        name: "queues",
        arguments: "queues",
        run: |session| bench_queues::run(session, &bench_queues::QueuesOptions::default()),
    },
    Experiment {
        name: "power",
        arguments: "power",
        run: |session| bench_power::run(session, &bench_power::PowerOptions::default()),
    },
    Experiment {
        name: "scaling",
        arguments: "scaling",
        run: |session| bench_scaling::run(session, &bench_scaling::ScalingOptions::default()),
    },
];

/// Runs the experiments and writes the document.
/// `repeat` are the options that repeat one of them.
pub(crate) fn run(
    session: &mut Session,
    options: &ReportOptions,
    seed: u64,
    repeat: &str,
) -> Result<()> {
    let folder = options.out.join("report");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let names = EXPERIMENTS.map(|experiment| experiment.name);
    if options.rewrite {
        return document::write(&options.out, &folder, &names);
    }
    let known = |name: &String| names.contains(&name.as_str());
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        anyhow::bail!("no experiment `{unknown}`; there are {}", names.join(", "));
    }
    let start = Instant::now();
    for (place, experiment) in EXPERIMENTS.iter().enumerate() {
        let file = Kept::file(&folder, experiment.name);
        let is_wanted =
            options.only.is_empty() || options.only.iter().any(|name| name == experiment.name);
        if !is_wanted || (options.resume && file.exists()) {
            continue;
        }
        let (turn, of, seconds) = (place + 1, EXPERIMENTS.len(), start.elapsed().as_secs());
        // Only a sign of life.
        let _ = writeln!(
            std::io::stderr(),
            "report: {} ({turn} of {of}), {seconds} s so far",
            experiment.name
        );
        // As if it had been started alone.
        session.rng = Rng::with_seed(seed);
        let kept = measure(session, experiment, repeat, &folder)?;
        let text = serde_json::to_string_pretty(&kept)? + "\n";
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        document::write(&options.out, &folder, &names)?;
    }
    document::write(&options.out, &folder, &names)
}

fn measure(
    session: &mut Session,
    experiment: &Experiment,
    repeat: &str,
    folder: &Path,
) -> Result<Kept> {
    let before = Machine::describe();
    let others = Others::watch()?;
    let sections = (experiment.run)(session)?;
    let meanwhile = others.meanwhile()?;
    let mut parts = Vec::new();
    for section in sections.iter().filter(|section| !section.rows.is_empty()) {
        let plots = plot::draw(section, folder)?;
        let mut part = section.markdown();
        for plot in plots {
            // Writing to a String cannot fail.
            let _ = write!(part, "\n![{}](report/{plot})\n", section.name);
        }
        parts.push(part);
    }
    let command = format!("cmwq-bench {} {repeat}", experiment.arguments);
    let machine = Machine { command, ..before };
    let versions = versions::of(&sections, &session.external);
    Ok(Kept { machine, meanwhile, versions, sections: parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_names_of_their_own() {
        let mut names: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EXPERIMENTS.len());
    }
}
