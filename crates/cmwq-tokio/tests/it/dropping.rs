//! What is dropped on a worker, or wherever a closure is taken back, finds its runtime entered.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use cmwq_tokio::AbortHandle;
use tokio::runtime::Handle;

use crate::support::{Gate, PATIENCE, block_on, occupy, on_each_runtime, ordered, threads, within};

/// Says as it is dropped whether a runtime is entered, and needs one, as a connection does that
/// goes back to its pool by a task.
struct Connection(Sender<bool>);

impl Drop for Connection {
    fn drop(&mut self) {
        let is_entered = Handle::try_current().is_ok();
        self.0.send(is_entered).unwrap();
        drop(Handle::current().spawn(async {}));
    }
}

/// As tokio's does.
#[test]
fn a_value_that_nobody_wants_is_dropped_within_the_runtime() {
    on_each_runtime(|| async {
        for is_tokios in [true, false] {
            let gate = Gate::default();
            let (sender, receiver) = channel();
            let door = gate.door();
            let closure = move || {
                door.pass();
                Connection(sender)
            };
            if is_tokios {
                drop(tokio::task::spawn_blocking(closure));
            } else {
                drop(cmwq_tokio::spawn_blocking(closure));
            }
            gate.open();
            assert!(receiver.recv_timeout(PATIENCE).unwrap(), "tokio's: {is_tokios}");
        }
    });
}

#[test]
fn what_a_plain_thread_takes_back_is_dropped_within_the_runtime() {
    on_each_runtime(|| async {
        let queue = ordered("taken-back");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let (sender, receiver) = channel();
        let connection = Connection(sender);
        let second = queue.spawn_blocking(move || drop(connection));
        let abort = second.abort_handle();
        thread::spawn(move || abort.abort()).join().unwrap();
        assert!(receiver.recv_timeout(PATIENCE).unwrap());
        assert!(within(second).await.unwrap_err().is_cancelled());
        gate.open();
        first.await.unwrap();
    });
}

#[test]
fn what_a_closed_queue_refuses_a_plain_thread_is_dropped_within_the_runtime() {
    let runtime = threads();
    let queue = ordered("refused");
    block_on(&runtime, async { queue.close().await });
    let (sender, receiver) = channel();
    let connection = Connection(sender);
    let refused = queue.spawn_blocking_on(move || drop(connection), runtime.handle());
    assert!(receiver.recv_timeout(PATIENCE).unwrap());
    assert!(block_on(&runtime, refused).unwrap_err().is_cancelled());
}

/// Takes a closure back where a thread ends, which knows of no runtime any more.
struct Aborts(AbortHandle);

impl Drop for Aborts {
    fn drop(&mut self) {
        assert!(Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()));
        self.0.abort();
    }
}

#[test]
fn what_a_thread_takes_back_as_it_ends_was_cancelled() {
    std::thread_local!(static LAST: RefCell<Option<Aborts>> = const { RefCell::new(None) });
    on_each_runtime(|| async {
        let queue = ordered("thread-ends");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let second = queue.spawn_blocking(|| ());
        let (abort, runtime) = (second.abort_handle(), Handle::current());
        let ending = move || {
            LAST.set(Some(Aborts(abort)));
            // What is used later is gone first.
            drop(runtime.enter());
        };
        thread::spawn(ending).join().unwrap();
        let error = within(second).await.unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        gate.open();
        first.await.unwrap();
    });
}
