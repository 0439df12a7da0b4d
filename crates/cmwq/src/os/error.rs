//! The crate's one error type.

use std::fmt;
use std::io;

/// Why a queue could not be made, or a setting not be changed. Queueing has no such error: what a
/// queue does not take is [refused](crate::JoinError::is_refused), see
/// [`Workqueue::queue`](crate::Workqueue::queue) and [`try_queue`](crate::Workqueue::try_queue).
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    what: String,
    source: Option<io::Error>,
}

/// What kind of failure an [`Error`] is.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Flags, limits or names that do not go together; the message says which.
    InvalidInput,
    /// The operating system refused a thread (`EAGAIN`, a limit). Trying again later may succeed.
    ThreadCreation,
    /// The operating system does not let this process have the priority that was asked for.
    PermissionDenied,
    /// It is too late: the library was [shut down](crate::shutdown); the queue was
    /// [closed](crate::Workqueue::close); another [`Config`](crate::Config) was installed, or the
    /// library used before; or the parameter was read when the library was first used
    /// ([`set_param`](crate::set_param)). The message says which.
    Unavailable,
    /// A name or a path that can be there once is taken.
    AlreadyExists,
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind: ErrorKind::InvalidInput, what: what.into(), source: None }))
    }

    pub(crate) fn unavailable(what: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind: ErrorKind::Unavailable, what: what.into(), source: None }))
    }

    pub(crate) fn exists(what: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind: ErrorKind::AlreadyExists, what: what.into(), source: None }))
    }

    pub(crate) fn thread(what: impl Into<String>, source: io::Error) -> Self {
        let kind = ErrorKind::ThreadCreation;
        Self(Box::new(Inner { kind, what: what.into(), source: Some(source) }))
    }

    pub(crate) fn permission(what: impl Into<String>, source: io::Error) -> Self {
        let kind = ErrorKind::PermissionDenied;
        Self(Box::new(Inner { kind, what: what.into(), source: Some(source) }))
    }

    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operating system's own error, if it refused something. The message ends with it already.
    #[must_use]
    pub fn io_error(&self) -> Option<&io::Error> {
        self.0.source.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.what)?;
        match &self.0.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("what", &self.0.what)
            .field("source", &self.0.source)
            .finish()
    }
}

/// Without a `source`: the message has the cause, and whoever prints a chain of causes would print
/// it twice. See [`Error::io_error`].
impl std::error::Error for Error {}

/// Of the same kind as what the operating system said, if it refused something, and else of the
/// kind of this error; [`Unavailable`](ErrorKind::Unavailable) has no counterpart there. The error
/// itself is inside (`get_ref`).
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match (error.io_error(), error.kind()) {
            (Some(source), _) => source.kind(),
            (None, ErrorKind::InvalidInput) => io::ErrorKind::InvalidInput,
            (None, ErrorKind::AlreadyExists) => io::ErrorKind::AlreadyExists,
            (None, ErrorKind::PermissionDenied) => io::ErrorKind::PermissionDenied,
            (None, ErrorKind::ThreadCreation | ErrorKind::Unavailable) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

#[cfg(all(test, not(any(cmwq_loom, cmwq_shuttle))))]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_cause_is_printed_once() {
        let refused = || io::Error::from_raw_os_error(libc::EAGAIN);
        let error = Error::thread("cannot create the service thread", refused());
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            text = format!("{text}: {next}");
            cause = next.source();
        }
        assert_eq!(text, format!("cannot create the service thread: {}", refused()));
        assert_eq!(error.io_error().and_then(io::Error::raw_os_error), Some(libc::EAGAIN));
        assert!(Error::invalid("no name").io_error().is_none());
    }

    #[test]
    fn it_becomes_one_of_the_standard_library() {
        let refused = io::Error::from_raw_os_error(libc::EAGAIN);
        for (error, kind) in [
            (Error::invalid("no name"), io::ErrorKind::InvalidInput),
            (Error::exists("taken"), io::ErrorKind::AlreadyExists),
            (Error::unavailable("too late"), io::ErrorKind::Other),
            (Error::thread("no thread", refused), io::ErrorKind::WouldBlock),
        ] {
            let text = error.to_string();
            let error = io::Error::from(error);
            assert_eq!((error.kind(), error.to_string()), (kind, text));
            assert!(error.get_ref().is_some_and(|inner| inner.is::<Error>()));
        }
    }
}
