//! What closures may do.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use cmwq_tokio::{block_in_place, spawn_blocking, spawner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use crate::support::{block_on, on_each_runtime, one_thread, threads, within};

#[test]
fn a_closure_that_blocks_gives_its_value() {
    on_each_runtime(|| async {
        for _ in 0..20 {
            let task = tokio::spawn(async {
                let handle = spawn_blocking(|| {
                    thread::sleep(Duration::from_millis(1));
                    "hello"
                });
                handle.await.unwrap()
            });
            assert_eq!(task.await.unwrap(), "hello");
        }
    });
}

#[test]
fn closures_that_wait_for_each_other_all_run() {
    on_each_runtime(|| async {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..100).map(|_| mpsc::channel()).unzip();
        let waiting: Vec<_> = receivers
            .into_iter()
            .map(|receiver| spawn_blocking(move || receiver.recv().unwrap()))
            .collect();
        let sending = spawn_blocking(move || {
            for (number, sender) in senders.into_iter().enumerate() {
                sender.send(number).unwrap();
            }
        });
        sending.await.unwrap();
        let mut sum = 0;
        for handle in waiting {
            sum += handle.await.unwrap();
        }
        assert_eq!(sum, 4950);
    });
}

#[test]
fn a_closure_may_block_on_futures_of_the_runtime() {
    on_each_runtime(|| async {
        let handle = spawn_blocking(|| {
            Handle::current().block_on(async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let task = tokio::spawn(async { 40 });
                task.await.unwrap() + spawn_blocking(|| 2).await.unwrap()
            })
        });
        assert_eq!(handle.await.unwrap(), 42);
    });
}

#[test]
fn a_closure_may_talk_to_a_socket_by_the_runtime() {
    on_each_runtime(|| async {
        // Not of a network: there may be none, not even to this machine.
        let (mut stream, mut other) = UnixStream::pair().unwrap();
        let client = spawn_blocking(move || {
            Handle::current().block_on(async {
                other.write_all(b"ping").await.unwrap();
                let mut answer = String::new();
                other.read_to_string(&mut answer).await.unwrap();
                answer
            })
        });
        let mut asked = [0; 4];
        stream.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"ping");
        stream.write_all(b"pong").await.unwrap();
        drop(stream);
        assert_eq!(client.await.unwrap(), "pong");
    });
}

#[test]
fn a_closure_may_spawn_tasks_and_closures() {
    on_each_runtime(|| async {
        let inner = spawn_blocking(|| spawn_blocking(|| "inner")).await.unwrap();
        assert_eq!(inner.await.unwrap(), "inner");
        let task = spawn_blocking(|| tokio::spawn(async { "task" })).await.unwrap();
        assert_eq!(task.await.unwrap(), "task");
    });
}

#[test]
fn a_closure_may_have_a_runtime_of_its_own() {
    on_each_runtime(|| async {
        let own = spawn_blocking(|| one_thread().block_on(async { spawn_blocking(|| 3).await }));
        assert_eq!(own.await.unwrap().unwrap(), 3);
    });
}

#[test]
fn a_closure_waits_for_tasks_by_channels() {
    on_each_runtime(|| async {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let sum =
            spawn_blocking(move || std::iter::from_fn(|| receiver.blocking_recv()).sum::<u32>());
        for number in 0..100 {
            sender.send(number).await.unwrap();
        }
        drop(sender);
        assert_eq!(sum.await.unwrap(), 4950);
    });
}

#[test]
fn the_runtime_is_the_callers_for_each_closure() {
    let runtimes = [threads(), one_thread()];
    for runtime in &runtimes {
        let id = runtime.handle().id();
        let seen = block_on(runtime, async { spawn_blocking(|| Handle::current().id()).await });
        assert_eq!(seen.unwrap(), id);
        let on = spawner().spawn_blocking_on(|| Handle::current().id(), runtime.handle());
        assert_eq!(block_on(runtime, on).unwrap(), id);
        let tried =
            spawner().try_spawn_blocking_on(|| Handle::current().id(), runtime.handle()).unwrap();
        assert_eq!(block_on(runtime, tried).unwrap(), id);
        let place = spawner().try_reserve().unwrap();
        let placed = place.spawn_blocking_on(|| Handle::current().id(), runtime.handle());
        assert_eq!(block_on(runtime, placed).unwrap(), id);
    }
    // No runtime stays entered on the worker.
    let left = cmwq::system::managed().queue(|| Handle::try_current().is_err());
    assert!(left.join().unwrap());
}

#[test]
#[should_panic(expected = "there is no reactor running")]
fn outside_of_a_runtime_there_is_nothing_to_enter() {
    drop(spawn_blocking(|| ()));
}

#[test]
fn block_in_place_works_in_closures_and_on_workers() {
    block_on(&threads(), async {
        let inside = spawn_blocking(|| block_in_place(|| block_in_place(|| 1)));
        assert_eq!(inside.await.unwrap(), 1);
        let nested = tokio::spawn(async { block_in_place(|| block_in_place(|| 2)) });
        assert_eq!(nested.await.unwrap(), 2);
        assert_eq!(block_in_place(|| one_thread().block_on(async { 3 })), 3);
        let blocking_on = spawn_blocking(|| {
            Handle::current()
                .block_on(async { block_in_place(|| Handle::current().block_on(async { 4 })) })
        });
        assert_eq!(blocking_on.await.unwrap(), 4);
    });
    assert_eq!(block_in_place(|| 5), 5);
}

#[test]
#[should_panic(expected = "multi-threaded runtime")]
fn block_in_place_needs_a_runtime_with_other_threads() {
    one_thread().block_on(async { block_in_place(|| ()) });
}

/// The pool is told at once: the next closure starts though nothing else would notice that the
/// first one blocks, since it computes.
#[test]
fn block_in_place_in_a_closure_lets_the_next_begin() {
    on_each_runtime(|| async {
        let cpus = thread::available_parallelism().unwrap().get();
        let (sender, receiver) = mpsc::channel::<()>();
        let receiver = std::sync::Mutex::new(receiver);
        let receiver: &'static _ = Box::leak(Box::new(receiver));
        let waiting: Vec<_> = (0..cpus + 1)
            .map(|_| {
                spawn_blocking(|| {
                    block_in_place(|| {
                        // Never sleeps.
                        while receiver.lock().unwrap().try_recv().is_err() {
                            std::hint::spin_loop();
                        }
                    });
                })
            })
            .collect();
        let next = spawn_blocking(move || (0..=cpus).for_each(|_| sender.send(()).unwrap()));
        within(next).await.unwrap();
        for handle in waiting {
            handle.await.unwrap();
        }
    });
}

#[test]
fn closures_outlive_their_runtime() {
    let (sender, receiver) = mpsc::channel::<()>();
    let runtime = threads();
    let begun = spawner().spawn_blocking_on(move || receiver.recv().is_ok(), runtime.handle());
    runtime.shutdown_background();
    sender.send(()).unwrap();
    // A handle needs no particular executor.
    assert!(block_on(&one_thread(), begun).unwrap());
}
