//! Panics in work functions: caught at the item's boundary, delivered or handled, never lost with a
//! worker.

use std::any::Any;

use crate::os::sync::{Arc, PlainMutex};

type Handler = Arc<dyn Fn(&(dyn Any + Send)) + Send + Sync>;

static HANDLER: PlainMutex<Option<Handler>> = PlainMutex::new(None);

/// See `fork`.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) type HandlerGuard = crate::os::sync::PlainGuard<'static, Option<Handler>>;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn lock_handler() -> HandlerGuard {
    crate::os::sync::lock_plain(&HANDLER)
}

/// Sets what is called with the payload of a panic that nobody will join: in a
/// [`Work`](crate::Work) function, or in a closure whose handle was dropped. Without a handler,
/// nothing is done beyond the message that Rust's panic hook has printed by then.
///
/// The handler runs on the worker, or where a handle is dropped whose closure has panicked already.
/// If it panics itself, that panic is swallowed.
pub fn set_panic_handler(handler: impl Fn(&(dyn Any + Send)) + Send + Sync + 'static) {
    if let Ok(mut slot) = HANDLER.lock() {
        *slot = Some(Arc::new(handler));
    }
}

/// A panic that nobody will join.
#[cold]
pub(crate) fn handle(payload: &(dyn Any + Send)) {
    let handler = HANDLER.lock().ok().and_then(|slot| slot.clone());
    if let Some(handler) = handler {
        handler(payload);
    }
}

/// The message of a panic's payload.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}
