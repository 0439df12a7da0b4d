//! Being asked to end.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// One that comes again so soon is the same: timeout(1), for one, sends each twice.
const SAME: Duration = Duration::from_millis(500);
/// For Ctrl-C, which a hand presses again on purpose.
const SAME_INTERRUPT: Duration = Duration::from_millis(50);

/// The signals that ask a program to end.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The last one that was told of, and when.
    last: Option<(SignalKind, Instant)>,
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
            last: None,
        })
    }

    /// The number of the next one. The same again at once is none.
    pub async fn next(&mut self) -> i32 {
        loop {
            let kind = tokio::select! {
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.terminate.recv() => SignalKind::terminate(),
            };
            let now = Instant::now();
            if is_another(self.last, kind, now) {
                self.last = Some((kind, now));
                return kind.as_raw_value();
            }
        }
    }
}

/// Whether one that comes now is another one than the last.
fn is_another(last: Option<(SignalKind, Instant)>, kind: SignalKind, now: Instant) -> bool {
    let same = if kind == SignalKind::interrupt() { SAME_INTERRUPT } else { SAME };
    last.is_none_or(|(of, at)| of != kind || now.duration_since(at) >= same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_sent_twice_at_once_is_one() {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        let first = Instant::now();
        assert!(is_another(None, terminate, first));
        let after = |last, kind, ms| {
            is_another(Some((last, first)), kind, first + Duration::from_millis(ms))
        };
        assert!(!after(terminate, terminate, 0));
        assert!(!after(terminate, terminate, 499));
        assert!(after(terminate, terminate, 500));
        assert!(!after(interrupt, interrupt, 49));
        assert!(after(interrupt, interrupt, 50), "a hand is not faster");
        assert!(after(terminate, interrupt, 0));
    }
}
