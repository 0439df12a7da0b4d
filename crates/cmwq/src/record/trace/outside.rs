//! The same events for others: the `tracing` crate (feature `tracing`) and USDT probes (feature
//! `usdt`).
//!
//! A probe is an instruction that does nothing, and a note in the binary that says where it is and
//! where its arguments are; it may be anywhere. A subscriber of `tracing` is the program's code: it
//! is called without any of this library's locks, so blocked and resumed workers and activations,
//! which are found under such, are not told. Its panics end here: there is a worker or the service
//! thread behind.

#[cfg(feature = "tracing")]
use cmwq_core::Claim;
use cmwq_core::{WorkFn, WorkItem};

use super::TracedQueue;
#[cfg(feature = "tracing")]
use super::{TracedPool, callers};
#[cfg(feature = "tracing")]
use crate::os::panic::{drop_guarded, guarded};

/// A USDT probe of this library, with its arguments as numbers.
macro_rules! probe {
    ($name:ident $(, $argument:expr)*) => {{
        #[cfg(all(feature = "usdt", not(any(cmwq_loom, cmwq_shuttle))))]
        #[allow(
            unused_unsafe,
            reason = "arguments with a block of their own stand in one of `probe`'s"
        )]
        {
            ::probe::probe!(cmwq, $name $(, $argument)*);
        }
    }};
}

pub(super) use probe;

/// An item was queued. Caller holds no core lock; the item may be gone.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "there is nobody to tell"))]
#[inline]
pub(crate) fn queued(wq: &impl TracedQueue, item: *const WorkItem, func: WorkFn) {
    #[cfg(feature = "tracing")]
    guarded(|| {
        tracing::trace!(
            target: "cmwq",
            queue = wq.name(),
            work = ?item,
            function = &*callers::name_of(func as *const () as usize),
            "queue_work"
        );
    });
}

/// An item's function is called while the result lives.
#[cfg(feature = "tracing")]
#[inline]
pub(super) fn executing(pool: &impl TracedPool, claim: &Claim) -> Executing {
    let caller = callers::leave(claim.item);
    let mut entered = None;
    guarded(|| {
        if tracing::enabled!(target: "cmwq", tracing::Level::TRACE) {
            entered = Some(span(pool, claim, caller.as_ref()));
        }
        drop(caller);
    });
    Executing(entered)
}

/// The span of a run, which ends with this.
#[cfg(feature = "tracing")]
pub(super) struct Executing(Option<tracing::span::EnteredSpan>);

#[cfg(feature = "tracing")]
impl Drop for Executing {
    fn drop(&mut self) {
        if let Some(entered) = self.0.take() {
            drop_guarded(entered);
        }
    }
}

#[cfg(feature = "tracing")]
#[cold]
fn span(
    pool: &impl TracedPool,
    claim: &Claim,
    caller: Option<&tracing::Span>,
) -> tracing::span::EnteredSpan {
    let queue = pool.queue(claim.wq);
    let queue = queue.as_ref().map_or("", |queue| queue.name());
    tracing::trace_span!(
        target: "cmwq",
        parent: caller.and_then(tracing::Span::id),
        "execute",
        queue,
        work = ?claim.item,
        function = &*callers::name_of(claim.func as *const () as usize),
        pool = pool.id(),
    )
    .entered()
}

/// Something that workers do. Caller holds no core lock.
#[cfg(feature = "tracing")]
#[cold]
pub(super) fn told(name: &'static str, pool: u32, tid: i32) {
    guarded(|| tracing::trace!(target: "cmwq", pool, worker = tid, "{name}"));
}
