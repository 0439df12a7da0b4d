//! Places that can be awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use cmwq::Workqueue;
use cmwq_tokio::{Refused, Spawner, spawner};

use crate::support::{Gate, occupy, on_each_runtime, ordered, with_places, within};

/// What is spawned on one of several NUMA nodes may wait for what is spawned there later.
#[test]
fn each_numa_node_may_have_all_closures_of_the_process_wide_queue_in_execution() {
    let queue = spawner().queue();
    assert_eq!((queue.max_active(), queue.min_active()), (2048, 2048));
}

#[test]
fn a_place_is_for_a_closure_that_has_not_begun() {
    on_each_runtime(|| async {
        let queue = with_places("places", 2);
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let one = queue.reserve().await.unwrap();
        let two = queue.try_reserve().unwrap();
        assert_eq!(queue.try_reserve().unwrap_err(), Refused::Full);
        let refused = queue.try_spawn_blocking(|| ()).unwrap_err();
        assert!(refused.is_full() && !refused.is_closed() && refused.why().is_full());
        let one = one.spawn_blocking(|| 1);
        assert!(queue.try_reserve().is_err(), "it has not begun");
        drop(two);
        let two = queue.try_spawn_blocking(|| 2).unwrap();
        let error = queue.try_spawn_blocking(|| 3).unwrap_err();
        assert_eq!(error.to_string(), "the workqueue has as many closures waiting as it may");
        assert_eq!((error.into_inner())(), 3);
        // Whoever must not be refused is not.
        let three = queue.spawn_blocking(|| 3);
        one.abort();
        let place = queue.try_reserve().expect("one was taken back");
        drop(place);
        gate.open();
        first.await.unwrap();
        assert_eq!((two.await.unwrap(), three.await.unwrap()), (2, 3));
        let both = [queue.reserve().await, queue.reserve().await];
        assert!(both.iter().all(Result::is_ok) && queue.try_reserve().is_err());
    });
}

#[test]
fn those_who_wait_are_served_in_order() {
    on_each_runtime(|| async {
        let queue = with_places("waiting", 1);
        let place = queue.reserve().await.unwrap();
        let mut first = Box::pin(queue.reserve());
        let mut second = Box::pin(queue.reserve());
        let mut third = Box::pin(queue.reserve());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for future in [&mut first, &mut second, &mut third] {
            assert!(future.as_mut().poll(&mut cx).is_pending());
        }
        // One that is dropped loses its turn, and takes nothing.
        drop(first);
        drop(place);
        assert!(third.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(place) = second.as_mut().poll(&mut cx) else { panic!("it is its turn") };
        let done = place.unwrap().spawn_blocking(|| 2);
        assert_eq!(within(done).await.unwrap(), 2);
        drop(within(third).await.unwrap());
    });
}

#[test]
fn many_producers_never_have_more_waiting_than_there_are_places() {
    on_each_runtime(|| async {
        let queue = Workqueue::builder("many").unbound().max_active(2).max_queued(4);
        let queue = Spawner::new(queue.build().unwrap());
        let waiting = Arc::new(AtomicUsize::new(0));
        let producers: Vec<_> = (0..8)
            .map(|_| {
                let (queue, waiting) = (queue.clone(), Arc::clone(&waiting));
                tokio::spawn(async move {
                    for _ in 0..100 {
                        let place = queue.reserve().await.unwrap();
                        let now = waiting.fetch_add(1, Ordering::SeqCst) + 1;
                        // Two may have begun and not counted down yet.
                        assert!(now <= 6, "{now} wait");
                        let waiting = Arc::clone(&waiting);
                        let begun = move || waiting.fetch_sub(1, Ordering::SeqCst);
                        drop(place.spawn_blocking(begun));
                    }
                })
            })
            .collect();
        for producer in producers {
            within(producer).await.unwrap();
        }
        within(queue.flush()).await;
        assert_eq!(queue.queue().stats().completed, 800);
    });
}

#[test]
fn others_on_the_same_queue_count() {
    on_each_runtime(|| async {
        let queue = with_places("shared", 1);
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let others = queue.queue().queue(|| ());
        let error = queue.try_spawn_blocking(|| 5).unwrap_err();
        assert!(error.why().is_full() && !error.why().is_closed());
        assert_eq!((error.into_inner())(), 5);
        gate.open();
        first.await.unwrap();
        others.await.unwrap();
        assert_eq!(within(queue.try_spawn_blocking(|| 6).unwrap()).await.unwrap(), 6);
    });
}

#[test]
fn without_a_limit_there_is_always_a_place() {
    on_each_runtime(|| async {
        let queue = ordered("unlimited");
        let places: Vec<_> = (0..1000).map(|_| queue.try_reserve().unwrap()).collect();
        let place = queue.reserve().await.unwrap();
        assert_eq!(within(place.spawn_blocking(|| 1)).await.unwrap(), 1);
        drop(places);
    });
}

#[test]
fn a_closed_queue_has_none_and_says_so() {
    on_each_runtime(|| async {
        let queue = with_places("closing", 1);
        let place = queue.reserve().await.unwrap();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.reserve().await.map(drop) }
        });
        tokio::task::yield_now().await;
        within(queue.close()).await;
        assert_eq!(within(waiting).await.unwrap(), Err(Refused::Closed));
        assert!(queue.try_reserve().unwrap_err().is_closed());
        let error = queue.try_spawn_blocking(|| ()).unwrap_err();
        assert_eq!(error.to_string(), "the workqueue was closed and refused the work item");
        assert!(within(place.spawn_blocking(|| ())).await.unwrap_err().is_cancelled());
    });
}

