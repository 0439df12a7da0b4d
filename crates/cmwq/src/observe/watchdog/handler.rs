//! Who is told of stalls.

use super::Stall;
use crate::engine::process::watch_forks;
use crate::engine::threads::invoke;
use crate::os::notice;
use crate::os::panic::guarded;
use crate::os::sync::{Arc, PlainMutex, lock_plain};

type Handler = Arc<dyn Fn(&Stall) + Send + Sync>;

static HANDLER: PlainMutex<Option<Handler>> = PlainMutex::new(None);

/// See `fork`.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) type HandlerGuard = crate::os::sync::PlainGuard<'static, Option<Handler>>;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn lock_handler() -> HandlerGuard {
    lock_plain(&HANDLER)
}

/// Sets what is called with each report of a stall, in place of writing it to standard error. It
/// runs on the watchdog's thread, which looks at nothing meanwhile, under no lock; a panic in it is
/// swallowed. [`set_panic_on_stall`](super::set_panic_on_stall) comes after it.
///
/// ```
/// cmwq::set_watchdog_handler(|stall| eprintln!("{stall}"));
/// ```
pub fn set_handler(handler: impl Fn(&Stall) + Send + Sync + 'static) {
    watch_forks();
    let before = lock_plain(&HANDLER).replace(Arc::new(handler));
    drop(before);
}

/// Has stalls written to standard error again.
pub fn clear_handler() {
    watch_forks();
    let before = lock_plain(&HANDLER).take();
    drop(before);
}

/// LIMIT: so many reports are kept for [`notices`](crate::notices); one that stands still for ever
/// is reported for ever.
const MOST_KEPT: u32 = 16;

/// Tells of one stall. `nr`: how many reports there were before. `true`: it was written.
pub(super) fn tell(stall: &Stall, nr: u32) -> bool {
    let handler = lock_plain(&HANDLER).clone();
    if let Some(handler) = handler {
        invoke::foreign(|| "a watchdog handler".to_owned(), || guarded(|| handler(stall)));
        return false;
    }
    let text = stall.to_string();
    if nr < MOST_KEPT {
        notice::always(text);
    } else {
        notice::say(&text);
    }
    true
}
