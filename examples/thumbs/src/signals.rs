//! Being asked to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask a program to end.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on they no longer end the program by themselves.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The number of the next one.
    pub async fn next(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
        };
        kind.as_raw_value()
    }
}
