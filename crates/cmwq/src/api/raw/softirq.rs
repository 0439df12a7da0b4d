//! The queue whose BH items call the functions of timers and of `call_rcu`. It is the library's
//! own: nobody else can name it, so nobody drains or closes it, which would keep those items out.
//! In the kernel, too, draining a workqueue is nothing to a timer.

use crate::api::system;
use crate::api::workqueue::Workqueue;
use crate::os::error::Error;
use crate::os::sync::OnceLock;

/// The queue, made now if there is none yet; in a child the child's own, and with it the runtime.
///
/// # Errors
/// If no thread can be had for its first use, or after a shutdown.
#[allow(dead_code, reason = "loom has no timers of C's")]
pub(super) fn queue() -> Result<&'static Workqueue, Error> {
    static QUEUE: OnceLock<Workqueue> = OnceLock::new();
    let wq = system::get_or_build(&QUEUE, "softirq", |b| b.bh())?;
    wq.handle().make_ready()?;
    Ok(wq)
}
