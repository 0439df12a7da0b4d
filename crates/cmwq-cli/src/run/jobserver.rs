//! `--jobserver`: the tokens of a build come and go with the CPUs that are idle, so that it needs
//! no `-j`.
//!
//! A build that speaks the protocol of GNU make's jobserver (make, cargo, gcc's link-time
//! optimisation) takes a byte out of a pipe before it starts another job beside its first, and puts
//! it back afterwards. There is one for each CPU at first; this puts one more in when CPUs have
//! nothing to do and none is left, and takes one out when threads of the build wait for a CPU. Who
//! holds one cannot be told: tokens of clients that died are missed when more are out than threads
//! live, and where a CPU is idle there is a new one anyway.
//!
//! Where procfs does not tell which processes are the build's there is one for each CPU, and no
//! more. While memory is short none is put in, and those are taken out that can be had: each job
//! more would take some.
//!
//! The rule is the core's ([`cmwq_core::jobserver`]); this looks and acts.

mod seen;

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_core::jobserver::{Build, TokenAct, Tokens};
use nix::unistd::getpgrp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionread};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::tcgetpgrp;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use tempfile::TempDir;

use super::grace::grace;
use super::memory::{Floor, Memory};
use super::signals::end_by;
use crate::ignored::not_ignored;
use crate::launch::{self, code};
use crate::{exit, message};

/// How a build finds the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    /// By inherited descriptors: make, cargo, gcc, and not ninja
    Pipe,
    /// By a named pipe: ninja since 1.13, make since 4.4, cargo, gcc since 13
    Fifo,
}

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(2);
/// The longest, while nothing changes.
const LONGEST: Duration = Duration::from_millis(20);
/// Looks take no more than this part of one CPU's time.
const PART: u32 = 20;

/// By which somebody ends a build, and whoever runs it.
const ENDS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

const PROC: &str = "/proc";

/// Looks at a build, and says once what keeps it from having more jobs.
struct Looks {
    memory: Memory,
    is_proc_ours: bool,
    said_hidden: bool,
    said_short: bool,
}

impl Looks {
    fn new(floor: Option<Floor>) -> Self {
        let is_proc_ours = seen::is_ours(PROC.as_ref());
        Self { memory: Memory::new(floor), is_proc_ours, said_hidden: false, said_short: false }
    }

    fn look(&mut self, pid: u32, pipe: &Pipe) -> Build {
        let mut seen = match self.is_proc_ours {
            true => seen::look(PROC.as_ref(), pid),
            false => Build { is_hidden: true, ..Build::default() },
        };
        if seen.is_hidden && !std::mem::replace(&mut self.said_hidden, true) {
            message::say(
                "jobserver: /proc does not tell which processes are the build's: it has one token \
                 for each CPU",
            );
        }
        seen.unread = pipe.unread();
        seen.is_memory_short = self.is_memory_short();
        seen
    }

    fn is_memory_short(&mut self) -> bool {
        let Some(shortage) = self.memory.shortage() else { return false };
        if !std::mem::replace(&mut self.said_short, true) {
            message::say(format_args!(
                "memory is short ({shortage}): meanwhile the build's tokens are taken in"
            ));
        }
        true
    }
}

/// The pipe.
struct Pipe {
    /// Held open for the build; the numbers are in its environment.
    inherited: Option<(OwnedFd, OwnedFd)>,
    fifo: Option<(TempDir, PathBuf)>,
    /// Ours, which do not wait: of their own, since the build's shall.
    read: File,
    write: File,
}

impl Pipe {
    fn new(kind: Kind, tokens: usize) -> io::Result<Self> {
        let mut pipe = match kind {
            Kind::Pipe => {
                let (read_end, write_end) = pipe_with(PipeFlags::empty())?;
                // Inherited by the one program that is started.
                fcntl_setfd(&read_end, FdFlags::empty())?;
                fcntl_setfd(&write_end, FdFlags::empty())?;
                let own = |fd: &OwnedFd| PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
                let (read, write) = (open(own(&read_end), true)?, open(own(&write_end), false)?);
                Self { inherited: Some((read_end, write_end)), fifo: None, read, write }
            }
            Kind::Fifo => {
                let folder = folder()?;
                let path = folder.path().join("jobserver");
                mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
                // The reading end first: without one the writing end cannot be opened.
                let (read, write) = (open(path.clone(), true)?, open(path.clone(), false)?);
                Self { inherited: None, fifo: Some((folder, path)), read, write }
            }
        };
        pipe.put(tokens);
        Ok(pipe)
    }

