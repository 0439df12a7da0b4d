//! What every table has to say about where it was measured.

use std::fs;

use serde::Serialize;

use crate::sys;

/// The machine, the moment and the command line.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) model: String,
    pub(crate) kernel: String,
    /// The load average of the last minute before the run: what else wanted the CPUs.
    pub(crate) load: String,
    pub(crate) date: String,
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
            command: shell_words::join(std::iter::once(program).chain(arguments)),
            environment: std::env::vars()
                .filter(|(name, _)| name.starts_with("CMWQ_"))
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        }
    }

    /// One line for the top of the output.
    pub(crate) fn line(&self) -> String {
        let Self { cpus, model, kernel, load, date, command, environment } = self;
        let plural = if *cpus == 1 { "CPU" } else { "CPUs" };
        let environment: String = environment.iter().map(|set| format!("{set} ")).collect();
        format!(
            "{cpus} {plural} ({model}), Linux {kernel}, load before {load}, {date}\n\
             {environment}{command}"
        )
    }
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