/// Whoever closes it, and whether it has a limit or not.
#[test]
fn a_queue_that_others_have_closed_has_no_place() {
    on_each_runtime(|| async {
        for make in [|| ordered("foreign"), || with_places("foreign", 1)] {
            let (by_itself, by_handle, by_other) = (make(), make(), make());
            within(by_itself.close()).await;
            within(by_handle.queue().clone().close()).await;
            within(Spawner::new(by_other.queue().clone()).close()).await;
            for queue in [by_itself, by_handle, by_other] {
                assert_eq!(queue.try_reserve().map(drop), Err(Refused::Closed));
                assert_eq!(within(queue.reserve()).await.map(drop), Err(Refused::Closed));
            }
        }
    });
}

/// Not that it is full: that may pass.
#[test]
fn those_who_wait_on_a_queue_that_others_close_are_told() {
    on_each_runtime(|| async {
        let queue = with_places("foreign", 1);
        let place = queue.reserve().await.unwrap();
        let [mut first, mut second] = [(); 2].map(|()| Box::pin(queue.reserve()));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        for future in [&mut first, &mut second] {
            assert!(future.as_mut().poll(&mut cx).is_pending());
        }
        within(queue.queue().clone().close()).await;
        assert_eq!(queue.try_reserve().map(drop), Err(Refused::Closed));
        drop(place);
        assert_eq!(within(first).await.map(drop), Err(Refused::Closed));
        assert_eq!(within(second).await.map(drop), Err(Refused::Closed));
    });
}

#[test]
fn flushing_and_draining_wait_for_what_was_queued() {
    on_each_runtime(|| async {
        let queue = ordered("flushed");
        let gate = Gate::default();
        let first = occupy(&queue, &gate).await;
        let second = queue.spawn_blocking(|| ());
        let flushed = queue.flush();
        let drained = queue.drain();
        assert!(queue.spawn_blocking(|| ()).await.unwrap_err().is_cancelled());
        let why = queue.try_spawn_blocking(|| ()).unwrap_err().why();
        assert!(why == Refused::Draining && !why.is_closed(), "{why}");
        assert_eq!(queue.try_reserve().unwrap_err(), Refused::Draining);
        assert!(!flushed.is_over() && !drained.is_over());
        gate.open();
        within(flushed).await;
        within(drained).await;
        assert!(first.is_finished() && second.is_finished());
        assert_eq!(within(queue.spawn_blocking(|| 1)).await.unwrap(), 1);
        assert_eq!(spawner().queue().name(), "tokio-blocking");
        within(spawner().flush()).await;
    });
}
