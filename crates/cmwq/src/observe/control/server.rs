//! The thread that serves the socket.
//!
//! It alone reads and writes, and never waits for one client: all are polled together, and whoever
//! takes longer than [`Limits`] allow is shown the door. It takes the runtime's locks as any caller
//! of the library does, for as long.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use super::answer::answer;
use super::fds;
use super::session::{Limits, Session};
use crate::engine::service;
use crate::os::sense::{LastingFd, socket};

/// What is read at a time.
const CHUNK: usize = 4096;
/// How long nobody is let in when that has failed, for want of descriptors perhaps.
const REST: Duration = Duration::from_millis(100);
/// Clients let in at a time.
const ACCEPTS: usize = 16;

/// What the thread has.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) listener: LastingFd<UnixListener>,
    /// Its other end is closed when the server is to go.
    pub(super) stop: LastingFd<UnixStream>,
    pub(super) limits: Limits,
}

#[derive(Debug)]
struct Client {
    stream: LastingFd<UnixStream>,
    session: Session,
}

impl Server {
    /// Serves until told to stop.
    pub(super) fn run(self) {
        service::leave_creation();
        let mut clients: Vec<Client> = Vec::new();
        let mut rests_until: Option<Instant> = None;
        loop {
            let now = Instant::now();
            rests_until = rests_until.filter(|until| *until > now);
            let deadlines = clients.iter().map(|client| client.session.deadline());
            let next = deadlines.chain(rests_until).min();
            let timeout = next.map(|next| next.saturating_duration_since(now));
            let mut fds = self.poll_list(&clients, rests_until.is_some());
            if socket::poll(&mut fds, timeout).is_err() {
                // For want of memory: nobody is served now.
                std::thread::sleep(REST);
                continue;
            }
            let is_ready = |index: usize| fds[index].revents != 0;
            if is_ready(0) {
                break;
            }
            let now = Instant::now();
            for (index, mut client) in std::mem::take(&mut clients).into_iter().enumerate() {
                let is_well = !is_ready(index + 2) || client.serve(now).is_ok();
                if is_well && !client.session.is_over() && client.session.deadline() > now {
                    clients.push(client);
                } else {
                    fds::close(client.stream);
                }
            }
            if is_ready(1) && self.admit(&mut clients, now).is_err() {
                rests_until = Some(now + REST);
            }
        }
        clients.into_iter().for_each(|client| fds::close(client.stream));
        fds::close(self.listener);
        fds::close(self.stop);
    }

    fn poll_list(&self, clients: &[Client], rests: bool) -> Vec<libc::pollfd> {
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        // A negative descriptor is left out.
        let listener = if rests { -1 } else { self.listener.as_raw_fd() };
        let mut fds =
            vec![entry(self.stop.as_raw_fd(), libc::POLLIN), entry(listener, libc::POLLIN)];
        fds.extend(clients.iter().map(|client| {
            let events = if client.session.wants_input() { libc::POLLIN } else { libc::POLLOUT };
            entry(client.stream.as_raw_fd(), events)
        }));
        fds
    }

    /// Lets in who waits.
    fn admit(&self, clients: &mut Vec<Client>, now: Instant) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let stream = match fds::remembered(|| Ok(self.listener.accept()?.0)) {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Somebody who has left again.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_full = clients.len() >= self.limits.connections;
            match Client::new(stream, &self.limits, is_full, now) {
                Ok(client) if !is_full && !client.session.is_over() => clients.push(client),
                // Told why, as far as one write does it.
                Ok(Client { stream, .. }) | Err(stream) => fds::close(stream),
            }
        }
        Ok(())
    }
}

impl Client {
    fn new(
        stream: LastingFd<UnixStream>,
        limits: &Limits,
        is_full: bool,
        now: Instant,
    ) -> Result<Self, LastingFd<UnixStream>> {
        let (Ok(peer), Ok(())) = (socket::peer(&stream), stream.set_nonblocking(true)) else {
            return Err(stream);
        };
        let mut session = Session::new(std::process::id(), limits, now);
        let mine = socket::effective_uid();
        if !may_ask(peer.uid, mine) {
            let text = format!(
                "this is a process of user {mine}; you are user {}, and not root",
                peer.uid
            );
            session.refuse("denied", &text);
        } else if is_full {
            session.refuse("busy", "too many clients; try again");
        }
        let mut client = Self { stream, session };
        match client.send(now) {
            Ok(()) => Ok(client),
            Err(_) => Err(client.stream),
        }
    }

    /// The stream is ready for what was asked of it.
    fn serve(&mut self, now: Instant) -> io::Result<()> {
        if self.session.wants_input() {
            let mut chunk = [0; CHUNK];
            match (&*self.stream).read(&mut chunk) {
                Ok(0) => self.session.receive_end(),
                Ok(count) => self.session.receive(&chunk[..count], now, answer),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.send(now)
    }

    fn send(&mut self, now: Instant) -> io::Result<()> {
        while !self.session.pending().is_empty() {
            match socket::send(&self.stream, self.session.pending()) {
                Ok(count) => self.session.has_sent(count, now, answer),
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether user `peer` may change what a process of user `mine` does: as with its signals.
fn may_ask(peer: u32, mine: u32) -> bool {
    peer == mine || peer == 0
}

#[cfg(test)]
mod tests;
