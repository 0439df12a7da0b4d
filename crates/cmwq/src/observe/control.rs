//! Changing a running process's queues from outside: a socket that a program opts into.
//!
//! There is none unless the program calls [`listen`], or is started with `CMWQ_CONTROL=1` (or a
//! path in place of the 1; or `control=1` in `CMWQ_PARAMS`), which programs with privileges of
//! their own (setuid) do not see. Then one thread serves a local socket, `cmwq-PID.sock` in
//! `$XDG_RUNTIME_DIR` or else in the directory for temporary files, at which `cmwq set` and
//! `cmwq_observe::control::Client` read all queues' [attributes](crate::observe::sysfs) and write
//! those of registered ones.
//!
//! The file has mode 0600, and who connects must be of the same effective user, or root. Clients
//! that send nonsense, nothing, or too much, or do not take their replies, are sent away after 30 s
//! at most; there may be 8 at a time. None of them can keep the program from anything. [`stop`],
//! [`shutdown`](crate::shutdown) and the end of the process remove the file; a process that is
//! killed leaves it, and the next one that wants the place replaces it. A forked child does not
//! listen, unless it opts in itself (the environment counts again when the child first uses the
//! library).
//!
//! ```
//! let directory = std::env::temp_dir();
//! let path = directory.join(format!("doc-{}.sock", std::process::id()));
//! let wq = cmwq::Workqueue::builder("disk").unbound().sysfs().build()?;
//! cmwq::control::listen(Some(&path))?;
//! // Elsewhere, with the crate cmwq-observe:
//! // let mut client = cmwq_observe::control::Client::connect(pid)?;
//! // client.set(&Target::Queue("disk".to_owned()), "max_active", "4")?;
//! cmwq::control::stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Protocol
//!
//! ```text
//! server: cmwq-control 1 4711                        version of the protocol, process
//! client: set rx max_active 8
//! server: ok 8
//! client: show rx
//! server: = rx per_cpu ro 1
//! server: = rx max_active rw 8
//! server: ok 2 0
//! client: set rx max_active 0
//! server: error invalid max_active takes 1 to 2048
//! ```
//!
//! Fields are separated by one space; the last may have spaces in it. In names of queues all bytes
//! but letters, digits and `_-+:/.@` are written as `%` and two hexadecimal digits; the queue `.`
//! is the process itself, and a queue that is called so is `%2E`. The mode `-` says that the queue
//! is not registered.
//!
//! | request | reply |
//! |---|---|
//! | `names` | a line `= NAME MODE` for each queue, `ok LINES LEFT_OUT` |
//! | `show [NAME]` | a line `= NAME ATTRIBUTE MODE VALUE` for each attribute of the queues of that name, or of the process and all; `ok LINES LEFT_OUT` |
//! | `get NAME ATTRIBUTE` | `ok VALUE` |
//! | `set NAME ATTRIBUTE VALUE` | `ok VALUE`: what it reads as now |
//!
//! LEFT_OUT says how many queues were left out because they are too many. Or `error KIND TEXT`,
//! with the kinds of [`Refusal`](crate::observe::sysfs::Refusal), `no-queue`, `request` (it was
//! none), `busy` and `denied`.
//!
//! Why: docs/decisions/attributes-by-socket.md

mod answer;
mod fds;
pub(crate) mod place;
pub(crate) mod protocol;
mod server;
mod session;

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::engine::process::watch_forks;
use crate::engine::runtime::Runtime;
use crate::os::error::Error;
use crate::os::notice::{self, Notice};
use crate::os::sense::{LastingFd, socket, thread};
use crate::os::sync::{OnceLock, PlainGuard, PlainMutex, lock_plain};
use place::Inode;
use server::Server;
use session::Limits;

/// What targets of fuzzing begin with.
#[cfg(any(test, fuzzing))]
pub(crate) mod for_fuzzing {
    pub(crate) use super::answer::answer;
    pub(crate) use super::protocol::{MAX_LINE, Request, Target};
    pub(crate) use super::session::{Limits, Session};
}

/// The name of the memory file whose content is the path of the socket.
pub const NOTE: &CStr = c"cmwq-control";

const STACK: usize = 256 << 10;

/// The socket that is served, and its thread.
#[derive(Debug)]
struct Running {
    path: PathBuf,
    inode: Inode,
    pid: u32,
    /// The thread goes when it is closed.
    stop: LastingFd<UnixStream>,
    thread: thread::Handle<()>,
    /// Tells who looks for it where the socket is.
    note: Option<LastingFd<File>>,
}

static RUNNING: PlainMutex<Option<Running>> = PlainMutex::new(None);

