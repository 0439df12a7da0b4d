//! What other tests would suffer from: a child, and workers that closures have spoilt.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use cmwq_tokio::{JoinHandle, Spawner};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinError;

#[test]
fn a_closure_that_leaks_what_it_entered_has_its_value() {
    let runtime = Runtime::new().unwrap();
    let leaks = || {
        std::mem::forget(Handle::current().enter());
        7
    };
    runtime.block_on(async {
        assert_eq!(tokio::task::spawn_blocking(leaks).await.unwrap(), 7);
        assert_eq!(cmwq_tokio::spawn_blocking(leaks).await.unwrap(), 7);
        let panics = || -> u32 {
            std::mem::forget(Handle::current().enter());
            panic!("expected")
        };
        let payload = cmwq_tokio::spawn_blocking(panics).await.unwrap_err().into_panic();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "expected");
    });
}

fn poll(handle: &mut JoinHandle<u32>) -> Poll<Result<u32, JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(Waker::noop()))
}

/// What the parent has spawned is over in a child, as a wait for an item of cmwq's is.
#[test]
fn a_child_waits_for_no_closure_of_its_parents() {
    let runtime = Runtime::new().unwrap();
    let queue = cmwq::Workqueue::builder("forked").ordered().max_queued(2).build().unwrap();
    let queue = Spawner::new(queue);
    let ((begin, has_begun), (open, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let job = move || {
        begin.send(()).unwrap();
        gate.recv().unwrap();
        1
    };
    let mut first = queue.spawn_blocking_on(job, runtime.handle());
    has_begun.recv().unwrap();
    let place = queue.try_reserve().unwrap();
    let mut second = place.spawn_blocking_on(|| 2, runtime.handle());
    let abort = second.abort_handle();
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    let status = fork(|| {
        for handle in [&mut first, &mut second] {
            assert!(handle.is_finished());
            let Poll::Ready(end) = poll(handle) else { panic!("it would wait for ever") };
            assert!(end.unwrap_err().is_cancelled());
        }
        assert!(abort.is_finished());
        abort.abort();
    });
    assert_eq!(status, 0);
    assert!(!first.is_finished() && !second.is_finished());
    open.send(()).unwrap();
    runtime.block_on(async {
        assert_eq!(first.await.unwrap(), 1);
        assert_eq!(second.await.unwrap(), 2);
    });
}

/// The child plays `part`, and ends with 0 if that did not panic.
fn fork(part: impl FnOnce()) -> i32 {
    // SAFETY: the child does what cmwq allows there, and ends without what others have left to do.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let has_panicked = catch_unwind(AssertUnwindSafe(part)).is_err();
        // SAFETY: takes a number.
        unsafe { libc::_exit(i32::from(has_panicked)) };
    }
    assert!(pid > 0, "cannot fork");
    let mut status = 0;
    // SAFETY: a child of this process's, and a number to write to.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}
