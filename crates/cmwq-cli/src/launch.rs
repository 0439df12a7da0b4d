//! Programs that the command starts, to look into them: `cmwq trace -- PROGRAM…`, `cmwq top --
//! PROGRAM…`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_observe::inspect::Target;
use os_display::Quotable as _;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::ignored::not_ignored;
use crate::look::others;
use crate::programs::Programs;
use crate::{exit, message};

/// Between two looks whether it has got on.
const PAUSE: Duration = Duration::from_millis(10);
/// How long it may take a program to end that was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// The group of the program that runs in one of its own; 0: none does.
static GROUP: AtomicI32 = AtomicI32::new(0);

/// Asks the program that runs in a group of its own to end: nobody comes to do that any more.
pub(crate) fn end_group() {
    if let Some(group) = Pid::from_raw(GROUP.load(Ordering::Relaxed)) {
        let _ = kill_process_group(group, Signal::TERM);
    }
}

/// Starts a program: see [`Programs::start`].
///
/// # Errors
/// The exit code that shells have for that. A message said why.
pub(crate) fn spawn(
    name: &OsStr,
    start: impl Fn(Command) -> io::Result<Child>,
) -> Result<Child, ExitCode> {
    let programs = Programs::default();
    programs.start(name, start).map_err(|error| {
        let program = name.maybe_quote();
        if error.kind() == io::ErrorKind::NotFound {
            message::say(format_args!("{program}: {}", programs.why_absent(name)));
            return ExitCode::from(exit::NOT_FOUND);
        }
        message::say(format_args!("{program}: cannot be started: {error}"));
        ExitCode::from(exit::NOT_STARTED)
    })
}

/// A program that runs.
pub(crate) struct Launched {
    child: Child,
    name: String,
    /// It leads a group, which ends with it.
    leads: bool,
}

/// Whose group of processes a program belongs to: whom a terminal's Ctrl-C is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// This command's: Ctrl-C is for both.
    Ours,
    /// One of its own, with what it starts.
    Own,
}

impl Launched {
    /// Starts it.
    ///
    /// # Errors
    /// The exit code that shells have for that.
    pub(crate) fn start(
        program: &[OsString],
        group: Group,
        prepare: impl Fn(&mut Command) -> io::Result<()>,
    ) -> Result<Self, ExitCode> {
        let Some((first, arguments)) = program.split_first() else {
            message::say("no program is given after --");
            return Err(ExitCode::from(exit::USAGE));
        };
        let leads = group == Group::Own;
        let child = spawn(first, |mut command| {
            command.args(arguments);
            prepare(&mut command)?;
            if leads {
                command.process_group(0);
            }
            command.spawn()
        })?;
        if leads {
            GROUP.store(child.id().try_into().unwrap_or(0), Ordering::Relaxed);
        }
        Ok(Self { child, name: first.maybe_quote().to_string(), leads })
    }

    /// Whether it has ended, and how.
    fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.child.try_wait().ok().flatten();
        if ended.is_some() && self.leads {
            // Its number may be another one's from now on.
            GROUP.store(0, Ordering::Relaxed);
        }
        ended
    }

    /// Waits until it, or a process that it has started, shows workqueues.
    ///
    /// # Errors
    /// If it ends before, which a message said, or somebody has had enough.
    pub(crate) fn wait_for_queues(&mut self) -> Result<Target, ExitCode> {
        let enough = Arc::new(AtomicBool::new(false));
        for signal in not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
            // Where that cannot be, the signal ends this command as ever.
            let _ = signal_hook::flag::register(signal, Arc::clone(&enough));
        }
        loop {
            if enough.load(Ordering::Relaxed) {
                return Err(ExitCode::from(exit::FAILED));
            }
            // Asked before the look, so that what it did last is seen.
            let ended = self.ended();
            for pid in others::family(self.child.id()) {
                if let Ok(target) = Target::open(pid) {
                    return Ok(target);
                }
            }
            if let Some(status) = ended {
                message::say(format_args!(
                    "{} ended ({status}) without a workqueue that could be looked at",
                    self.name
                ));
                return Err(ExitCode::from(exit::FAILED));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Waits until it ends. An interrupt, which a terminal sends to it, too, ends the program and
    /// not this one; so do a request to terminate and the end of the terminal, which are handed on.
    /// From then on interrupts end this one.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn wait(mut self) -> io::Result<ExitStatus> {
        let [is_over, asked, hung_up] = [(); 3].map(|()| Arc::new(AtomicBool::new(false)));
        for signal in not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_over))?;
            match signal {
                SIGTERM => signal_hook::flag::register(signal, Arc::clone(&asked))?,
                SIGHUP => signal_hook::flag::register(signal, Arc::clone(&hung_up))?,
                _ => continue,
            };
        }
        let ended = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            for (flag, signal) in [(&asked, Signal::TERM), (&hung_up, Signal::HUP)] {
                if flag.swap(false, Ordering::Relaxed) {
                    self.signal(signal);
                }
            }
            thread::sleep(PAUSE);
        };
        is_over.store(true, Ordering::Relaxed);
        Ok(ended)
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // It may have ended meanwhile; nobody else has its number, since it was not waited for.
        let _ = pid.map(|pid| match self.leads {
            true => kill_process_group(pid, signal),
            false => kill_process(pid, signal),
        });
    }
}

impl Drop for Launched {
    /// Ends it: it was started to be looked at.
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        self.signal(Signal::TERM);
        let end = Instant::now() + GRACE;
        while self.ended().is_none() {
            if Instant::now() >= end {
                self.signal(Signal::KILL);
                let _ = self.child.wait();
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// The exit code that a shell has for it.
pub(crate) fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED))
}

/// How many files lie beside `file`: traces of other processes of the program.
pub(crate) fn beside(file: &Path) -> usize {
    let folder = file.parent().and_then(|folder| folder.read_dir().ok());
    folder.into_iter().flatten().count().saturating_sub(1)
}
