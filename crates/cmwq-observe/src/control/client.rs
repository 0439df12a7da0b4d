//! The other side: asking a process for its attributes, and changing them.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::exchange::{Exchange, Transport};
use super::find::{self, ConnectError};
use cmwq::shared::control::{GREETING, Request, Target, VERSION, unescape};

/// A process that does not answer for so long is stopped, or stuck.
const PATIENCE: Duration = Duration::from_secs(30);
/// LIMIT: lines of one reply.
const MAX_ITEMS: usize = 100_000;

/// A connection to the control socket of a process.
#[derive(Debug)]
pub struct Client(Exchange<UnixStream>);

/// A line of a [`Listing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Whose it is.
    pub target: Target,
    /// The attribute's name.
    pub attribute: String,
    /// `rw`, `ro`, or `-` for a queue that is not registered.
    pub mode: String,
    /// As it reads.
    pub value: String,
}

/// Attributes, as they were read one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// By queue, in the order in which they were made.
    pub items: Vec<Item>,
    /// How many queues are not in it because they are too many.
    pub left_out: u64,
}

/// Why a request was not answered.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClientError {
    /// The process refuses it: a kind, see the [protocol](cmwq::control#protocol), and why.
    Refused {
        /// The kind.
        kind: String,
        /// Why.
        text: String,
    },
    /// What came is not what was agreed on.
    Protocol(String),
    /// Nothing came.
    Io(io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { text, .. } => f.write_str(text),
            Self::Protocol(what) => write!(f, "the process answers strangely: {what}"),
            Self::Io(error) if is_timeout(error) => {
                write!(f, "the process has not answered in time: it may be stopped or stuck")
            }
            Self::Io(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

/// Without a `source`, as [`ConnectError`].
impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

impl Client {
    /// Connects to a process that has opted in. It has 30 s for each answer.
    ///
    /// # Errors
    /// [`ConnectError`] says why not.
    pub fn connect(pid: u32) -> Result<Self, ConnectError> {
        Self::connect_within(pid, PATIENCE)
    }

    /// As [`connect`](Self::connect), with another time for each answer.
    ///
    /// # Errors
    /// As there.
    pub fn connect_within(pid: u32, patience: Duration) -> Result<Self, ConnectError> {
        Self::greeted(find::connect(pid)?, patience)
    }

    /// Connects to a socket at a known path.
    ///
    /// # Errors
    /// [`ConnectError::Failed`], [`ConnectError::Refused`].
    pub fn connect_at(path: &Path, patience: Duration) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError::Failed { path: path.to_owned(), source };
        Self::greeted(find::connect_at(path, None).map_err(failed)?, patience)
    }

    /// As [`connect_at`](Self::connect_at), if process `pid` listens there.
    ///
    /// # Errors
    /// As there; [`ConnectError::Failed`] if it is another one.
    pub fn connect_at_of(pid: u32, path: &Path, patience: Duration) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError::Failed { path: path.to_owned(), source };
        Self::greeted(find::connect_at(path, Some(pid)).map_err(failed)?, patience)
    }

    fn greeted(stream: UnixStream, patience: Duration) -> Result<Self, ConnectError> {
        let mut exchange = Exchange::new(stream, patience);
        exchange.greet().map_err(ConnectError::Refused)?;
        Ok(Self(exchange))
    }

    /// No answer is waited for beyond `end`, though its own time is not up then.
    pub fn end_at(&mut self, end: Instant) {
        self.0.end_at(end);
    }

    /// The attributes of the queues of a name, of the process, or of all.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the kind `no-queue` if there is none; see there.
    pub fn show(&mut self, target: Option<&Target>) -> Result<Listing, ClientError> {
        self.0.show(target)
    }

    /// The names of all queues, as far as they are not too many.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn names(&mut self) -> Result<Vec<String>, ClientError> {
        self.0.names()
    }

    /// The value of an attribute.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if there is none.
    pub fn get(&mut self, target: &Target, attribute: &str) -> Result<String, ClientError> {
        self.0.value(&Request::Get(target.clone(), attribute.to_owned()))
    }

    /// Changes an attribute. Returns how it reads now.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it cannot be changed so; nothing has changed then. If the
    /// connection broke, it may have.
    pub fn set(
        &mut self,
        target: &Target,
        attribute: &str,
        value: &str,
    ) -> Result<String, ClientError> {
        self.0.value(&Request::Set(target.clone(), attribute.to_owned(), value.to_owned()))
    }
}

