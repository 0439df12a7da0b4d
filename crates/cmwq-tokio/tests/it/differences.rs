//! The other side of the table in the README: what tokio's own pool does, beside what is done here
//! where the two differ. A line here that fails is a line there to change.
//!
//! Not here are rows about what is only here, or only said: numbers of threads, pools, priorities,
//! spans (`spans`), `carry` (`carrying`), threads that the kernel refuses, and systems.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, spawn_blocking, try_id};
use tokio::time::timeout;

use crate::support::{Gate, PATIENCE, block_on, on_each_runtime, one_thread, within};

/// So long something is given to happen that does not.
const MOMENT: Duration = Duration::from_millis(100);

/// A runtime of which tokio's pool has one thread.
fn with_one_blocking_thread() -> Runtime {
    Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap()
}

#[test]
fn an_aborted_closure_of_tokios_waits_for_its_turn() {
    block_on(&with_one_blocking_thread(), async {
        let gate = Gate::default();
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let door = gate.door();
        let first = spawn_blocking(move || {
            begun.send(()).unwrap();
            door.pass();
        });
        is_begun.await.unwrap();
        let second = spawn_blocking(|| ());
        second.abort();
        tokio::task::yield_now().await;
        assert!(!second.is_finished(), "it is dropped before its turn now: see the README");
        gate.open();
        first.await.unwrap();
        assert!(second.await.unwrap_err().is_cancelled());
    });
}

#[test]
fn what_has_begun_goes_on_whatever_becomes_of_its_handle() {
    on_each_runtime(|| async {
        for is_aborted in [true, false] {
            let gate = Gate::default();
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            let (door, value) = (gate.door(), sender.clone());
            let tokios = spawn_blocking(move || {
                value.send(1).unwrap();
                door.pass();
                value.send(2).unwrap();
            });
            let door = gate.door();
            assert_eq!(receiver.recv().await, Some(1));
            let ours = cmwq_tokio::spawn_blocking(move || {
                sender.send(3).unwrap();
                door.pass();
                sender.send(4).unwrap();
            });
            assert_eq!(receiver.recv().await, Some(3));
            if is_aborted {
                tokios.abort();
                ours.abort();
            }
            drop((tokios, ours));
            gate.open();
            let mut ends = [within(receiver.recv()).await, within(receiver.recv()).await];
            ends.sort();
            assert_eq!(ends, [Some(2), Some(4)]);
        }
    });
}

#[test]
fn a_closure_of_tokios_is_a_task_and_ours_is_none() {
    on_each_runtime(|| async {
        assert!(spawn_blocking(|| try_id().is_some()).await.unwrap());
        assert!(cmwq_tokio::spawn_blocking(|| try_id().is_none()).await.unwrap());
    });
}

#[test]
fn a_runtimes_settings_for_its_threads_hold_for_tokios() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let count = move || _ = counter.fetch_add(1, Ordering::SeqCst);
    let runtime =
        Builder::new_current_thread().on_thread_start(count).enable_all().build().unwrap();
    block_on(&runtime, async {
        cmwq_tokio::spawn_blocking(|| ()).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 0);
        spawn_blocking(|| ()).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    });
}

/// Of tokio's an error has the id that the handle and the closure have; of ours it has some id.
#[test]
fn an_errors_id_is_that_of_the_closure_only_with_tokio() {
    on_each_runtime(|| async {
        let tokios = spawn_blocking(|| std::panic::panic_any(tokio::task::id()));
        let id = tokios.id();
        let error = tokios.await.unwrap_err();
        assert_eq!(error.id(), id);
        assert_eq!(*error.into_panic().downcast::<tokio::task::Id>().unwrap(), id);

        let ours = || cmwq_tokio::spawn_blocking(|| std::panic::panic_any("expected"));
        let (one, other) = (ours().await.unwrap_err(), ours().await.unwrap_err());
        assert_ne!(one.id(), other.id());
        assert!(one.is_panic() && !one.is_cancelled());
        assert!(one.to_string().contains(&format!("task {} panicked", one.id())), "{one}");
        assert_eq!(*one.into_panic().downcast::<&str>().unwrap(), "expected");
        assert_eq!(*other.try_into_panic().unwrap().downcast::<&str>().unwrap(), "expected");
    });
}