    /// What a build is told.
    fn auth(&self) -> String {
        match (&self.inherited, &self.fifo) {
            (Some((read, write)), _) => {
                format!("--jobserver-auth={},{}", read.as_raw_fd(), write.as_raw_fd())
            }
            (None, Some((_, path))) => format!("--jobserver-auth=fifo:{}", path.display()),
            (None, None) => unreachable!("it is of one kind"),
        }
    }

    fn unread(&self) -> usize {
        ioctl_fionread(&self.read).map_or(0, |bytes| bytes as usize)
    }

    /// Puts in so many, or as many as there is room for: how many.
    fn put(&mut self, nr: usize) -> usize {
        self.write.write(&vec![b'+'; nr]).unwrap_or(0)
    }

    /// Takes so many, or what there is: how many.
    fn take(&mut self, most: usize) -> usize {
        let mut tokens = vec![0; most];
        self.read.read(&mut tokens).unwrap_or(0)
    }

    /// Takes one within this time. Jobs that wait for one want it, too, and whoever is first has
    /// it.
    fn take_soon(&mut self, within: Duration) -> bool {
        let mut fds = [PollFd::new(&self.read, PollFlags::IN)];
        let within = Timespec::try_from(within).ok();
        poll(&mut fds, within.as_ref()).is_ok() && self.take(1) == 1
    }
}

fn open(path: PathBuf, reads: bool) -> io::Result<File> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().read(reads).write(!reads).custom_flags(nonblock).open(&path);
    // Without procfs there is none of this name.
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// A folder whose path can be told in `MAKEFLAGS`.
fn folder() -> io::Result<TempDir> {
    let folder = tempfile::tempdir()?;
    if is_one_word(folder.path()) { Ok(folder) } else { tempfile::tempdir_in("/tmp") }
}

/// Whether it stays as it is in a list of words, which make also reads as a variable's value.
fn is_one_word(path: &Path) -> bool {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '\\' | '$');
    path.to_str().is_some_and(|path| path.chars().all(is_plain))
}

/// Runs the build.
pub(super) fn run(
    command: &[OsString],
    kind: Kind,
    verbose: bool,
    floor: Option<Floor>,
) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else {
        message::say("no command is given");
        return ExitCode::from(exit::USAGE);
    };
    let mut looks = Looks::new(floor);
    let tokens = match looks.is_memory_short() {
        true => Tokens::default(),
        false => Tokens::for_cpus(cpus()),
    };
    let mut pipe = match Pipe::new(kind, tokens.count) {
        Ok(pipe) => pipe,
        Err(error) => {
            message::say(format_args!("cannot make a jobserver: {error}"));
            return ExitCode::from(exit::NO_RESULT);
        }
    };
    let asked = listen();
    let flags = std::env::var_os("MAKEFLAGS").unwrap_or_default();
    let flags = with(&flags, &pipe.auth());
    let child = launch::spawn(program, |mut build| {
        build.args(arguments).env("MAKEFLAGS", &flags);
        // Clients of Rust's `jobserver` crate look there first, for the one around us.
        build.env_remove("CARGO_MAKEFLAGS");
        build.spawn()
    });
    let child = match child {
        Ok(child) => child,
        Err(code) => return code,
    };
    let served = serve(child, &mut pipe, tokens, &mut looks, &asked);
    // With its folder.
    drop(pipe);
    match served {
        Ok((status, most, lost)) => {
            if verbose {
                message::say(format_args!(
                    "jobserver: {} jobs at once at most, {} tokens were lost",
                    most + 1,
                    lost
                ));
            }
            if let Some(signal) = status.signal() {
                message::say(format_args!("ended by signal {signal}"));
                if ENDS.contains(&signal) {
                    end_by(signal, grace());
                }
            }
            code(status)
        }
        Err(error) => {
            message::say(format_args!("cannot wait for the build: {error}"));
            ExitCode::from(exit::NO_RESULT)
        }
    }
}

/// What make's flags are with a jobserver. What is behind `--` are variables, not flags.
/// Values of variables may be no text, as paths may.
fn with(flags: &OsStr, auth: &str) -> OsString {
    let flags = flags.as_bytes();
    let begins = |at: &usize| flags[*at..].starts_with(b" -- ");
    let variables = if flags.starts_with(b"-- ") { Some(0) } else { (0..flags.len()).find(begins) };
    let (flags, variables) = flags.split_at(variables.unwrap_or(flags.len()));
    let between: &[u8] = if variables.starts_with(b"-") { b" " } else { b"" };
    OsString::from_vec([flags, b" -j ", auth.as_bytes(), between, variables].concat())
}

