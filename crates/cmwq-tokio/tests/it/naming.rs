//! By which name an item is known: of the closure that the program has written.

use cmwq_observe::inspect::Target;
use cmwq_tokio::{Spawner, spawn_blocking};

use crate::support::on_each_runtime;

/// The name of the item that the calling thread runs, as other processes see it; empty, if it is
/// not shown.
fn known_as() -> String {
    let target = Target::open(std::process::id()).unwrap();
    let tid = std::fs::read_link("/proc/thread-self").unwrap();
    let tid: u32 = tid.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let seen = target.snapshot().unwrap();
    let mine = seen.workers.iter().find(|worker| worker.tid == tid);
    let func = mine.and_then(|worker| worker.activity).map(|now| now.func);
    func.and_then(|func| target.functions().unwrap().get(&func).cloned()).unwrap_or_default()
}

/// The program's function.
fn written() -> String {
    known_as()
}

#[test]
fn items_have_the_name_of_what_was_spawned() {
    on_each_runtime(async || {
        let queue = cmwq::Workqueue::builder("named").max_queued(3).build().unwrap();
        let spawner = Spawner::new(queue);
        let place = spawner.reserve().await.unwrap();
        let handles = [
            spawn_blocking(written),
            spawner.spawn_blocking(written),
            spawner.try_spawn_blocking(written).unwrap(),
            place.spawn_blocking(written),
        ];
        for handle in handles {
            assert_eq!(handle.await.unwrap(), "it::naming::written");
        }
        let carried = || cmwq_tokio::carry(&HERE, written);
        assert_eq!(spawn_blocking(carried()).await.unwrap(), "it::naming::written");
        let twice = cmwq_tokio::carry(&THERE, carried());
        assert_eq!(spawner.spawn_blocking(twice).await.unwrap(), "it::naming::written");
    });
}

tokio::task_local! {
    static HERE: u32;
    static THERE: String;
}
