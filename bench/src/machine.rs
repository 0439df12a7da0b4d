//! What every table has to say about where it was measured.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::commit::NOT_RECORDED;
use crate::{commit, sys};

/// The machine, the moment and the command line.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) model: String,
    pub(crate) kernel: String,
    /// The load average of the last minute before the run: what else wanted the CPUs.
    pub(crate) load: String,
    pub(crate) date: String,
    /// Of the tree that this program was built in.
    pub(crate) commit: Option<String>,
    pub(crate) command: String,
    /// `CMWQ_*` variables that the measured children inherited.
    pub(crate) environment: Vec<String>,
}

impl Machine {
    /// Describes this process' machine; what cannot be read is "unknown", since no measurement
    /// depends on it.
    pub(crate) fn describe() -> Self {
        let name = rustix::system::uname();
        let mut arguments = std::env::args();
        let program = arguments.next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        Self {
            cpus: sys::cpu_count(),
            model: model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            kernel: name.release().to_string_lossy().into_owned(),
            load: load(&fs::read_to_string("/proc/loadavg").unwrap_or_default()),
            date: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
            commit: commit::of_this_tree(),
            command: shell_words::join(std::iter::once(program).chain(arguments)),
            environment: std::env::vars()
                .filter(|(name, _)| name.starts_with("CMWQ_"))
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        }
    }

    /// Where and when, in one line.
    pub(crate) fn place(&self) -> String {
        let Self { cpus, model, kernel, load, date, .. } = self;
        let commit = self.commit.as_deref().unwrap_or(NOT_RECORDED);
        let environment: String = self.environment.iter().map(|set| format!(", {set}")).collect();
        let plural = if *cpus == 1 { "CPU" } else { "CPUs" };
        format!(
            "{cpus} {plural} ({model}), Linux {kernel}, load before {load}, {date}, \
             commit {commit}{environment}"
        )
    }

    /// One line for the top of the output.
    pub(crate) fn line(&self) -> String {
        let place = Self { environment: Vec::new(), ..self.clone() }.place();
        let environment: String = self.environment.iter().map(|set| format!("{set} ")).collect();
        format!("{place}\n{environment}{}", self.command)
    }
}

/// What other programs have of the machine while something is measured.
#[derive(Debug)]
pub(crate) struct Others {
    since: Instant,
    /// CPU time that all programs had, and that the hypervisor kept, until then.
    busy_ns: u64,
    stolen_ns: u64,
    ours_ns: u64,
}

/// From which share on a measurement counts as disturbed.
const DISTURBED: f64 = 0.03;

impl Others {
    pub(crate) fn watch() -> Result<Self> {
        let (busy_ns, stolen_ns) = all_cpus()?;
        Ok(Self { since: Instant::now(), busy_ns, stolen_ns, ours_ns: ours_ns()? })
    }

    pub(crate) fn meanwhile(&self) -> Result<Meanwhile> {
        let (busy_ns, stolen_ns) = all_cpus()?;
        let whole_ns = sys::duration_ns(self.since.elapsed()).max(1) as f64
            * std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let ours_ns = ours_ns()?.saturating_sub(self.ours_ns);
        let others_ns = (busy_ns.saturating_sub(self.busy_ns)).saturating_sub(ours_ns);
        let stolen_ns = stolen_ns.saturating_sub(self.stolen_ns);
        let (others, stolen) = (others_ns as f64 / whole_ns, stolen_ns as f64 / whole_ns);
        Ok(Meanwhile { others, stolen })
    }
}

/// What they had, as parts of all CPU time.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Meanwhile {
    pub(crate) others: f64,
    /// What the hypervisor kept.
    pub(crate) stolen: f64,
}

impl Meanwhile {
    /// What is to be said of it.
    pub(crate) fn sentence(self) -> String {
        let Self { others, stolen } = self;
        let is_disturbed = others + stolen > DISTURBED;
        let verdict = if is_disturbed { " **Disturbed: read as shape.**" } else { "" };
        let (others, stolen) = (self.share(), stolen * 100.0);
        format!(
            "Other programs had {others} of the CPU time meanwhile, the hypervisor kept \
             {stolen:.1} %.{verdict}"
        )
    }

    /// Of other programs, for a table.
    pub(crate) fn share(self) -> String {
        format!("{:.1} %", self.others * 100.0)
    }
}

/// This process and the children that it has waited for.
fn ours_ns() -> Result<u64> {
    Ok(sys::own_usage()?.cpu_ns + sys::children_usage()?.cpu_ns)
}

/// CPU time since boot in which some program ran, and that the hypervisor kept from this machine.
fn all_cpus() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let (busy, stolen) = ticks(&text).context("no line of all CPUs in /proc/stat")?;
    Ok((busy * tick_ns, stolen * tick_ns))
}

/// user, nice, system, idle, iowait, irq, softirq, steal.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some((user + nice + system + irq + softirq, steal))
}

fn load(loadavg: &str) -> String {
    loadavg.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// The CPU's name as `/proc/cpuinfo` spells it on the common architectures.
fn model(cpuinfo: &str) -> String {
    let value = |key: &str| {
        cpuinfo.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    ["model name", "cpu model", "cpu", "Processor", "CPU part"]
        .into_iter()
        .find_map(value)
        .unwrap_or_else(|| "unknown model".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_all_cpus() {
        let stat = "cpu  10 1 5 1000 7 2 3 4 0 0\ncpu0 5 1 5 500 7 2 3 4 0 0\n";
        assert_eq!(ticks(stat), Some((21, 4)));
        assert_eq!(ticks("cpu  1 2 3\n"), None);
    }

    #[test]
    fn a_disturbed_run_says_so() {
        let sentence = |others, stolen| Meanwhile { others, stolen }.sentence();
        assert!(sentence(0.4, 0.0).contains("40.0 % of the CPU time"));
        assert!(sentence(0.4, 0.0).contains("Disturbed"));
        assert!(!sentence(0.01, 0.01).contains("Disturbed"));
    }

    #[test]
    fn the_load_is_that_of_the_last_minute() {
        assert_eq!(load("4.92 2.41 1.00 3/200 12345\n"), "4.92");
        assert_eq!(load(""), "unknown");
    }

    #[test]
    fn the_model_is_found_on_several_architectures() {
        assert_eq!(model("processor\t: 0\nmodel\t\t: 17\nmodel name\t: Some CPU\n"), "Some CPU");
        assert_eq!(model("processor\t: 0\ncpu\t\t: POWER9\n"), "POWER9");
        assert_eq!(model("processor\t: 0\nCPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(model(""), "unknown model");
    }
}
