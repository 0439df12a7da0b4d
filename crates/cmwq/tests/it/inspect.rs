//! What a process shows of itself: read back by the process, and by and of children.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use cmwq::Workqueue;
use cmwq_observe::inspect::{OpenError, QueueKind, Snapshot, Target};

use crate::support::scene::{Scene, Stage};
use crate::support::wait::eventually;
use crate::support::{every_kind, joined, managed, sys};

pub(crate) const SCENES: &[Scene] = &[
    ("inspect::child", child),
    ("inspect::refused", refused),
    ("inspect::refused_all", refused_all),
    ("inspect::outside_in_a_child", outside_in_a_child),
];

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

/// What is shown of the queue that the next tests make.
fn outside(target: &Target) -> u64 {
    let seen = target.snapshot().unwrap();
    let queue = seen.queues.iter().find(|queue| queue.name == "inspect-outside");
    queue.expect("the queue is shown").outside
}

#[test]
fn what_waits_outside_of_a_parent_is_not_shown_of_its_child() {
    Stage::new("inspect::outside_in_a_child").play();
}

fn outside_in_a_child() {
    let wq = managed("inspect-outside");
    joined(wq.queue(|| ()));
    let broker = wq.outside_backlog();
    broker.set(1_200);
    let status = sys::fork(|| {
        joined(wq.queue(|| ()));
        let target = me();
        assert_eq!(outside(&target), 0);
        broker.set(5);
        assert_eq!(outside(&target), 5);
        broker.set(7);
        assert_eq!(outside(&target), 7);
    });
    assert_eq!(status, 0);
    assert_eq!(outside(&me()), 1_200);
}

#[test]
fn what_waits_outside_is_the_sum_of_what_was_said() {
    let wq = managed("inspect-outside");
    let target = {
        wq.queue(|| ()).join().unwrap();
        me()
    };
    let shown = || outside(&target);
    assert_eq!(shown(), 0);
    let (broker, table) = (wq.outside_backlog(), wq.outside_backlog());
    broker.set(700);
    table.set(30);
    assert_eq!(shown(), 730);
    broker.set(5);
    assert_eq!(shown(), 35);
    drop(table);
    assert_eq!(shown(), 5);
    drop(broker);
    assert_eq!(shown(), 0);
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
    let name = &target.functions().unwrap()[&now.func];
    assert!(name.ends_with("is_shown_with_its_function_and_queue::{{closure}}"), "{name}");
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

#[test]
fn an_idle_queue_of_any_kind_has_no_active_items() {
    let builder = |kind| Workqueue::builder(&format!("inspect-idle-{kind}"));
    let builders = [
        builder("managed"),
        builder("percpu").percpu(),
        builder("unbound").unbound(),
        builder("ordered").ordered(),
        builder("bh").bh(),
    ];
    for wq in builders.map(|builder| builder.build().unwrap()) {
        for item in (0..5).map(|_| wq.queue(thread::yield_now)).collect::<Vec<_>>() {
            item.join().unwrap();
        }
        wq.flush();
        let seen = me().snapshot().unwrap();
        let queue = seen.queues.iter().find(|queue| queue.name == *wq.name()).unwrap();
        let links = seen.links_of(queue);
        assert!(links.iter().any(|link| link.stats.completed > 0), "{queue:?}");
        assert!(links.iter().all(|link| link.nr_active == 0), "{queue:?}: {links:?}");
    }
}

/// Whatever moment it is: what has begun is shown, and nothing that was not queued.
#[test]
fn counters_under_load_are_between_what_began_and_what_was_queued() {
    const ITEMS: u64 = 20_000;
    for wq in every_kind("inspect-load") {
        let (queued, begun, is_over) =
            (AtomicU64::new(0), &*Box::leak(Box::new(AtomicU64::new(0))), AtomicBool::new(false));
        joined(wq.queue(|| ()));
        let target = me();
        let (key, before) = until("it is shown", || {
            let before = wq.stats();
            let seen = target.snapshot().unwrap();
            let mut ours = seen.queues.iter().filter(|queue| queue.name == "inspect-load");
            let queue = ours.find(|queue| seen.stats_of(queue).started == before.started)?;
            // Its worker counts an item after whoever joined it has gone on.
            (before.completed == 1).then_some((queue.key, before.started))
        });
        thread::scope(|scope| {
            let producers = [(); 2].map(|()| {
                scope.spawn(|| {
                    for _ in 0..ITEMS / 200 {
                        let items: Vec<_> = (0..100)
                            .map(|_| {
                                queued.fetch_add(1, Ordering::SeqCst);
                                wq.queue(|| begun.fetch_add(1, Ordering::SeqCst))
                            })
                            .collect();
                        items.into_iter().for_each(|item| _ = joined(item));
                    }
                })
            });
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let least = begun.load(Ordering::SeqCst);
                    let seen = target.snapshot().unwrap();
                    let most = queued.load(Ordering::SeqCst);
                    // One that changes at this moment is left out.
                    let Some(queue) = seen.queue(key) else { continue };
                    let started = seen.stats_of(queue).started - before;
                    // A worker may have begun so many that are not counted yet.
                    let lag = 32 * seen.links_of(queue).len() as u64;
                    assert!(seen.torn > 0 || started + lag >= least, "{started} of {least} begun");
                    assert!(started <= most, "{started} of {most} queued");
                }
            });
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            is_over.store(true, Ordering::SeqCst);
        });
        let shown = until("the counts are final", || {
            let seen = target.snapshot().unwrap();
            let shown = seen.stats_of(seen.queue(key)?);
            (shown.completed == shown.started).then_some(shown)
        });
        assert_eq!(shown.started - before, ITEMS);
        assert_eq!((shown.started, shown.completed), (wq.stats().started, wq.stats().completed));
    }
}

