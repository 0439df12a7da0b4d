//! What a process shows of itself: read back by the process, and by and of children.

use std::sync::mpsc;

use cmwq::Workqueue;
use cmwq::inspect::{QueueKind, Snapshot, Target};

use crate::support::wait::eventually;

fn me() -> Target {
    Target::open(std::process::id()).expect("a process may look into itself")
}

/// Looks until there is what is looked for.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(what, || {
        found = look();
        found.is_some()
    });
    found.unwrap()
}

fn stats_of(seen: &Snapshot, name: &str) -> cmwq::Stats {
    let queue = seen.queues.iter().find(|queue| queue.name == name).expect("the queue is shown");
    seen.stats_of(queue)
}

#[test]
fn counters_are_those_of_the_queue() {
    let wq = Workqueue::builder("inspect-count").percpu().build().unwrap();
    let target = {
        wq.queue(|| ()).join().unwrap();
        me()
    };
    for _ in 0..1_000 {
        drop(wq.queue(|| ()));
    }
    wq.flush();
    let shown = stats_of(&target.snapshot().unwrap(), "inspect-count");
    let own = wq.stats();
    assert_eq!((shown.started, shown.completed), (own.started, own.completed));
    assert!(shown.started >= 1_001, "and flush's own: {shown}");
}

#[test]
fn a_pool_shows_its_decisions() {
    let wq = Workqueue::builder("inspect-why").unbound().build().unwrap();
    wq.queue(|| ()).join().unwrap();
    let seen = me().snapshot().unwrap();
    let queue = seen.queues.iter().find(|queue| queue.name == "inspect-why").unwrap();
    let pool = seen.pool(seen.links_of(queue)[0].pool).unwrap();
    // Which ones they are depends on what the other tests do with the pool.
    assert!(!pool.decisions.is_empty(), "it has at least created its first worker: {pool:?}");
}

#[test]
fn a_running_item_is_shown_with_its_function_and_queue() {
    let wq = Workqueue::builder("inspect-run").unbound().max_active(3).build().unwrap();
    let (hold, held) = mpsc::channel::<()>();
    let item = wq.queue(move || held.recv());
    let target = until("the queue is used", || Target::open(std::process::id()).ok());
    let worker = until("the item runs", || {
        let seen = target.snapshot().unwrap();
        let key = seen.queues.iter().find(|queue| queue.name == "inspect-run")?.key;
        seen.workers.into_iter().find(|worker| worker.activity.is_some_and(|now| now.queue == key))
    });
    let now = worker.activity.unwrap();
    assert!(now.func != 0 && now.work != 0 && now.since_ns != 0);
    assert!(worker.tid != 0 && worker.name.starts_with("kworker/u"), "{worker:?}");
    let seen = target.snapshot().unwrap();
    let queue = seen.queue(now.queue).unwrap();
    assert_eq!((queue.kind, queue.max_active), (QueueKind::Unbound, 3));
    let link = seen.links_of(queue).iter().find(|link| link.nr_active == 1);
    assert_eq!(link.map(|link| Some(link.pool)), Some(worker.pool));
    hold.send(()).unwrap();
    item.join().unwrap().unwrap();
    until("the worker rests", || {
        let seen = target.snapshot().unwrap();
        let mut workers = seen.workers.iter();
        workers.all(|worker| worker.activity.is_none_or(|now| now.queue != queue.key)).then_some(())
    });
}
