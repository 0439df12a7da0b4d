//! What becomes of a spawner when the library is shut down: for good, so in a process of its own.

use std::sync::mpsc;
use std::time::Duration;

use cmwq_tokio::{Refused, Spawner, block_in_place, spawn_blocking, spawner};
use tokio::runtime::Handle;

/// How long anything may take. Only failing tests ever wait that long.
const PATIENCE: Duration = Duration::from_secs(200);

/// Each of the public calls, none of which was made before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spawner_may_outlive_the_library() {
    let free = Spawner::new(cmwq::Workqueue::new("outlives").unwrap());
    let full = cmwq::Workqueue::builder("bounded").max_queued(2).build().unwrap();
    let full = Spawner::new(full);
    assert_eq!(free.spawn_blocking(|| 1).await.unwrap(), 1);
    let early = full.reserve().await.unwrap();
    a_spawner_may_be_dropped_in_the_middle().await;
    cmwq::shutdown(Duration::MAX).unwrap();
    let all = async {
        // A place from before leads nowhere, and is given back.
        assert!(early.spawn_blocking(|| 2).await.unwrap_err().is_cancelled());
        for spawner in [&free, &full] {
            assert!(!spawner.queue().name().is_empty());
            assert!(spawner.spawn_blocking(|| 2).await.unwrap_err().is_cancelled());
            let late = spawner.spawn_blocking_on(|| 2, &Handle::current());
            late.abort();
            assert!(late.await.unwrap_err().is_cancelled());
            assert_eq!(spawner.try_spawn_blocking(|| 2).unwrap_err().why(), Refused::ShutDown);
            let refused = spawner.try_spawn_blocking_on(|| 2, &Handle::current()).unwrap_err();
            assert_eq!(refused.why(), Refused::ShutDown);
            assert!(refused.is_closed() && !refused.is_full());
            // More often than there are places.
            for _ in 0..5 {
                assert_eq!(spawner.reserve().await.map(drop), Err(Refused::ShutDown));
                assert_eq!(spawner.try_reserve().map(drop), Err(Refused::ShutDown));
            }
            spawner.flush().await;
            spawner.drain().await;
            spawner.close().await;
        }
        assert_eq!(block_in_place(|| 3), 3);
        // The process-wide one was never made.
        assert!(tokio::spawn(async { drop(spawn_blocking(|| 2)) }).await.unwrap_err().is_panic());
        assert!(tokio::spawn(async { spawner().flush().await }).await.unwrap_err().is_panic());
        drop((free, full));
    };
    tokio::time::timeout(PATIENCE, all).await.expect("some call does not return");
}

/// The time is up while a closure runs: who drops the spawner does not wait for it.
async fn a_spawner_may_be_dropped_in_the_middle() {
    let (open, gate) = mpsc::channel();
    let spawner = Spawner::new(cmwq::Workqueue::new("middle").unwrap());
    let last = spawner.spawn_blocking(move || gate.recv_timeout(PATIENCE));
    cmwq::shutdown(Duration::ZERO).unwrap_err();
    drop(spawner);
    assert!(open.send(()).is_ok(), "dropping it has waited");
    last.await.unwrap().unwrap();
}

#[test]
fn no_public_call_is_left_out_above() {
    let above = include_str!("shutdown.rs");
    let names: Vec<_> = include_str!("../src/spawner.rs")
        .lines()
        .filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub async fn "))
        })
        .map(|rest| rest.split(['(', '<']).next().unwrap())
        .collect();
    assert!(names.contains(&"try_reserve"), "the sources are not understood: {names:?}");
    for name in names {
        assert!(above.contains(&format!("{name}(")), "{name} is not called after a shutdown");
    }
}
