//! Values and errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use cmwq_tokio::{AbortHandle, AbortOnDropHandle, JoinHandle, Permit, Spawner, spawn_blocking};
use tokio::task::JoinError;

use crate::support::{Drops, Gate, eventually, occupy, on_each_runtime, ordered, within};

#[test]
fn a_panic_is_tokios_error() {
    on_each_runtime(|| async {
        let error: JoinError = spawn_blocking(|| panic!("expected")).await.unwrap_err();
        assert!(error.is_panic() && !error.is_cancelled());
        assert!(error.to_string().contains("expected"), "{error}");
        assert_eq!(*error.into_panic().downcast::<&str>().unwrap(), "expected");
        // Programs turn it into their own error by `From<JoinError>`.
        async fn asks() -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
            Ok(spawn_blocking(|| -> u32 { panic!("expected") }).await?)
        }
        assert!(asks().await.unwrap_err().downcast::<JoinError>().unwrap().is_panic());
    });
}

#[test]
fn a_panic_takes_no_worker_away() {
    on_each_runtime(|| async {
        for _ in 0..100 {
            drop(spawn_blocking(|| panic!("expected")));
        }
        assert_eq!(spawn_blocking(|| 1).await.unwrap(), 1);
    });
}

#[test]
fn a_panic_that_nobody_awaits_goes_to_the_handler() {
    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    cmwq::set_item_panic_handler(|panic| {
        let text = (panic.queue().map(str::to_owned), panic.message().map(str::to_owned));
        HEARD.lock().unwrap().push(format!("{text:?}"));
    });
    on_each_runtime(|| async {
        let queue = ordered("heard");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let unwanted = queue.spawn_blocking(|| panic!("nobody waits"));
        // Who keeps this, to abort all that runs, for example, does not hear of it either.
        let _abort = unwanted.abort_handle();
        drop(unwanted);
        gate.open();
        first.await.unwrap();
        within(queue.flush()).await;
        let expected = format!("{:?}", (Some("heard"), Some("nobody waits")));
        eventually("it is heard", || HEARD.lock().unwrap().contains(&expected)).await;
        HEARD.lock().unwrap().clear();
    });
}

#[test]
fn a_handle_that_is_dropped_lets_its_closure_run() {
    on_each_runtime(|| async {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        drop(spawn_blocking(move || sender.send(7).unwrap()));
        assert_eq!(within(receiver).await.unwrap(), 7);
    });
}

/// Whether the handle is dropped before the end or after it, and whether others could still abort.
#[test]
fn a_value_that_nobody_wants_is_dropped() {
    on_each_runtime(|| async {
        let queue = ordered("values");
        let drops = Drops::default();
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let value = drops.clone();
        let before = queue.spawn_blocking(move || value);
        let abort = before.abort_handle();
        drop(before);
        gate.open();
        first.await.unwrap();
        eventually("dropped at its end", || drops.alive() == 0).await;
        assert!(abort.is_finished());
        let value = drops.clone();
        let after = queue.spawn_blocking(move || value);
        let abort = after.abort_handle();
        eventually("it ends", || after.is_finished()).await;
        assert_eq!(drops.alive(), 1);
        drop(after);
        assert_eq!(drops.alive(), 0);
        abort.abort();
    });
}

/// As with tokio's handles: whoever drops one does not hear of it.
#[test]
fn a_panic_of_a_value_that_nobody_wants_ends_with_it() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as it is dropped");
        }
    }
    on_each_runtime(|| async {
        let tokios = tokio::task::spawn_blocking(|| Panics);
        eventually("it ends", || tokios.is_finished()).await;
        drop(tokios);
        let ours = spawn_blocking(|| Panics);
        eventually("it ends", || ours.is_finished()).await;
        drop(ours);
    });
}

#[test]
fn a_handle_is_awaited_once() {
    on_each_runtime(|| async {
        let mut handle = spawn_blocking(|| 1);
        assert_eq!((&mut handle).await.unwrap(), 1);
        assert!(handle.is_finished());
        let again = catch_unwind(AssertUnwindSafe(|| {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            std::pin::Pin::new(&mut handle).poll(&mut context).is_ready()
        }));
        let message = again.unwrap_err();
        assert!(message.downcast_ref::<&str>().unwrap().contains("polled after completion"));
    });
}

/// As tokio's handles: whoever awaits one that is ready lets other tasks run now and then.
#[test]
fn awaiting_what_is_ready_uses_up_a_budget() {
    on_each_runtime(|| async {
        let handles: Vec<_> = (0..1000).map(|n| spawn_blocking(move || n)).collect();
        for handle in &handles {
            eventually("it ends", || handle.is_finished()).await;
        }
        let task = tokio::spawn(async move {
            let mut yielded = 0;
            for handle in handles {
                let mut handle = std::pin::pin!(handle);
                std::future::poll_fn(|cx| {
                    let polled = handle.as_mut().poll(cx);
                    yielded += usize::from(polled.is_pending());
                    polled
                })
                .await
                .unwrap();
            }
            yielded
        });
        assert!(task.await.unwrap() > 0, "a task that never waits starves the others");
    });
}

#[test]
fn the_types_are_what_programs_rely_on() {
    fn check<T: Send + Sync + Unpin + std::panic::UnwindSafe + 'static>() {}
    check::<JoinHandle<std::cell::Cell<u32>>>();
    check::<AbortHandle>();
    check::<AbortOnDropHandle<u32>>();
    check::<Spawner>();
    check::<Permit>();
    let _: fn(&dyn Any) = |_| ();
}

/// Who adds this crate has what its calls take.
#[test]
fn programs_need_no_other_crate() {
    let _: fn(cmwq_tokio::cmwq::Workqueue) -> Spawner = Spawner::new;
    let readme = include_str!("../../README.md");
    let code = readme.split("```").skip(1).step_by(2);
    for line in code.flat_map(str::lines) {
        assert!(!line.replace("cmwq_tokio::cmwq::", "").contains("cmwq::"), "{line}");
    }
}

#[test]
fn debug_tells_something() {
    on_each_runtime(|| async {
        let queue = ordered("shown");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        assert_eq!(format!("{first:?}"), "JoinHandle { is_finished: false }");
        assert_eq!(format!("{:?}", first.abort_handle()), "AbortHandle { is_finished: false }");
        assert!(format!("{queue:?}").contains("shown"), "{queue:?}");
        let place = queue.reserve().await.unwrap();
        assert_eq!(format!("{place:?}"), "Permit { queue: \"shown\" }");
        gate.open();
        first.await.unwrap();
    });
}

/// Wakers of several tasks, one after the other: the last one is woken.
#[test]
fn a_handle_may_move_from_task_to_task() {
    on_each_runtime(|| async {
        let queue = ordered("moving");
        let gate = Gate::default();
        let first = Arc::new(tokio::sync::Mutex::new(occupy(&queue, &gate).await));
        for _ in 0..3 {
            let first = Arc::clone(&first);
            tokio::spawn(async move {
                let mut first = first.lock().await;
                let polled = futures_poll_once(&mut first).await;
                assert!(polled.is_pending());
            })
            .await
            .unwrap();
        }
        gate.open();
        within(&mut *first.lock().await).await.unwrap();
    });
}

async fn futures_poll_once(handle: &mut JoinHandle<()>) -> std::task::Poll<Result<(), JoinError>> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *handle).poll(cx)))
        .await
}