/// Lets other processes of the same user, and root, change the attributes of registered queues:
/// opens the control socket at `path`, or at the usual place. Returns where. See the
/// [module](self).
///
/// Called again for the same path it does nothing.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a path that a socket cannot have, or that
/// cannot be written; [`AlreadyExists`](crate::ErrorKind::AlreadyExists) if something else is
/// there, or this process listens elsewhere already;
/// [`ThreadCreation`](crate::ErrorKind::ThreadCreation).
pub fn listen(path: Option<&Path>) -> Result<PathBuf, Error> {
    // What the child of a fork has to know is set up with it.
    Runtime::global()?;
    start(path)
}

/// Where this process listens, if it does.
#[must_use]
pub fn path() -> Option<PathBuf> {
    watch_forks();
    lock_plain(&RUNNING).as_ref().map(|running| running.path.clone())
}

/// Closes the control socket and removes its file. Waits for the thread to leave.
pub fn stop() {
    watch_forks();
    let Some(running) = lock_plain(&RUNNING).take() else { return };
    place::give_up(&running.path, running.inode);
    if let Some(note) = running.note {
        fds::close(note);
    }
    fds::close(running.stop);
    // It ends by itself; a panic of it has been said.
    let _ = running.thread.join();
}

/// Opens the socket that the environment asks for: at `path`, or at the usual place if that is
/// empty.
pub(crate) fn start_as_wished(path: &str) {
    let path = (!path.is_empty()).then(|| Path::new(path));
    if let Err(error) = start(path) {
        notice::once(Notice::Control, || format!("CMWQ_CONTROL is of no effect: {error}"));
    }
}

fn start(path: Option<&Path>) -> Result<PathBuf, Error> {
    let pid = std::process::id();
    let path = path.map_or_else(|| place::default_path(pid), Path::to_owned);
    let path = std::path::absolute(&path).unwrap_or(path);
    let refused = |error: io::Error| {
        let what = format!("cannot listen at {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::AddrInUse => Error::exists(what),
            _ => Error::invalid(what),
        }
    };
    let mut running = lock_plain(&RUNNING);
    if let Some(running) = &*running {
        if running.path == path {
            return Ok(path);
        }
        let there = running.path.display();
        return Err(Error::exists(format!("this process listens at {there} already")));
    }
    let (stop, told) = fds::remembered_pair().map_err(refused)?;
    let (listener, inode) = match place::take(&path) {
        Ok(taken) => taken,
        Err(error) => {
            fds::close(stop);
            fds::close(told);
            return Err(refused(error));
        }
    };
    let server = Server { listener, stop: told, limits: Limits::DEFAULT };
    // The thread, once it is there, owns the server's descriptors.
    let begin = || thread::start("cmwq/control", Some(STACK), move || server.run());
    let thread = match socket::without_signals(begin) {
        Ok(thread) => thread,
        Err(error) => {
            place::give_up(&path, inode);
            fds::close(stop);
            return Err(Error::thread("cannot create the control thread", error));
        }
    };
    let note = leave_note(&path).ok();
    *running = Some(Running { path: path.clone(), inode, pid, stop, thread, note });
    static AT_EXIT: OnceLock<()> = OnceLock::new();
    AT_EXIT.get_or_init(|| socket::at_exit(remove_at_exit));
    Ok(path)
}

/// Writes down where the socket is, in a file that others find in `/proc/PID/fd`.
fn leave_note(path: &Path) -> io::Result<LastingFd<File>> {
    use std::os::unix::ffi::OsStrExt as _;
    let note = fds::remembered(|| socket::memory_file(NOTE))?;
    match (&*note).write_all(path.as_os_str().as_bytes()) {
        Ok(()) => Ok(note),
        Err(error) => {
            fds::close(note);
            Err(error)
        }
    }
}

extern "C" fn remove_at_exit() {
    // Who is just opening or closing it cannot be waited for.
    let Ok(running) = RUNNING.try_lock() else { return };
    if let Some(running) = running.as_ref().filter(|running| running.pid == std::process::id()) {
        place::give_up(&running.path, running.inode);
    }
}

/// What a fork holds; see there.
#[derive(Debug)]
pub(crate) struct Held {
    running: PlainGuard<'static, Option<Running>>,
    fds: fds::Guard,
}

pub(crate) fn hold() -> Held {
    Held { running: lock_plain(&RUNNING), fds: fds::hold() }
}

/// In a child: the socket is the parent's.
pub(crate) fn leave_behind(held: &mut Held) {
    // Its descriptors are closed with all others, and its thread is not here.
    std::mem::forget(held.running.take());
    fds::close_all(&mut held.fds);
}
