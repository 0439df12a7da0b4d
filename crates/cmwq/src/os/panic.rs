//! Panics in work functions: caught at the item's boundary, delivered or handled, never lost with a
//! worker.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::os::sync::{Arc, PlainMutex};

pub(crate) type Handler = Arc<dyn Fn(&ItemPanic<'_>) + Send + Sync>;

static HANDLER: PlainMutex<Option<Handler>> = PlainMutex::new(None);

/// See `fork`.
#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) type HandlerGuard = crate::os::sync::PlainGuard<'static, Option<Handler>>;

#[cfg(not(any(cmwq_loom, cmwq_shuttle)))]
pub(crate) fn lock_handler() -> HandlerGuard {
    crate::os::sync::lock_plain(&HANDLER)
}

/// A panic that nobody will join, as [handlers](set_item_panic_handler) see it.
pub struct ItemPanic<'a> {
    payload: &'a (dyn Any + Send),
    origin: Origin,
}

/// Whose panic it is, by names, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) queue: Option<String>,
    pub(crate) function: Option<String>,
}

impl ItemPanic<'_> {
    /// What it panicked with.
    #[must_use]
    pub fn payload(&self) -> &(dyn Any + Send) {
        self.payload
    }

    /// Its message, if it has one.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        message(self.payload)
    }

    /// The name of the item's queue. `None`: it is not known any more, since the panic came out
    /// when the handle of a closure was dropped that had ended before.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        self.origin.queue.as_deref()
    }

    /// The name of the item's function: of a closure its type, as `my_program::main::{{closure}}`.
    /// Where there is no name, an address.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        self.origin.function.as_deref()
    }
}

impl fmt::Display for ItemPanic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a work item")?;
        if let Some(queue) = self.queue() {
            write!(f, " of workqueue '{queue}'")?;
        }
        if let Some(function) = self.function() {
            write!(f, " ({function})")?;
        }
        write!(f, " panicked: {}", self.message().unwrap_or("(no message)"))
    }
}

impl fmt::Debug for ItemPanic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemPanic")
            .field("queue", &self.queue())
            .field("function", &self.function())
            .field("message", &self.message())
            .finish()
    }
}

/// Sets what is called with the payload of a panic that nobody will join: in a
/// [`Work`](crate::Work) function, or in a closure whose handle was dropped. Without a handler,
/// nothing is done beyond the message that Rust's panic hook has printed by then.
///
/// The handler runs on the worker, or where a handle is dropped whose closure has panicked already;
/// on several threads at once, if several items panic. If it panics itself, that panic is
/// swallowed. It may call this library, and set another handler.
///
/// There is one handler for the process: this, what [`set_item_panic_handler`] sets, or
/// [`Config::on_panic`](crate::Config::on_panic). Setting one replaces the one before, which is
/// dropped, and not returned; calls of it that have begun go on. There is no call to clear it: a
/// handler that does nothing is the same as none. It may be set at any time and from any thread. A
/// forked child has its parent's.
pub fn set_panic_handler(handler: impl Fn(&(dyn Any + Send)) + Send + Sync + 'static) {
    set_item_panic_handler(move |panic| handler(panic.payload()));
}

/// As [`set_panic_handler`], with a handler that is told the item's queue and function, too.
///
/// ```
/// cmwq::set_item_panic_handler(|panic| eprintln!("{panic}"));
/// ```
pub fn set_item_panic_handler(handler: impl Fn(&ItemPanic<'_>) + Send + Sync + 'static) {
    set(self::handler(handler));
}

pub(crate) fn handler(handler: impl Fn(&ItemPanic<'_>) + Send + Sync + 'static) -> Handler {
    Arc::new(handler)
}

pub(crate) fn set(handler: Handler) {
    let before = HANDLER.lock().ok().and_then(|mut slot| slot.replace(handler));
    drop(before);
}

/// A panic that nobody will join.
#[cold]
pub(crate) fn handle(payload: &(dyn Any + Send), origin: impl FnOnce() -> Origin) {
    let handler = HANDLER.lock().ok().and_then(|slot| slot.clone());
    if let Some(handler) = handler {
        handler(&ItemPanic { payload, origin: origin() });
    }
}

/// The message of a panic's payload.
pub(crate) fn message(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Calls something of the user's that must not unwind into the worker.
pub(crate) fn guarded(what: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(what)) {
        // A payload may panic when it is dropped; what that panics with is leaked, or there would
        // be no end to it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
    }
}
