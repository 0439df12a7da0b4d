//! Panics in work functions: caught at the item's boundary, delivered or handled, never lost with a
//! worker.

use std::any::Any;
use std::fmt;
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::os::foreign::harmless;
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

/// A panic that nobody will join, as [handlers](crate::set_item_panic_handler) see it.
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
            write!(f, " of workqueue '{}'", harmless(queue))?;
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
    let mut what = Some(what);
    catch(&mut || {
        if let Some(what) = what.take() {
            what();
        }
    });
}

/// Drops something of the user's that must not unwind into the worker.
pub(crate) fn drop_guarded<T>(what: T) {
    if needs_drop::<T>() {
        empty_guarded(&mut Some(what));
    }
}

/// What is dropped, as [`catch`] sees it: a closure for each type would be four functions more.
trait Empty {
    fn empty(&mut self);
}

impl<T> Empty for Option<T> {
    fn empty(&mut self) {
        *self = None;
    }
}

fn empty_guarded(what: &mut dyn Empty) {
    catch(&mut || what.empty());
}

/// As [`drop_guarded`], where each item does it: compiled for each type, and in line.
#[inline]
pub(crate) fn drop_guarded_in_line<T>(what: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(what))) {
        drop_payload(payload);
    }
}

/// Compiled once, and not for each closure that a program queues.
fn catch(what: &mut dyn FnMut()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(what)) {
        drop_payload(payload);
    }
}

/// A payload may panic when it is dropped; what that panics with is leaked, or there would be no
/// end to it.
#[cold]
fn drop_payload(payload: Box<dyn Any + Send>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
}
