//! What a closure has of the place where it was spawned: the runtime, and the span.

use tokio::runtime::Handle;

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

    pub(crate) fn run<T>(&self, func: impl FnOnce() -> T) -> T {
        let _entered = self.runtime.enter();
        #[cfg(feature = "tracing")]
        let _span = self.span.enter();
        func()
    }

    /// The runtime alone: for what is dropped before or after the closure, which is not its work.
    pub(crate) fn leave_span(self) -> Handle {
        self.runtime
    }
}
