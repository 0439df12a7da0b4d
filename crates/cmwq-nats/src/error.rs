//! What can go wrong.

use std::error::Error as StdError;
use std::fmt;

/// What kind of an [`Error`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A name or a setting makes no sense, or a function would wait for its own end, or a callback
    /// of the NATS client for its own thread. Nothing was sent.
    InvalidInput,
    /// The broker did not answer in time. What was asked may have been done all the same, unless
    /// the message says that nothing was sent, since there was no connection. Or the connection
    /// has ended for good, as the message then says.
    Unreachable,
    /// The broker said no, or would do harm. Nothing was done.
    Refused,
    /// The queue has as many items as [`max_queued`](crate::QueueBuilder::max_queued) allows, or as
    /// many messages or bytes as an operator does, or the broker has no room for more. A NATS
    /// broker before 2.10.6 takes old items away for a limit of bytes: a queue that has one is not
    /// opened there.
    Full,
    /// A thread or a workqueue could not be had on this machine; or this process was forked from
    /// the one that has connected.
    Local,
}

/// Why something could not be done, and what to do about it.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Without a `source`: the message has the cause, and whoever prints a chain of causes would print
/// it twice.
impl StdError for Error {}
