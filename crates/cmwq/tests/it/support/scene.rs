//! Scenes: what must be played in a process of its own, because a process has one runtime.
//!
//! A test names a scene and prepares the process; this binary executes itself with the test
//! [`play`] alone, which finds the scene in [`crate::SCENES`] by its name.

use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::yield_now;
use std::{env, io};

use super::cpus::Cpus;
use super::sys;

const WHICH: &str = "CMWQ_IT_SCENE";
const SKIPPED: &str = "not tested: ";
/// When a scene that hangs is killed. Above the patience of single waits, which have better
/// messages.
const TIME_LIMIT: u32 = 900;
/// A user without privileges.
pub(crate) const NOBODY: u32 = 65_534;

/// A scene's name, and what it does.
pub(crate) type Scene = (&'static str, fn());

/// Plays the scene that the environment names. Other tests execute this one.
#[test]
#[ignore = "for the processes that other tests start"]
fn play() {
    let Ok(name) = env::var(WHICH) else { return };
    sys::alarm(TIME_LIMIT);
    let scene = crate::SCENES.iter().copied().flatten().find(|(known, _)| *known == name);
    let (_, scene) = scene.unwrap_or_else(|| panic!("there is no scene '{name}'"));
    scene();
}

/// Says, from within a scene or a test, that it cannot be played here. Written past the test
/// harness, which keeps what a test that passes prints; the gate lists these lines at its end.
pub(crate) fn skip(reason: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{SKIPPED}{reason}");
}

/// A process that will play a scene.
#[derive(Debug)]
pub(crate) struct Stage {
    scene: &'static str,
    command: Command,
    must_be_root: bool,
    takes_cpus_that_stay: bool,
}

/// How often a scene is played that CPUs have spoiled which came or left meanwhile.
const SPOILED_MOST: usize = 20;

impl Stage {
    pub(crate) fn new(scene: &'static str) -> Self {
        Self::of(&env::current_exe().unwrap(), scene)
    }

    /// By a copy of this program.
    pub(crate) fn of(program: &Path, scene: &'static str) -> Self {
        let mut command = Command::new(program);
        command
            .args(["--exact", "support::scene::play", "--ignored", "--nocapture"])
            .args(["--test-threads", "1"])
            .env(WHICH, scene)
            .env_remove("CMWQ_DETECT")
            .env_remove("CMWQ_PARAMS")
            .env_remove("CMWQ_CONTROL")
            .env("CMWQ_QUIET", "1")
            .current_dir("/")
            .stdin(Stdio::null());
        Self { scene, command, must_be_root: false, takes_cpus_that_stay: false }
    }

    pub(crate) fn detect(mut self, source: &str) -> Self {
        self.command.env("CMWQ_DETECT", source);
        self
    }

    pub(crate) fn params(mut self, params: &str) -> Self {
        self.command.env("CMWQ_PARAMS", params);
        self
    }

    /// With all that the library has to say on standard error.
    pub(crate) fn loud(mut self) -> Self {
        self.command.env_remove("CMWQ_QUIET");
        self
    }

    /// Plays it, to whatever end.
    #[track_caller]
    pub(crate) fn output(mut self) -> Output {
        self.command.output().unwrap_or_else(|error| panic!("cannot play {}: {error}", self.scene))
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// As another user, for which the test must be run as root.
    pub(crate) fn user(mut self, uid: u32) -> Self {
        self.command.uid(uid).gid(uid);
        self.must_be_root = true;
        self
    }

    /// It compares with the CPUs that it began with: a failure does not count if one came or left
    /// meanwhile.
    pub(crate) fn on_cpus_that_stay(mut self) -> Self {
        self.takes_cpus_that_stay = true;
        self
    }

    /// Plays it. A failure there is one here, with all that it printed.
    #[track_caller]
    pub(crate) fn play(mut self) {
        if self.must_be_root && !sys::is_root() {
            skip(format_args!("{}: only root can become another user", self.scene));
            return;
        }
        for _ in 0..SPOILED_MOST {
            let cpus = Cpus::now();
            match self.run() {
                Ok(output) if !has_passed(&output) && self.is_spoiled(&cpus) => {}
                Ok(output) => return self.judge(&output),
                Err(error) if self.must_be_root => {
                    return skip(format_args!("{}: as another user: {error}", self.scene));
                }
                Err(error) => panic!("cannot play {}: {error}", self.scene),
            }
        }
        skip(format_args!("{}: CPUs come and leave all the time", self.scene));
    }

    fn is_spoiled(&self, cpus: &Cpus) -> bool {
        self.takes_cpus_that_stay && cpus.have_changed()
    }

    fn run(&mut self) -> io::Result<Output> {
        loop {
            match self.command.output() {
                // A process that another test has just forked has the copy open, until it executes.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => yield_now(),
                outcome => return outcome,
            }
        }
    }

    #[track_caller]
    fn judge(&self, output: &Output) {
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(
            has_passed(output),
            "{:?}\nended with {}\n{out}\n{err}",
            self.command,
            output.status
        );
        for reason in err.lines().filter_map(|line| line.strip_prefix(SKIPPED)) {
            skip(format_args!("{}: {reason}", self.scene));
        }
    }
}

fn has_passed(output: &Output) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed")
}
