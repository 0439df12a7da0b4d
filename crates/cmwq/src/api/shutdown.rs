//! Ending it all: for programs that want to leave nothing running when they end.

use std::fmt;
use std::time::{Duration, Instant};

use crate::engine::runtime::Runtime;
use crate::engine::threads::current;
use crate::observe::control;
use crate::os::thread_group;

/// Ends the library in this process: nothing new is let in, timers are disarmed, and when what has
/// been queued is done, all of its threads leave. Returns when they have; gives up waiting for
/// items `timeout` after the call.
///
/// It need not be called: a process may end, at any time, with items queued and running, as it may
/// with threads of its own. From the call on
/// - only running items may queue, on their own queue, as while it is
///   [drained](crate::Workqueue::drain); from anybody else reusable items are dropped and closures
///   [refused](crate::JoinError::is_refused);
/// - armed timers are disarmed, also those that are armed later: their items do not run. Closures
///   of [`queue_delayed`](crate::Workqueue::queue_delayed) are refused, and whoever joins or awaits
///   them is told when what they captured is dropped: by workers, so that it may wait for others
///   of them;
/// - queues cannot be made ([`Unavailable`](crate::ErrorKind::Unavailable)); handles and items
///   remain valid and may be dropped.
///
/// There is no way back, except for a forked child, which begins anew. A process that never used
/// the library may still do so afterwards.
///
/// Blocks the calling thread, also one of an executor: call it when the executor has ended, or from
/// a thread for blocking calls that is not one of this library's. With a timeout of zero it closes
/// everything and fails unless all is done already. A timeout beyond what the clock can show, such
/// as [`Duration::MAX`], is none. The timeout limits the wait for items. Two waits come on top and
/// have no limit: until the threads have left, their [stop hooks](crate::Config::on_thread_stop)
/// included; and until a thread can be created for an item that was queued at the last moment.
///
/// What refused closures captured has at least 200 ms to be dropped, whatever the timeout. If it is
/// the last handle of a queue that still has items, that queue is waited for, and
/// [`busy`](ShutdownError::busy) lists its name. If dropping a captured value blocks, `busy` lists
/// `reaper`, the library's own queue that drops such values.
///
/// Items on a [frozen](crate::freeze) queue do not begin:
/// [`thaw`](crate::thaw) first. It may be called more than once, also at the same time; each call
/// returns when the threads have left.
///
/// # Errors
/// If queues were still busy when the time was up; what was said above holds, their items go on,
/// and it can be called again. Called from a work function, a hook, or whatever else runs on one of
/// the library's threads, it fails immediately and closes nothing: it cannot wait for itself.
/// ```
/// use std::time::Duration;
/// let wq = cmwq::Workqueue::new("doc")?;
/// let last = wq.queue(|| 42);
/// cmwq::shutdown(Duration::from_secs(10))?;
/// assert_eq!(last.join()?, 42);
/// assert!(wq.queue(|| 43).join().unwrap_err().is_refused());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn shutdown(timeout: Duration) -> Result<(), ShutdownError> {
    let Some(runtime) = Runtime::existing() else { return Ok(()) };
    if current::own_wq().is_some() || thread_group::is_aboard() {
        let own = current::own_wq().and_then(|wq| runtime.wq_name(wq));
        return Err(ShutdownError { busy: own.into_iter().collect(), is_own: true });
    }
    // A time that no clock will ever show is as good as none.
    let deadline = Instant::now().checked_add(timeout);
    runtime.close_down(deadline).map_err(|busy| ShutdownError { busy, is_own: false })?;
    control::stop();
    #[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
    crate::record::trace::finish();
    Ok(())
}

/// Some queues are not done; see [`shutdown`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownError {
    busy: Vec<String>,
    is_own: bool,
}

impl ShutdownError {
    /// The names of the queues that have items queued or running.
    #[must_use]
    pub fn busy(&self) -> &[String] {
        &self.busy
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.busy.join("', '");
        if self.is_own && self.busy.is_empty() {
            return f.write_str("a thread of the library cannot wait for its own end");
        }
        if self.is_own {
            return write!(f, "a work function of workqueue '{names}' cannot wait for its own end");
        }
        write!(f, "still busy: workqueue '{names}'; call again to wait for more")
    }
}

impl std::error::Error for ShutdownError {}