#[test]
fn a_child_shows_its_own_and_leaves_its_parents_alone() {
    Stage::new("inspect::child").play();
}

fn child() {
    let wq = Workqueue::builder("inspect-fork").percpu().build().unwrap();
    (0..10).for_each(|_| joined(wq.queue(|| ())));
    let target = me();
    let at_rest = || {
        until("the counts are final", || {
            let seen = target.snapshot().unwrap();
            let stats = stats_of(&seen, "inspect-fork");
            let rest = seen.workers.iter().all(|worker| worker.activity.is_none());
            (rest && stats.completed == stats.started).then_some((stats, seen.queues.len()))
        })
    };
    let (before, nr_queues) = at_rest();
    let parent = std::process::id();
    let status = sys::fork(|| {
        assert!(
            matches!(Target::open(std::process::id()), Err(OpenError::NotCmwq)),
            "not used yet"
        );
        (0..100).for_each(|_| joined(wq.queue(|| ())));
        let other = Workqueue::new("inspect-of-the-child").unwrap();
        joined(other.queue(|| ()));
        let own = me().snapshot().unwrap();
        assert_eq!(stats_of(&own, "inspect-fork").started, 100, "the child's own");
        assert_eq!(own.pid, std::process::id());
        // What the parent shows can be looked at from here, too.
        let theirs = Target::open(parent).unwrap().snapshot().unwrap();
        assert_eq!(stats_of(&theirs, "inspect-fork").started, 10);
    });
    assert_eq!(status, 0);
    let (after, nr_queues_after) = at_rest();
    assert_eq!((before.started, before.completed), (10, 10));
    assert_eq!((after.started, after.completed, nr_queues_after), (10, 10, nr_queues));
}

#[test]
fn without_memory_to_show_it_in_all_works_and_says_so() {
    Stage::new("inspect::refused").play();
    Stage::new("inspect::refused_all").play();
}

fn refused() {
    without_files_beyond(1 << 20);
}

/// Not even a page.
fn refused_all() {
    without_files_beyond(0);
}

fn without_files_beyond(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
    for wq in every_kind("inspect-none") {
        (0..100).for_each(|_| joined(wq.queue(|| ())));
        wq.flush();
        assert!(wq.stats().completed >= 100);
    }
    assert!(matches!(Target::open(std::process::id()), Err(OpenError::NotCmwq)));
    let notices = cmwq::notices();
    assert!(notices.iter().any(|notice| notice.contains("no memory to show")), "{notices:?}");
}

#[test]
fn of_queues_that_come_and_go_none_is_missing() {
    const LOOKS: usize = 1_000;
    let _stays = managed("inspect-stays");
    let target = until("the runtime is there", || Target::open(std::process::id()).ok());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                drop(std::array::from_fn::<_, 8, _>(|_| managed("inspect-goes")));
            }
        });
        let missing: u64 = (0..LOOKS).map(|_| target.snapshot().unwrap().missing.queues).sum();
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(missing, 0);
    });
}
