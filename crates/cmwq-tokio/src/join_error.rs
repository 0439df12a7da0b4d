//! tokio's own `JoinError`, for closures that tokio did not run.
//!
//! tokio lets nobody else make one. So a task that fails in the same way is run, here and at once,
//! by a `LocalSet` that needs no runtime. That costs a microsecond or two, and only where a closure
//! has panicked or was cancelled.

use std::any::Any;
use std::future::{self, Future};
use std::panic::resume_unwind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::task::{JoinError, JoinHandle, LocalSet, unconstrained};

/// The error of a task that panicked with `payload`. No panic hook is called.
pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> JoinError {
    let mut tasks = LocalSet::new();
    let handle = tasks.spawn_local(async move { resume_unwind(payload) });
    let done = poll_once(&mut tasks);
    debug_assert!(done.is_ready(), "the only task has panicked");
    error_of(handle)
}

/// The error of a task that was cancelled.
pub(crate) fn cancelled() -> JoinError {
    let tasks = LocalSet::new();
    let handle = tasks.spawn_local(future::pending::<()>());
    // Cancels what is left in it.
    drop(tasks);
    error_of(handle)
}

fn error_of(handle: JoinHandle<()>) -> JoinError {
    // The caller's task may have used up its budget, which is no reason to wait.
    match poll_once(unconstrained(handle)) {
        Poll::Ready(Err(error)) => error,
        other => unreachable!("a task that has failed is {other:?}"),
    }
}

fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() {
        let error = panicked(Box::new("expected"));
        assert!(error.is_panic() && !error.is_cancelled());
        assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "expected");
        let error = cancelled();
        assert!(error.is_cancelled() && !error.is_panic());
    }

    #[test]
    fn it_needs_no_runtime() {
        check();
    }

    #[test]
    fn it_is_made_within_runtimes_and_local_sets() {
        let threads = tokio::runtime::Builder::new_multi_thread().build().unwrap();
        threads.block_on(async { tokio::spawn(async { check() }).await.unwrap() });
        let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let within = LocalSet::new();
        within.block_on(&one, async {
            check();
            tokio::task::spawn_local(async { check() }).await.unwrap();
        });
    }

    #[test]
    fn it_is_made_by_a_task_without_budget() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            while tokio::task::coop::has_budget_remaining() {
                let one = tokio::task::coop::cooperative(future::ready(()));
                assert!(poll_once(one).is_ready());
            }
            check();
        });
    }
}
