//! What a closure has of the place where it was spawned: the runtime, and the span.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use tokio::runtime::Handle;

use crate::task::drop_quietly;

/// Entered around the closure when it runs.
#[derive(Debug)]
pub(crate) struct Context {
    runtime: Handle,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Context {
    /// The runtime is `runtime`, the span is the calling thread's.
    pub(crate) fn with(runtime: Handle) -> Self {
        Self {
            runtime,
            #[cfg(feature = "tracing")]
            span: tracing::Span::current(),
        }
    }

    pub(crate) fn run<T>(&self, func: impl FnOnce() -> T) -> thread::Result<T> {
        within(&self.runtime, || {
            #[cfg(feature = "tracing")]
            let _span = self.span.enter();
            func()
        })
    }

    /// The runtime alone: for what is dropped before or after the closure, which is not its work.
    pub(crate) fn leave_span(self) -> Handle {
        // A subscriber may panic as the span ends, which is not the closure's.
        #[cfg(feature = "tracing")]
        drop_quietly(self.span);
        self.runtime
    }
}

/// Calls `what` with the runtime entered, and catches its panic.
pub(crate) fn within<T>(runtime: &Handle, what: impl FnOnce() -> T) -> thread::Result<T> {
    // On a thread that ends it may be too late to enter one, which panics.
    let is_late = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
    let entered = (!is_late).then(|| runtime.enter());
    let outcome = catch_unwind(AssertUnwindSafe(what));
    // It panics if `what` has entered a runtime and leaked that.
    drop_quietly(entered);
    outcome
}
