//! Requests and their answers as lines, within a time and a size whatever the other side does.
//! Knows no socket.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::client::ClientError;
use cmwq::shared::control as socket;

/// LIMIT: the longest line of a server.
const MAX_LINE: usize = 64 << 10;
/// LIMIT: bytes of an answer. A thousand queues, with all their attributes, take less than a fifth
/// of it.
pub(crate) const MAX_ANSWER: usize = 16 << 20;
/// What is read at a time.
const CHUNK: usize = 8 << 10;

/// Where bytes go and come from.
pub(crate) trait Transport {
    /// Sends some of them.
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<usize>;
    /// Waits for some. 0: there are no more.
    fn receive(&mut self, into: &mut [u8], deadline: Instant) -> io::Result<usize>;
}

/// One side's view of a conversation.
#[derive(Debug)]
pub(crate) struct Exchange<T> {
    transport: T,
    /// What has come and is not read. At most a line and a chunk.
    input: Vec<u8>,
    /// Of `input`, known to have no end of a line.
    searched: usize,
    /// For each answer.
    patience: Duration,
    /// For all of them.
    end: Option<Instant>,
    /// Of the answer that is waited for.
    deadline: Instant,
    /// Bytes that it may still have.
    left: usize,
}

impl<T: Transport> Exchange<T> {
    /// Begins with what comes unasked.
    pub(crate) fn new(transport: T, patience: Duration) -> Self {
        let (input, deadline) = (Vec::new(), Instant::now());
        let mut exchange =
            Self { transport, input, searched: 0, patience, end: None, deadline, left: 0 };
        exchange.begin();
        exchange
    }

    pub(crate) fn end_at(&mut self, end: Instant) {
        self.end = Some(end);
    }

    /// An answer is going to come.
    fn begin(&mut self) {
        let now = Instant::now();
        // A patience of ages is none that an answer needs.
        let deadline = now.checked_add(self.patience).unwrap_or(now + Duration::from_secs(86_400));
        self.deadline = self.end.map_or(deadline, |end| end.min(deadline));
        self.left = MAX_ANSWER;
    }

    /// Sends a request: a line with its end.
    pub(crate) fn ask(&mut self, line: &str) -> io::Result<()> {
        self.begin();
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match self.transport.send(rest, self.deadline) {
                Ok(sent) => rest = &rest[sent..],
                // There may be a last line that says why.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A line of the answer, without its end.
    pub(crate) fn line(&mut self) -> Result<String, ClientError> {
        loop {
            if let Some(at) = self.input[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                let rest = self.input.split_off(end + 1);
                let line = std::mem::replace(&mut self.input, rest);
                self.searched = 0;
                return self.read(&line[..end]);
            }
            self.searched = self.input.len();
            if self.searched > MAX_LINE {
                return Err(ClientError::Protocol("its line does not end".to_owned()));
            }
            if self.more()? == 0 {
                let is_between = self.input.is_empty();
                let what = if is_between { "it hung up" } else { "it stopped within a line" };
                return Err(ClientError::Protocol(what.to_owned()));
            }
        }
    }

    fn more(&mut self) -> io::Result<usize> {
        // Also where something comes all the time.
        if Instant::now() > self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut chunk = [0; CHUNK];
        let count = self.transport.receive(&mut chunk, self.deadline)?;
        self.input.extend_from_slice(&chunk[..count]);
        Ok(count)
    }

    fn read(&mut self, line: &[u8]) -> Result<String, ClientError> {
        self.left = self
            .left
            .checked_sub(line.len() + 1)
            .ok_or_else(|| ClientError::Protocol("its answer does not end".to_owned()))?;
        let line = std::str::from_utf8(line).ok().filter(|line| !line.contains(char::is_control));
        let line = line.ok_or_else(|| ClientError::Protocol("this is no text".to_owned()))?;
        Ok(line.to_owned())
    }
}

/// A nonblocking one.
impl Transport for UnixStream {
    fn send(&mut self, bytes: &[u8], deadline: Instant) -> io::Result<usize> {
        until(self, libc::POLLOUT, deadline, |stream| socket::send(stream, bytes))
    }

    fn receive(&mut self, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
        until(self, libc::POLLIN, deadline, |mut stream| io::Read::read(&mut stream, into))
    }
}

/// Tries again whenever the stream is ready for it.
fn until(
    stream: &UnixStream,
    events: i16,
    deadline: Instant,
    mut attempt: impl FnMut(&UnixStream) -> io::Result<usize>,
) -> io::Result<usize> {
    loop {
        match attempt(stream) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let fd = libc::pollfd { fd: stream.as_raw_fd(), events, revents: 0 };
        socket::poll(&mut [fd], Some(left))?;
    }
}