/// Which signals have come that are for the build.
fn listen() -> Vec<(Signal, Arc<AtomicBool>)> {
    let mut asked = Vec::new();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        for number in not_ignored(&[signal.as_raw()]) {
            let has_come = Arc::default();
            // Where that cannot be, the signal ends this command as ever.
            if signal_hook::flag::register(number, Arc::clone(&has_come)).is_ok() {
                asked.push((signal, has_come));
            }
        }
    }
    asked
}

/// Whether such a signal comes to the build anyway, which is in our group: from the terminal, as
/// Ctrl-C. It cannot be told from one that a process sends to us alone, but where the terminal
/// sends nothing.
fn is_for_all(signal: Signal) -> bool {
    let foreground = || tcgetpgrp(File::open("/dev/tty").ok()?).ok();
    let is_of_terminal = signal == Signal::INT || signal == Signal::QUIT;
    // Of another PID namespace's group the number is 0, and the terminal has none.
    is_of_terminal && foreground().is_some_and(|group| group.as_raw_pid() == getpgrp().as_raw())
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Serves the build until it has ended: how it ended, how many tokens were held at most, and how
/// many were lost.
fn serve(
    mut child: Child,
    pipe: &mut Pipe,
    mut tokens: Tokens,
    looks: &mut Looks,
    asked: &[(Signal, Arc<AtomicBool>)],
) -> io::Result<(std::process::ExitStatus, usize, usize)> {
    let (cpus, mut most) = (cpus(), 0);
    let (mut pause, mut last) = (SHORTEST, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, most, tokens.lost));
        }
        for (signal, _) in asked.iter().filter(|(_, has_come)| has_come.swap(false, Relaxed)) {
            if !is_for_all(*signal) {
                // It was not waited for, so the number is its own.
                let _ = kill_process(Pid::from_child(&child), *signal);
            }
        }
        let begin = Instant::now();
        let seen = looks.look(child.id(), pipe);
        let elapsed = begin.duration_since(last).as_nanos().try_into().unwrap_or(u64::MAX);
        let act = tokens.after(seen, cpus, elapsed);
        last = begin;
        match act {
            TokenAct::Put(nr) => tokens.count += pipe.put(nr),
            TokenAct::TakeSurplus(surplus) => _ = pipe.take(surplus),
            TokenAct::Take | TokenAct::Nothing => {}
        }
        most = most.max(tokens.count.saturating_sub(pipe.unread()));
        let is_quiet = act == TokenAct::Nothing;
        pause = if is_quiet { (pause * 2).min(LONGEST) } else { SHORTEST };
        let pause = pause.max(begin.elapsed() * PART);
        if act != TokenAct::Take {
            thread::sleep(pause);
        } else if pipe.take_soon(pause) {
            tokens.taken();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_make_was_told_stays() {
        let with = |flags: &str, auth| with(flags.as_ref(), auth);
        assert_eq!(with("", "A"), " -j A");
        assert_eq!(with("ks", "A"), "ks -j A");
        assert_eq!(with(" -- X=1 Y=a\\ b", "A"), " -j A -- X=1 Y=a\\ b");
        assert_eq!(with("k -j2 -- X=1", "A"), "k -j2 -j A -- X=1");
        assert_eq!(with("-- X=1", "A"), " -j A -- X=1");
        assert_eq!(with(" -- X=1 -- Y=2", "A"), " -j A -- X=1 -- Y=2");
        let bytes = OsStr::from_bytes(b"k -- X=\xff");
        assert_eq!(super::with(bytes, "A").as_bytes(), b"k -j A -- X=\xff");
    }

    #[test]
    fn tokens_go_in_and_out_of_both_kinds_of_pipe() {
        for kind in [Kind::Pipe, Kind::Fifo] {
            let mut pipe = Pipe::new(kind, 0).unwrap();
            assert_eq!(pipe.take(1), 0, "it is empty, and nobody waits");
            assert!(!pipe.take_soon(Duration::from_millis(1)));
            assert_eq!(pipe.put(1000), 1000);
            assert_eq!(pipe.unread(), 1000);
            assert_eq!(pipe.take(1), 1);
            assert_eq!(pipe.take(998), 998);
            assert_eq!(pipe.unread(), 1);
            assert!(pipe.take_soon(Duration::from_secs(60)));
            assert_eq!(pipe.unread(), 0);
            assert_eq!(Pipe::new(kind, 3).unwrap().unread(), 3);
        }
    }
}
