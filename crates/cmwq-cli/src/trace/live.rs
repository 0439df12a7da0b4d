//! A trace of a running process.
//!
//! The process's trace lies in a memfd, which is found among its open files: so who may trace it is
//! who may look into its `/proc/PID/fd`, which is who may attach a debugger. Nothing in the process
//! has to run for that. Tracing ends with this command, however it ends: the process believes a
//! lease, which has to be renewed.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::foreign::{harmless, open_memory_file};
use cmwq::trace::Session;
use cmwq_observe::inspect::{OpenError, Target};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::merge::{Merge, Take};
use super::{End, Subject, begun};
use crate::look::{Symbols, threads};
use crate::{enough, message, stat};

/// How the kernel shows the file.
const LINK: &str = "/memfd:cmwq-trace (deleted)";
/// Rounds are so far apart, unless much happens.
const PAUSE: Duration = Duration::from_millis(10);
/// So many rounds between two looks at what is mapped, and whether the process is there.
const ROUNDS_PER_LOOK: u32 = 20;

/// See the module header.
pub(super) struct Live {
    pid: u32,
    session: Session,
    /// What else it shows, if anything: it tells when it has become another program.
    shown: Option<Target>,
}

impl Live {
    pub(super) fn attach(pid: u32) -> Result<Self, String> {
        // First: of a process that becomes another program meanwhile nothing else would tell.
        let shown = Target::open(pid).ok();
        let folder = format!("/proc/{pid}/fd");
        let entries = fs::read_dir(&folder).map_err(|error| refused(pid, &error))?;
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| refused(pid, &error))?.path();
            if fs::read_link(&path).is_ok_and(|link| link.as_os_str() == LINK) {
                found.push(path);
            }
        }
        let Some(path) = found.first() else {
            return Err(format!(
                "process {pid} uses no workqueues of cmwq (or has not yet), or closed the file \
                 descriptors it did not know"
            ));
        };
        if found.len() > 1 {
            message::say(format_args!(
                "process {pid} has cmwq {} times; the first one is traced",
                found.len()
            ));
        }
        let file = open_memory_file(path, true).map_err(|error| refused(pid, &error))?;
        let session =
            Session::open(file.into()).map_err(|error| format!("process {pid}: {error}"))?;
        Ok(Self { pid, session, shown })
    }

    pub(super) fn subject(&self) -> Subject {
        let name = stat::read(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        Subject {
            pid: self.session.pid(),
            name: harmless(name.trim_end()).into_owned(),
            symbols: Symbols::of_process(self.pid),
        }
    }

    /// Traces events of these kinds until the time is up, somebody stops it, or the process ends.
    pub(super) fn run(
        mut self,
        duration: Option<Duration>,
        kinds: u32,
        subject: &mut Subject,
        merge: &mut Merge,
        take: &mut Take<'_>,
    ) -> io::Result<End> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        enough::listen(&[SIGINT, SIGTERM], move || told.store(true, Ordering::Relaxed))?;
        let end = duration.and_then(|duration| Instant::now().checked_add(duration));
        let begin = begun::now();
        // Names of threads and queues come by themselves.
        self.session.begin(kinds)?;
        begun::hand_on(self.pid, begin, subject, take)?;
        // Said once.
        let mut has_lapsed = false;
        let mut rounds = 0_u32;
        loop {
            rounds += 1;
            let is_look = rounds.is_multiple_of(ROUNDS_PER_LOOK);
            let is_over = stop.load(Ordering::Relaxed)
                || end.is_some_and(|end| Instant::now() >= end)
                || (is_look && !self.is_alive());
            if is_over {
                self.session.stop();
            }
            let round = self.session.round(|ring, words| merge.push(ring, words))?;
            if round.has_lapsed && !has_lapsed {
                has_lapsed = true;
                message::say(
                    "this came too late to keep tracing on (stopped, or without a CPU for 3 s); \
                     what happened meanwhile is \
                     missing from here on",
                );
            }
            merge.round(round.begin, subject, take)?;
            if is_over {
                let ns = merge.end(subject, take)?;
                return Ok(End { ns, lost: round.lost });
            }
            if is_look {
                subject.symbols.look_again();
            }
            if !round.is_pressed {
                thread::sleep(PAUSE);
            }
        }
    }

    fn is_alive(&self) -> bool {
        threads::process(self.pid).is_some_and(|state| !stat::has_ended(state))
            && self.shown.as_ref().is_none_or(Target::is_shown)
    }
}

fn refused(pid: u32, error: &io::Error) -> String {
    match error.kind() {
        // Which rule forbids it, or why it is not seen, is known there.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => match Target::open(pid) {
            Err(OpenError::NoSuchProcess) => format!("there is no process {pid}"),
            Err(error @ (OpenError::PermissionDenied { .. } | OpenError::Io(_))) => {
                format!("process {pid}: {error}")
            }
            _ => format!("process {pid}: {error}"),
        },
        _ => format!("process {pid}: {error}"),
    }
}
