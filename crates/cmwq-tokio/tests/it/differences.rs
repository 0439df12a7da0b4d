//! The other side of the table in the README: what tokio's own pool does. A line here that fails is
//! a line there to change.

use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking, try_id};

use crate::support::{Gate, block_on, on_each_runtime, within};

#[test]
fn an_aborted_closure_of_tokios_waits_for_its_turn() {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.max_blocking_threads(1).enable_all().build().unwrap();
    block_on(&runtime, async {
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
fn a_closure_of_tokios_is_a_task_and_ours_is_none() {
    on_each_runtime(|| async {
        assert!(spawn_blocking(|| try_id().is_some()).await.unwrap());
        assert!(cmwq_tokio::spawn_blocking(|| try_id().is_none()).await.unwrap());
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
