//! What one waits for between two looks: keys, signals, the end of the process, or just time.
//!
//! A thread waits for each kind and puts it into one channel. The threads end with this process.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event as Input, KeyEvent, KeyEventKind};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::enough;

/// See the module header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Key(KeyEvent),
    /// The terminal has another size.
    Resize,
    /// A signal ends this process, or the terminal is gone.
    Enough,
    /// The process that is looked at has ended.
    Ended,
    /// Nothing came for so long.
    Time,
}

/// Where they come from.
pub(super) struct Events {
    receiver: Receiver<Event>,
    sender: Sender<Event>,
}

impl Events {
    /// Signals, and the end of process `pid`. From now on SIGINT, SIGTERM and SIGHUP do not end
    /// this process by themselves. `has_screen`: the terminal has to be given back whatever comes,
    /// and without it there is nothing to do, whoever ignores that it has gone.
    pub(super) fn of_process(pid: u32, has_screen: bool) -> io::Result<Self> {
        const ENDS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
        let (sender, receiver) = channel();
        let to = sender.clone();
        if has_screen {
            let mut signals = Signals::new(ENDS)?;
            thread::spawn(move || signals.forever().try_for_each(|_| to.send(Event::Enough)));
        } else {
            enough::listen(&ENDS, move || _ = to.send(Event::Enough))?;
        }
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // A system without such descriptors shows the end at the next look.
        if let Some(end) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            let to = sender.clone();
            thread::spawn(move || {
                let wait = || poll(&mut [PollFd::new(&end, PollFlags::IN)], None);
                while wait() == Err(rustix::io::Errno::INTR) {}
                let _ = to.send(Event::Ended);
            });
        }
        Ok(Self { receiver, sender })
    }

    /// And what comes from the terminal.
    pub(super) fn add_terminal(&self) {
        let to = self.sender.clone();
        thread::spawn(move || {
            loop {
                let event = match event::read() {
                    Ok(Input::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
                    Ok(Input::Resize(..)) => Event::Resize,
                    Ok(_) => continue,
                    Err(_) => Event::Enough,
                };
                let is_last = event == Event::Enough;
                if to.send(event).is_err() || is_last {
                    return;
                }
            }
        });
    }

    /// The next one. Blocks for `time` at most.
    pub(super) fn wait(&self, time: Duration) -> Event {
        match self.receiver.recv_timeout(time) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => Event::Time,
            // There is a sender in `self`.
            Err(RecvTimeoutError::Disconnected) => Event::Enough,
        }
    }
}
