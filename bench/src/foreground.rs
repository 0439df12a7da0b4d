//! The foreground program: computes on all CPUs, knows nothing of what is measured, and is timed.
//!
//! A video encoder where there is one (`ffmpeg`: MJPEG in, MPEG-4 out, one process and one thread
//! for each CPU), otherwise a small computation of this program's own. How much it has to do is
//! found out once, in CPU time, so that it takes about as long as asked for on a free CPU.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;

use crate::external::build_folder;
use crate::sys;

/// The hidden subcommand that computes.
pub(crate) const COMPUTE: &str = "compute";

/// Which program.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Kind {
    /// ffmpeg if it is there, otherwise built in.
    #[default]
    Auto,
    Ffmpeg,
    Builtin,
}

/// A foreground program with something to do.
#[derive(Clone, Debug)]
pub(crate) struct Foreground {
    program: Program,
    /// Passes over the clip, or units of the computation.
    amount: u64,
    /// Processes.
    processes: usize,
}

#[derive(Clone, Debug)]
enum Program {
    Ffmpeg(PathBuf),
    Builtin,
}

/// What a pass over the clip, or a unit, takes is measured with so many of them.
const TRIAL: u64 = 4;

impl Foreground {
    /// A program that takes about `target` of CPU time in each of `processes` processes.
    pub(crate) fn prepare(kind: Kind, target: Duration, processes: usize) -> Result<Self> {
        let program = match (kind, clip()) {
            (Kind::Builtin, _) => Program::Builtin,
            (_, Ok(clip)) => Program::Ffmpeg(clip),
            (Kind::Auto, Err(_)) => Program::Builtin,
            (Kind::Ffmpeg, Err(error)) => return Err(error),
        };
        let trial = Self { program, amount: TRIAL, processes: 1 };
        let before = sys::children_usage()?.cpu_ns;
        trial.start()?.wait()?;
        let cpu_ns = sys::children_usage()?.cpu_ns.saturating_sub(before).max(1);
        let amount = sys::duration_ns(target) as f64 / cpu_ns as f64 * TRIAL as f64;
        Ok(Self { amount: (amount.round() as u64).max(1), processes, ..trial })
    }

    /// One line for a table's title.
    pub(crate) fn describe(&self) -> String {
        let Self { program, amount, processes } = self;
        match program {
            Program::Ffmpeg(_) => {
                let version = ffmpeg_version();
                format!(
                    "{processes} ffmpeg{version}, MJPEG to MPEG-4, {amount} passes over 2 s of \
                     video"
                )
            }
            Program::Builtin => format!("{processes} built-in computations of {amount} units"),
        }
    }

    pub(crate) fn start(&self) -> Result<Running> {
        // On failure, those that were started end with the value.
        let mut running = Running { children: Vec::new(), since: Instant::now() };
        for _ in 0..self.processes {
            let mut command = self.command()?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            running.children.push(command.spawn().context("starting the foreground program")?);
        }
        Ok(running)
    }

    fn command(&self) -> Result<Command> {
        Ok(match &self.program {
            Program::Builtin => {
                let this = std::env::current_exe().context("finding this program's own file")?;
                let mut command = Command::new(this);
                command.args([COMPUTE, "--units", &self.amount.to_string()]);
                command
            }
            Program::Ffmpeg(clip) => {
                let mut command = ffmpeg();
                // The first pass is not a repetition.
                let again = self.amount.saturating_sub(1).to_string();
                command.args(["-stream_loop", &again, "-threads", "1", "-i"]).arg(clip);
                command.args(["-c:v", "mpeg4", "-q:v", "4", "-threads", "1", "-f", "null", "-"]);
                command
            }
        })
    }
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-filter_threads", "1"]);
    command
}

/// A blank and the version, as "ffmpeg version 7.1 Copyright …" has it.
fn ffmpeg_version() -> String {
    let output = Command::new("ffmpeg").arg("-version").stdin(Stdio::null()).output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = said.ok().and_then(|said| said.split_whitespace().nth(2).map(str::to_owned));
    version.map_or_else(String::new, |version| format!(" {version}"))
}

/// Two seconds of moving test pictures as MJPEG, made once.
fn clip() -> Result<PathBuf> {
    let path = build_folder("foreground")?.join("clip.avi");
    if path.exists() {
        return Ok(path);
    }
    let unfinished = path.with_extension("part.avi");
    let mut command = ffmpeg();
    command.args(["-f", "lavfi", "-i", "testsrc2=size=640x480:rate=25:duration=2"]);
    command.args(["-c:v", "mjpeg", "-q:v", "3", "-y"]).arg(&unfinished);
    let output = command.stdin(Stdio::null()).output().context("`ffmpeg` is not on PATH")?;
    if !output.status.success() {
        bail!("ffmpeg makes no clip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    std::fs::rename(&unfinished, &path).context("keeping the clip")?;
    Ok(path)
}

/// Running foreground programs; dropping this ends them.
#[derive(Debug)]
pub(crate) struct Running {
    children: Vec<Child>,
    since: Instant,
}

impl Running {
    /// Waits for all of them; how long they took.
    pub(crate) fn wait(mut self) -> Result<Duration> {
        for child in &mut self.children {
            let status = child.wait().context("waiting for the foreground program")?;
            ensure!(status.success(), "the foreground program failed: {status}");
        }
        Ok(self.since.elapsed())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Either fails only when the process is gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The computation: passes over what fits a second-level cache, each of which depends on the one
/// before.
pub(crate) fn compute(units: u64) -> Result<()> {
    const WORDS: usize = 32 * 1024;
    sys::die_with_parent()?;
    let mut words: Vec<u64> = (0..WORDS as u64).collect();
    for unit in 0..units {
        let mut carry = unit;
        for _ in 0..32 {
            for word in &mut words {
                *word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) ^ carry;
                carry = carry.wrapping_add(*word >> 3);
            }
        }
        black_box(carry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Running {
        let child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        Running { children: vec![child], since: Instant::now() }
    }

    #[test]
    fn a_foreground_program_that_fails_is_an_error() {
        assert!(shell("exit 0").wait().is_ok());
        let error = shell("exit 3").wait().unwrap_err().to_string();
        assert!(error.contains('3'), "{error}");
    }

    #[test]
    fn a_foreground_program_ends_with_its_value() {
        let running = shell("exec sleep 600");
        let process = running.children[0].id();
        drop(running);
        let alive = std::path::Path::new(&format!("/proc/{process}")).exists();
        assert!(!alive, "it was killed and waited for");
    }
}
