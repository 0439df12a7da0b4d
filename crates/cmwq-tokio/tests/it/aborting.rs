//! Closures that are taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cmwq_tokio::{JoinHandle, Spawner, spawn_blocking};

use crate::support::{Drops, Gate, occupy, on_each_runtime, ordered, with_places, within};

#[test]
fn what_has_not_begun_is_dropped_at_once() {
    on_each_runtime(|| async {
        let queue = ordered("aborted");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let drops = Drops::default();
        let captured = drops.clone();
        let second = queue.spawn_blocking(move || drop(captured));
        assert_eq!(drops.alive(), 1);
        assert!(!second.is_finished());
        second.abort();
        assert_eq!(drops.alive(), 0);
        assert!(second.is_finished());
        // Though the queue is still occupied.
        let error = within(second).await.unwrap_err();
        assert!(error.is_cancelled() && !error.is_panic());
        gate.open();
        first.await.unwrap();
    });
}

#[test]
fn a_task_that_waits_is_woken() {
    on_each_runtime(|| async {
        let queue = ordered("woken");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let second = queue.spawn_blocking(|| ());
        let abort = second.abort_handle();
        let waiting = tokio::spawn(second);
        tokio::task::yield_now().await;
        abort.abort();
        assert!(within(waiting).await.unwrap().unwrap_err().is_cancelled());
        gate.open();
        first.await.unwrap();
    });
}

#[test]
fn what_has_begun_goes_on() {
    on_each_runtime(|| async {
        let queue = ordered("begun");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        first.abort();
        first.abort_handle().abort();
        assert!(!first.is_finished());
        gate.open();
        within(first).await.unwrap();
        let done = spawn_blocking(|| 1);
        let abort = done.abort_handle();
        within(queue.flush()).await;
        let value = within(done).await.unwrap();
        abort.abort();
        assert_eq!(value, 1);
    });
}

#[test]
fn a_closure_may_abort_itself_in_vain() {
    on_each_runtime(|| async {
        let (sender, receiver) = std::sync::mpsc::channel::<cmwq_tokio::AbortHandle>();
        let handle = spawn_blocking(move || receiver.recv().unwrap().abort());
        sender.send(handle.abort_handle()).unwrap();
        within(handle).await.unwrap();
    });
}

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("as it is dropped");
    }
}

/// A queue whose first closure stands at the gate, and its second has captured [`Panics`].
async fn with_one_that_panics(gate: &Gate) -> (Spawner, JoinHandle<()>, JoinHandle<()>) {
    let queue = ordered("panicking");
    let first = occupy(&queue, gate).await;
    let panics = Panics;
    let second = queue.spawn_blocking(move || std::mem::forget(panics));
    (queue, first, second)
}

#[test]
fn a_panic_of_what_was_captured_is_told() {
    on_each_runtime(|| async {
        let gate = Gate::default();
        let (_queue, first, second) = with_one_that_panics(&gate).await;
        second.abort();
        let payload = within(second).await.unwrap_err().into_panic();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "as it is dropped");
        gate.open();
        first.await.unwrap();
    });
}

/// It is not the one who aborts that it belongs to.
#[test]
fn a_panic_of_what_was_captured_by_a_closure_without_a_handle_is_not_the_aborters() {
    on_each_runtime(|| async {
        let gate = Gate::default();
        let (_queue, first, second) = with_one_that_panics(&gate).await;
        let abort = second.abort_handle();
        drop(second);
        abort.abort();
        assert!(abort.is_finished());
        gate.open();
        first.await.unwrap();
    });
}

#[test]
fn dropping_a_handle_takes_its_closure_back_if_asked_to() {
    on_each_runtime(|| async {
        let queue = with_places("dropped", 3);
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let runs: [_; 3] = std::array::from_fn(|_| Arc::new(AtomicBool::new(false)));
        let spawn = |run: &Arc<AtomicBool>| {
            let run = Arc::clone(run);
            queue.try_spawn_blocking(move || run.store(true, Ordering::SeqCst)).unwrap()
        };
        let [one, two, three] = runs.each_ref().map(|run| spawn(run).abort_on_drop());
        drop(one);
        drop(two.detach());
        assert_eq!(queue.queue().stats().queued, 2, "one was taken off the queue");
        assert!(queue.try_reserve().is_ok(), "and gave its place back");
        assert!(!three.is_finished());
        gate.open();
        first.await.unwrap();
        within(three).await.unwrap();
        within(queue.flush()).await;
        assert_eq!(runs.map(|run| run.load(Ordering::SeqCst)), [false, true, true]);
    });
}

#[test]
fn one_of_several_that_are_to_be_taken_back_can_be_taken_back_alone() {
    on_each_runtime(|| async {
        let queue = ordered("alone");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let handle = queue.spawn_blocking(|| ()).abort_on_drop();
        let plain: &JoinHandle<()> = handle.as_ref();
        assert!(!plain.is_finished());
        let abort = handle.abort_handle();
        abort.abort();
        assert!(within(handle).await.unwrap_err().is_cancelled());
        gate.open();
        first.await.unwrap();
    });
}

#[test]
fn a_future_that_is_dropped_takes_its_closure_back() {
    on_each_runtime(|| async {
        let queue = ordered("cancelled");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let handle = queue.spawn_blocking(|| ()).abort_on_drop();
        let request = tokio::spawn(async move { handle.await.is_ok() });
        tokio::task::yield_now().await;
        request.abort();
        assert!(within(request).await.unwrap_err().is_cancelled());
        assert_eq!(queue.queue().stats().queued, 0);
        gate.open();
        first.await.unwrap();
    });
}

#[test]
fn what_a_closed_queue_refuses_is_cancelled() {
    on_each_runtime(|| async {
        let queue = ordered("closed");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let last = queue.spawn_blocking(|| 2);
        let closing = queue.close();
        let drops = Drops::default();
        let captured = drops.clone();
        let refused = queue.spawn_blocking(move || drop(captured));
        assert_eq!(drops.alive(), 0);
        assert!(within(refused).await.unwrap_err().is_cancelled());
        gate.open();
        within(closing).await;
        assert!(first.is_finished() && last.is_finished());
        assert_eq!(last.await.unwrap(), 2);
    });
}

/// The last handle of a queue would wait for its items, and a task must not.
#[test]
fn dropping_a_spawner_does_not_wait() {
    on_each_runtime(|| async {
        let gate = Gate::default();
        let queue: Spawner = ordered("forgotten");
        let first = occupy(&queue, &gate).await;
        let second = queue.clone().spawn_blocking(|| 2);
        drop(queue);
        gate.open();
        within(first).await.unwrap();
        assert_eq!(within(second).await.unwrap(), 2);
    });
}
