//! One command as a process: started, watched, waited for, and ended where that is asked for.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, waitid};

use super::captured::Captured;
use super::captures::Captures;
use super::deadline::Deadline;
use super::grace::grace;
use super::group;
use super::journal::typed;
use super::lines::Lines;
use super::running::{Going, Running, send};
use crate::message::{self, errno_text};
use crate::programs::Programs;

/// Between two looks whether one that is not heard of stands still.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks whether one has ended, where the system tells of that in no other way.
const LOOK_FOR_END: Duration = Duration::from_millis(10);
/// So much of what it writes is read at once.
const CHUNK: usize = 16 << 10;

/// Where its output goes while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// To ours, as it comes.
    Nothing,
    /// Kept, in memory or on a disk, to be printed when it has ended.
    Whole,
    /// Line by line.
    Lines,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this exit code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It ran for too long, and was ended.
    TimedOut,
    /// It is not there.
    NotFound,
    /// It is there, and could not be started: a message said why.
    NotStarted,
}

impl End {
    pub(super) fn is_success(self) -> bool {
        self == Self::Exit(0)
    }
}

/// What a run of a command leaves.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) end: End,
    /// Standard output and standard error, if they were kept.
    pub(super) output: Option<[Arc<Captured>; 2]>,
    /// Whether its lines could be written. If not, it was killed.
    pub(super) written: io::Result<()>,
}

/// A command line, and what it may do.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) words: &'a [OsString],
    pub(super) programs: &'a Programs,
    /// Who keeps what it writes, if that is to be kept.
    pub(super) captures: Option<&'a Arc<Captures>>,
    pub(super) capture: Capture,
    pub(super) timeout: Option<Duration>,
}

impl Call<'_> {
    /// Runs it to its end. While it runs the calling item counts as running as the command does.
    ///
    /// # Errors
    /// Those of the system before it has started, but not that it cannot be.
    pub(super) fn run(&self, running: &Running, lines: Option<&Lines<'_>>) -> io::Result<Ran> {
        let Some((program, arguments)) = self.words.split_first() else {
            return Ok(Ran { end: End::NotFound, output: None, written: Ok(()) });
        };
        let (output, ends) = match self.captures {
            Some(captures) => {
                let ((out, out_end), (err, err_end)) = (captures.open()?, captures.open()?);
                (Some([out, err]), Some([out_end, err_end]))
            }
            None => (None, None),
        };
        let spawn = |command: Command| self.spawn(command, arguments, ends.as_ref());
        let _watch = cmwq::watch_children();
        let started = running.start(|| self.programs.start(program, spawn));
        let (mut child, ticket) = match started {
            Ok(started) => started,
            Err(error) if is_scarce(&error) => return Err(error),
            Err(error) => return Ok(not_started(program, &error)),
        };
        drop(ends);
        let waited = self.wait(&mut child, running, lines);
        match waited {
            // It has nowhere to write, and nobody could end it any more.
            Err(_) => _ = send(pid_of(&child), Signal::KILL),
            Ok(has_timed_out) if has_timed_out || running.going() == Going::Ended => {
                group::outlast(pid_of(&child), running);
            }
            Ok(_) => {}
        }
        // From here on nobody ends it, so its number may go to another process.
        ticket.leave();
        let status = child.wait();
        // Not before: until then it is one of the processes that there may be.
        drop(ticket);
        let status = status?;
        output.iter().flatten().for_each(|captured| captured.end());
        let end = if matches!(waited, Ok(true)) { End::TimedOut } else { ended(status) };
        Ok(Ran { end, output, written: waited.map(drop) })
    }

    /// Starts a command with these arguments behind those it has.
    fn spawn(
        &self,
        mut command: Command,
        arguments: &[OsString],
        ends: Option<&[OwnedFd; 2]>,
    ) -> io::Result<Child> {
        // Of its own, so that Ctrl-C is for us, and it ends with what it has started.
        command.args(arguments).stdin(Stdio::null()).process_group(0);
        if self.capture == Capture::Lines {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if let Some([out, err]) = ends {
            command.stdout(out.try_clone()?).stderr(err.try_clone()?);
        }
        command.spawn()
    }

    /// Waits until it has ended, and does not take its status. `true`: it took too long.
    fn wait(
        &self,
        child: &mut Child,
        running: &Running,
        lines: Option<&Lines<'_>>,
    ) -> io::Result<bool> {
        let pid = pid_of(child);
        if self.timeout.is_none() && self.capture != Capture::Lines {
            return self.ended_by_itself(pid);
        }
        // Where there is none (an old kernel, a seccomp filter, too many files) it is done without.
        let watched = Watched { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() };
        let mut pipes: [Option<OwnedFd>; 2] =
            [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let mut deadline = self.timeout.and_then(|timeout| Deadline::after(running, timeout));
        let mut has_timed_out = false;
        loop {
            let left = deadline.map_or(LOOK, |deadline| deadline.left(running).min(LOOK));
            match watched.poll_once(&mut pipes, left, lines)? {
                Polled::Ended => return Ok(has_timed_out),
                Polled::Something => {}
                Polled::Nothing => self.hear_of_stops(pid)?,
            }
            if deadline.is_some_and(|deadline| deadline.left(running).is_zero()) {
                let signal = if has_timed_out { Signal::KILL } else { Signal::TERM };
                let sent = send(pid, signal);
                if sent == Err(Errno::PERM) && !has_timed_out {
                    message::say(format_args!(
                        "{}: takes too long, and may not be ended: {}",
                        typed(self.words),
                        errno_text(Errno::PERM)
                    ));
                }
                has_timed_out = true;
                deadline = Deadline::after(running, grace());
            }
        }
    }

    /// Waits for nothing else than its end: without a descriptor, which all commands started
    /// meanwhile would inherit, and close. Returns as [`Self::wait`].
    fn ended_by_itself(&self, pid: Pid) -> io::Result<bool> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::Pid(pid), how) {
                Err(Errno::INTR) => {}
                Ok(Some(status)) if status.stopped() => self.hear_of_stops(pid)?,
                waited => return Ok(waited.map(|_| false)?),
            }
        }
    }

    /// Takes the news that it stands still, if there are any, and says why if nobody else would.
    fn hear_of_stops(&self, pid: Pid) -> io::Result<()> {
        let how = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let stopped = match waitid(WaitId::Pid(pid), how) {
            // It has gone on, and has ended since.
            Err(Errno::CHILD) => return Ok(()),
            stopped => stopped?,
        };
        let signal = stopped.and_then(|status| status.stopping_signal()).unwrap_or(0);
        if [Signal::TTIN, Signal::TTOU].map(Signal::as_raw).contains(&signal) {
            let command = typed(self.words);
            message::say(format_args!(
                "{command}: stands still: it wants the terminal, which is not its"
            ));
        }
        Ok(())
    }
}

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Polled {
    /// Nothing, for so long.
    Nothing,
    Something,
    /// It has ended, and what it wrote was read.
    Ended,
}