#[test]
fn a_join_set_takes_handles_as_futures() {
    on_each_runtime(|| async {
        let mut set = JoinSet::new();
        for number in 0..10 {
            set.spawn(cmwq_tokio::spawn_blocking(move || number));
        }
        let mut sum = 0;
        while let Some(value) = within(set.join_next()).await {
            sum += value.unwrap().unwrap();
        }
        assert_eq!(sum, 45);
    });
}

#[test]
fn neither_inherits_task_local_values() {
    tokio::task_local!(static KEY: u32);
    on_each_runtime(|| {
        KEY.scope(1, async {
            let has_none = || KEY.try_with(|_| ()).is_err();
            assert!(spawn_blocking(has_none).await.unwrap());
            assert!(cmwq_tokio::spawn_blocking(has_none).await.unwrap());
        })
    });
}

/// Ours is in `blocking`.
#[test]
fn block_in_place_in_a_closure_of_tokios_lets_nobody_begin() {
    block_on(&with_one_blocking_thread(), async {
        let (begun, is_begun) = mpsc::channel();
        let first = spawn_blocking(move || {
            let second = spawn_blocking(move || begun.send(()));
            let waited = tokio::task::block_in_place(|| is_begun.recv_timeout(MOMENT));
            assert_eq!(waited, Err(RecvTimeoutError::Timeout));
            (is_begun, second)
        });
        let (_is_begun, second) = first.await.unwrap();
        second.await.unwrap().unwrap();
    });
}

/// With tokio's, the time that is paused goes on only when the closure has ended; with ours the
/// timeout is over though the closure has not ended.
#[test]
fn time_that_is_paused_stands_still_only_for_tokios() {
    const HOUR: Duration = Duration::from_secs(3600);
    let paused = || Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    paused().block_on(async {
        let tokios = spawn_blocking(|| thread::sleep(MOMENT));
        timeout(HOUR, tokios).await.expect("time went on").unwrap();
    });
    paused().block_on(async {
        let gate = Gate::default();
        let door = gate.door();
        let mut ours = cmwq_tokio::spawn_blocking(move || door.pass());
        timeout(HOUR, &mut ours).await.expect_err("it waited for the closure: see the README");
        gate.open();
        ours.await.unwrap();
    });
}

/// tokio's runtime waits for what has begun, runs or cancels the rest, and cancels what comes
/// later.
#[test]
fn a_runtime_that_ends_takes_only_tokios_closures_along() {
    let runtime = with_one_blocking_thread();
    let handle = runtime.handle().clone();
    let gate = Gate::default();
    let (begun, is_begun) = mpsc::channel();
    let (door, ours_door) = (gate.door(), gate.door());
    let first = handle.spawn_blocking(move || {
        begun.send(()).unwrap();
        door.pass();
    });
    let second = handle.spawn_blocking(|| ());
    is_begun.recv_timeout(PATIENCE).unwrap();
    let ours = cmwq_tokio::spawner().spawn_blocking_on(move || ours_door.pass(), &handle);
    let (ended, has_ended) = mpsc::channel();
    let ending = thread::spawn(move || {
        drop(runtime);
        ended.send(()).unwrap();
    });
    assert_eq!(has_ended.recv_timeout(MOMENT), Err(RecvTimeoutError::Timeout), "it does not wait");
    gate.open();
    has_ended.recv_timeout(PATIENCE).unwrap();
    ending.join().unwrap();
    block_on(&one_thread(), async {
        first.await.unwrap();
        assert!(second.await.err().is_none_or(|error| error.is_cancelled()));
        assert!(handle.spawn_blocking(|| ()).await.unwrap_err().is_cancelled());
        ours.await.unwrap();
        let late = cmwq_tokio::spawner().spawn_blocking_on(|| 1, &handle);
        assert_eq!(late.await.unwrap(), 1);
    });
}

/// tokio's runtime does not know of closures that are not its own, and does not wait for them.
#[test]
fn a_runtime_ends_while_closures_of_ours_run() {
    let runtime = one_thread();
    let gate = Gate::default();
    let door = gate.door();
    let (begun, is_begun) = mpsc::channel();
    let job = move || {
        begun.send(()).unwrap();
        door.pass();
    };
    let ours = cmwq_tokio::spawner().spawn_blocking_on(job, runtime.handle());
    is_begun.recv_timeout(PATIENCE).unwrap();
    drop(runtime);
    assert!(!ours.is_finished());
    gate.open();
    block_on(&one_thread(), async { ours.await.unwrap() });
}