/// What a client says and hears.
impl<T: Transport> Exchange<T> {
    pub(crate) fn greet(&mut self) -> Result<(), ClientError> {
        let line = self.heard()?;
        let version = line.strip_prefix(GREETING).map(|rest| rest.trim_start().to_owned());
        match version.as_deref().and_then(|rest| rest.split(' ').next()) {
            Some(version) if version == VERSION.to_string() => Ok(()),
            Some(version) => Err(ClientError::Protocol(format!(
                "it speaks version {version} of the protocol, this is version {VERSION}"
            ))),
            None => Err(ClientError::Protocol(format!("'{line}' in place of a greeting"))),
        }
    }

    pub(crate) fn show(&mut self, target: Option<&Target>) -> Result<Listing, ClientError> {
        let (lines, left_out) = self.listing(&Request::Show(target.cloned()))?;
        let items = lines.into_iter().map(|line| {
            let mut fields = line.splitn(4, ' ').map(str::to_owned);
            let mut field = || fields.next().ok_or_else(|| odd(&line));
            let (target, attribute, mode, value) = (field()?, field()?, field()?, field()?);
            let target = parse_target(&target)?;
            Ok(Item { target, attribute, mode, value })
        });
        Ok(Listing { items: items.collect::<Result<_, ClientError>>()?, left_out })
    }

    pub(crate) fn names(&mut self) -> Result<Vec<String>, ClientError> {
        let (lines, _) = self.listing(&Request::Names)?;
        let names = lines.iter().map(|line| {
            let name = line.split(' ').next().unwrap_or_default();
            unescape(name).map_err(|_| odd(line))
        });
        names.collect()
    }

    pub(crate) fn value(&mut self, request: &Request) -> Result<String, ClientError> {
        self.send(request)?;
        match self.reply()? {
            Reply::Ok(value) => Ok(value),
            Reply::Item(line) => Err(odd(&line)),
        }
    }

    fn listing(&mut self, request: &Request) -> Result<(Vec<String>, u64), ClientError> {
        self.send(request)?;
        let mut items = Vec::new();
        loop {
            match self.reply()? {
                Reply::Item(line) if items.len() < MAX_ITEMS => items.push(line),
                Reply::Item(_) => return Err(ClientError::Protocol("it does not end".to_owned())),
                Reply::Ok(text) => {
                    let left_out = text.split(' ').nth(1).and_then(|count| count.parse().ok());
                    return left_out.map(|left_out| (items, left_out)).ok_or_else(|| odd(&text));
                }
            }
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let line = request.line();
        // A control character would end the line, or be refused.
        if line.trim_end_matches('\n').contains(char::is_control) {
            let text = "a value is one line, without control characters".to_owned();
            return Err(ClientError::Refused { kind: "request".to_owned(), text });
        }
        Ok(self.ask(&line)?)
    }

    fn reply(&mut self) -> Result<Reply, ClientError> {
        let line = self.heard()?;
        match line.split_once(' ') {
            Some(("=", item)) => Ok(Reply::Item(item.to_owned())),
            Some(("ok", value)) => Ok(Reply::Ok(value.to_owned())),
            _ => Err(odd(&line)),
        }
    }

    /// A line, unless it says that something went wrong.
    fn heard(&mut self) -> Result<String, ClientError> {
        let line = self.line()?;
        let Some(error) = line.strip_prefix("error ") else { return Ok(line) };
        let (kind, text) = error.split_once(' ').unwrap_or((error, ""));
        Err(ClientError::Refused { kind: kind.to_owned(), text: text.to_owned() })
    }
}

enum Reply {
    Item(String),
    Ok(String),
}

fn odd(line: &str) -> ClientError {
    ClientError::Protocol(format!("'{}'", line.chars().take(80).collect::<String>()))
}

fn parse_target(field: &str) -> Result<Target, ClientError> {
    match field {
        "." => Ok(Target::Process),
        _ => unescape(field).map(Target::Queue).map_err(|_| odd(field)),
    }
}
