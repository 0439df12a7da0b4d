//! Finding the control socket of a process.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::client::ClientError;
use cmwq::foreign;
use cmwq::shared::control as socket;
use cmwq::shared::control::{default_path, file_name};
use cmwq::shared::temporary_directory;

/// How it shows in `/proc/PID/fd`.
const LINK: &str = "/memfd:cmwq-control (deleted)";
/// LIMIT: no path is longer.
const MAX_NOTE: u64 = 4096;

/// Why the control socket of a process cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no such process.
    NoProcess(u32),
    /// The process does not listen: it did not opt in, or does not use the library.
    NotListening(u32),
    /// This user may not.
    Denied {
        /// The process.
        pid: u32,
        /// The user that it belongs to, if known.
        owner: Option<u32>,
    },
    /// `/proc` does not tell where the socket is, and it is not at the usual places.
    NotFound {
        /// The process.
        pid: u32,
        /// What went wrong in `/proc`.
        source: io::Error,
    },
    /// There is somebody, who does not answer as agreed on, or not at all.
    Refused(ClientError),
    /// Something else went wrong.
    Failed {
        /// The socket.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(pid) => write!(f, "there is no process {pid}"),
            Self::NotListening(pid) => write!(
                f,
                "process {pid} has no control socket: it opts in by cmwq::control::listen, or \
                 when it is started with \
                 CMWQ_CONTROL=1"
            ),
            Self::Denied { pid, owner: Some(owner) } => write!(
                f,
                "permission denied: process {pid} belongs to user {owner}; only that user and \
                 root may change it"
            ),
            Self::Denied { pid, owner: None } => write!(
                f,
                "permission denied: only the user that process {pid} belongs to, and root, may \
                 change it"
            ),
            Self::NotFound { pid, source } => write!(
                f,
                "cannot find the control socket of process {pid}: /proc/{pid}/fd cannot be read \
                 ({source}), and there is \
                 none at the usual places"
            ),
            Self::Refused(error) => write!(f, "{error}"),
            Self::Failed { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

/// Without a `source`: the message has the cause, and whoever prints a chain of causes would print
/// it twice. The variants have it.
impl std::error::Error for ConnectError {}

/// Connects to the control socket of a process.
pub(super) fn connect(pid: u32) -> Result<UnixStream, ConnectError> {
    if !socket::is_process(pid) {
        return Err(ConnectError::NoProcess(pid));
    }
    let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid());
    let noted = noted_path(pid);
    let places: Vec<PathBuf> = match &noted {
        // In another mount namespace the path leads somewhere else, or nowhere.
        Ok(Some(path)) => {
            let root = PathBuf::from(format!("/proc/{pid}/root"));
            let there = path.strip_prefix("/").map(|path| root.join(path));
            [Some(path.clone()), there.ok()].into_iter().flatten().collect()
        }
        _ => usual_places(pid, owner),
    };
    let (mut is_denied, mut failed) = (false, None);
    for path in places {
        match connect_at(&path, Some(pid)) {
            Ok(stream) => return Ok(stream),
            Err(error) => match error.kind() {
                io::ErrorKind::PermissionDenied => is_denied = true,
                // It is not there, or nobody's any more.
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {}
                _ => failed = failed.or(Some((path, error))),
            },
        }
    }
    if !socket::is_process(pid) {
        return Err(ConnectError::NoProcess(pid));
    }
    if !is_denied
        && matches!(noted, Ok(Some(_)))
        && let Some((path, source)) = failed
    {
        return Err(ConnectError::Failed { path, source });
    }
    match noted {
        _ if is_denied => Err(ConnectError::Denied { pid, owner }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(ConnectError::Denied { pid, owner })
        }
        Err(source) => Err(ConnectError::NotFound { pid, source }),
        Ok(_) => Err(ConnectError::NotListening(pid)),
    }
}

/// Connects to the socket at `path`, if it is that of process `pid`. Nonblocking.
pub(super) fn connect_at(path: &Path, pid: Option<u32>) -> io::Result<UnixStream> {
    let stream = socket::connect(path)?;
    let there = u32::try_from(socket::peer(&stream)?.pid).unwrap_or(0);
    // 0: a process that cannot be seen from here.
    if pid.is_some_and(|pid| there != 0 && there != pid) {
        let what = format!("process {there} listens there");
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    Ok(stream)
}

/// What the process itself says.
fn noted_path(pid: u32) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?.path();
        // Descriptors come and go.
        let Ok(target) = fs::read_link(&entry) else { continue };
        if target.as_os_str() == LINK {
            let mut path = Vec::new();
            let note = foreign::open_memory_file(&entry, false)?;
            note.take(MAX_NOTE).read_to_end(&mut path)?;
            return Ok(Some(PathBuf::from(OsString::from_vec(path))));
        }
    }
    Ok(None)
}

fn usual_places(pid: u32, owner: Option<u32>) -> Vec<PathBuf> {
    let temporary = [temporary_directory(), PathBuf::from("/tmp")];
    let mut places = vec![default_path(pid)];
    places.extend(temporary.map(|directory| directory.join(file_name(pid))));
    places.extend(owner.map(|uid| format!("/run/user/{uid}/{}", file_name(pid)).into()));
    places.dedup();
    places
}
