//! Measuring every source, each in a process of its own: a process has one source for its whole
//! life.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};

use cmwq_observe::doctor::Source;
use indicatif::ProgressBar;

use super::trials::Measurement;

/// What came of measuring a source: how fast it is, or why that is not known.
pub(super) type Measured = Result<Measurement, String>;

/// Measures the sources that work, `trials` times each, and says on a terminal what it is doing.
/// `None`: nothing is to be measured.
pub(super) fn measure(sources: &[Source], trials: Option<u32>) -> Vec<Measured> {
    let progress = ProgressBar::new_spinner();
    let measure = |source: &Source| {
        if !source.availability.is_usable() {
            return Err("it does not work here".to_owned());
        }
        let trials = trials.ok_or("not asked for")?;
        progress.set_message(format!("measuring {}", source.detect));
        progress.tick();
        measure_one(source, trials)
    };
    let measured = sources.iter().map(measure).collect();
    progress.finish_and_clear();
    measured
}

fn measure_one(source: &Source, trials: u32) -> Measured {
    let mut child = Command::new("/proc/self/exe");
    child.arg0("cmwq").args(["doctor", "--measure-child", "--trials", &trials.to_string()]);
    child.env("CMWQ_DETECT", source.detect.name()).env("CMWQ_QUIET", "1").stdin(Stdio::null());
    let output = child
        .output()
        .map_err(|error| format!("this program cannot start itself (/proc/self/exe): {error}"))?;
    let measurement = read(&output)?;
    // The library goes on with another source when it does not know the one asked for.
    if measurement.source != source.detect.name() {
        return Err(format!("the measuring process used '{}' instead", measurement.source));
    }
    Ok(measurement)
}

fn read(output: &Output) -> Measured {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().strip_prefix("cmwq: ").unwrap_or(said.trim());
        return Err(format!("the measuring process failed ({}): {said}", output.status));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the measuring process did not say how it went: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    fn output(status: i32, stdout: &str, stderr: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(status),
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let failed = read(&output(3 << 8, "", "cmwq: no thread\n")).unwrap_err();
        assert!(failed.ends_with("(exit status: 3): no thread"), "{failed}");
        let killed = read(&output(9, "", "")).unwrap_err();
        assert!(killed.contains("signal: 9"), "{killed}");
        assert!(read(&output(0, "", "")).is_err());
        assert!(read(&output(0, "{}", "")).is_err());
    }
}