/// A command whose output and end are waited for.
#[derive(Debug)]
struct Watched {
    pid: Pid,
    /// Readable when it has ended.
    pidfd: Option<OwnedFd>,
}

impl Watched {
    /// Waits for its output or its end, for so long.
    fn poll_once(
        &self,
        pipes: &mut [Option<OwnedFd>; 2],
        left: Duration,
        lines: Option<&Lines<'_>>,
    ) -> io::Result<Polled> {
        let left = if self.pidfd.is_some() { left } else { left.min(LOOK_FOR_END) };
        let waited_for = pipes.iter().flatten().chain(&self.pidfd);
        let mut fds: Vec<_> = waited_for.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let polled = match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Err(Errno::INTR) => return Ok(Polled::Something),
            polled => polled?,
        };
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>();
        let has_ended = match &self.pidfd {
            Some(_) => ready.pop() == Some(true),
            None => self.has_ended()?,
        };
        if has_ended {
            for (which, pipe) in pipes.iter().enumerate() {
                pipe.as_ref().map_or(Ok(()), |pipe| read_rest(pipe, which, lines))?;
            }
            return Ok(Polled::Ended);
        }
        let mut ready = ready.iter();
        for (which, pipe) in pipes.iter_mut().enumerate() {
            let Some(open) = pipe.as_ref() else { continue };
            if ready.next() == Some(&true) && read_some(open, which, CHUNK, lines)? == 0 {
                *pipe = None;
            }
        }
        Ok(if polled == 0 { Polled::Nothing } else { Polled::Something })
    }

    fn has_ended(&self) -> io::Result<bool> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(self.pid), how)?.is_some())
    }
}

/// Reads what is there when it has ended. Whoever was left behind by it may write for ever.
fn read_rest(pipe: &OwnedFd, which: usize, lines: Option<&Lines<'_>>) -> io::Result<()> {
    let mut left = ioctl_fionread(pipe).map_or(0, |len| usize::try_from(len).unwrap_or(0));
    // A process of the command's may have read it itself.
    while left > 0 && is_readable(pipe) {
        match read_some(pipe, which, left, lines)? {
            0 => break,
            len => left -= len,
        }
    }
    Ok(())
}

/// Reads what has come, but no more than `most`: so many bytes. 0: there will be no more.
fn read_some(
    pipe: &OwnedFd,
    which: usize,
    most: usize,
    lines: Option<&Lines<'_>>,
) -> io::Result<usize> {
    let mut buffer = [0; CHUNK];
    let len = loop {
        match rustix::io::read(pipe, &mut buffer[..most.min(CHUNK)]) {
            Err(Errno::INTR) => {}
            read => break read?,
        }
    };
    lines.map_or(Ok(()), |lines| lines.add(which, &buffer[..len]))?;
    Ok(len)
}

fn is_readable(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().contains(PollFlags::IN))
}

/// Whether the system has as many processes or open files as there may be, for now.
pub(super) fn is_scarce(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    errno.is_some_and(|e| [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE].contains(&e))
}

fn not_started(program: &OsStr, error: &io::Error) -> Ran {
    let end = match error.kind() {
        io::ErrorKind::NotFound => End::NotFound,
        kind => {
            let program = typed(&[program.to_owned()]);
            message::say(match kind {
                io::ErrorKind::InvalidInput => {
                    format!("{program}: an argument has a zero byte: -0 parts there")
                }
                io::ErrorKind::ArgumentListTooLong => format!(
                    "{program}: cannot be started: {error}: one argument may have 128 KiB, and all \
                     together a quarter of the stack's limit (ulimit -s): what is longer has to be \
                     handed over in a file"
                ),
                _ => format!("{program}: cannot be started: {error}"),
            });
            End::NotStarted
        }
    };
    Ran { end, output: None, written: Ok(()) }
}

fn ended(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

/// The process's number.
pub(super) fn pid_of(child: &Child) -> Pid {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.expect("the system gave it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_stopped_may_have_ended_since() {
        let (words, programs) = (["true".into()], Programs::default());
        let (captures, capture, timeout) = (None, Capture::Nothing, None);
        let call = Call { words: &words, programs: &programs, captures, capture, timeout };
        let mut child = Command::new("true").spawn().unwrap();
        let ends = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid_of(&child)), ends).unwrap();
        call.hear_of_stops(pid_of(&child)).unwrap();
        assert!(child.wait().unwrap().success());
    }
}
