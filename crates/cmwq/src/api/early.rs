//! Calls that a program may make before it uses the library: they begin nothing, and a child that
//! is forked meanwhile can do everything.

use std::any::Any;

use crate::engine::process::watch_forks;
use crate::os::notice;
use crate::os::panic::{self, ItemPanic};

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
    watch_forks();
    panic::set(panic::handler(handler));
}

/// What was logged so far, in order: each text once, with how often it was logged if that is more,
/// and of one kind no more than sixteen. `CMWQ_QUIET` and
/// [`Config::on_notice`](crate::Config::on_notice) change nothing here. For diagnosis and tests.
#[must_use]
pub fn notices() -> Vec<String> {
    watch_forks();
    notice::all()
}
