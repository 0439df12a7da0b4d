//! A time that is put off while commands stand still (Ctrl-Z).

use std::time::{Duration, Instant};

use super::running::Running;

/// See the module header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    /// How long they had stood still before.
    stood: Duration,
}

impl Deadline {
    /// So long from now. `None`: it never comes.
    pub(super) fn after(running: &Running, time: Duration) -> Option<Self> {
        let stood = running.stood_still();
        Instant::now().checked_add(time).map(|at| Self { at, stood })
    }

    /// How long it takes still.
    pub(super) fn left(&self, running: &Running) -> Duration {
        let put_off = running.stood_still().saturating_sub(self.stood);
        (self.at + put_off).saturating_duration_since(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn it_is_put_off_while_commands_stand_still() {
        let (far, pause) = (Duration::from_secs(600), Duration::from_millis(20));
        let running = Running::default();
        let begin = Instant::now();
        let deadline = Deadline::after(&running, far).unwrap();
        running.pause(|| thread::sleep(pause));
        assert!(deadline.left(&running) + begin.elapsed() >= far + pause);
        let later = Deadline::after(&running, far).unwrap();
        assert!(later.left(&running) <= far, "what was before is not its");
    }
}
