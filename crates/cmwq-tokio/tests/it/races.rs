//! Everything at once: each closure runs or is taken back, once, and its handle is told.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;

use cmwq::Workqueue;
use cmwq_tokio::Spawner;

use crate::support::{Drops, block_on, eventually, threads, within};

const ROUNDS: usize = 2_000;

/// A small generator: the same sequence for the same seed.
struct Random(AtomicU64);

impl Random {
    fn below(&self, end: u64) -> u64 {
        let mut word = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

#[test]
fn aborting_running_polling_and_dropping_meet() {
    let random = Random(AtomicU64::new(1));
    let runtime = threads();
    block_on(&runtime, async {
        let queue = Workqueue::builder("races").unbound().max_active(2).max_queued(64);
        let queue = Spawner::new(queue.build().unwrap());
        let (runs, captured) = (Arc::new(AtomicUsize::new(0)), Drops::default());
        let (mut ran, mut taken_back, mut unknown) = (0, 0, 0);
        for _ in 0..ROUNDS {
            let place = within(queue.reserve()).await.unwrap();
            let (counter, inside) = (Arc::clone(&runs), captured.clone());
            let mut handle = place.spawn_blocking(move || {
                counter.fetch_add(1, Ordering::SeqCst);
                inside
            });
            if random.below(2) == 0 {
                let mut cx = Context::from_waker(Waker::noop());
                if let std::task::Poll::Ready(end) = Pin::new(&mut handle).poll(&mut cx) {
                    drop(end.unwrap());
                    ran += 1;
                    continue;
                }
            }
            let abort = handle.abort_handle();
            let other = (random.below(2) == 0).then(|| thread::spawn(move || abort.abort()));
            match random.below(4) {
                0 => {
                    drop(handle.abort_on_drop());
                    unknown += 1;
                }
                1 => {
                    drop(handle);
                    unknown += 1;
                }
                _ => match within(handle).await {
                    Ok(_) => ran += 1,
                    Err(error) => {
                        assert!(error.is_cancelled());
                        taken_back += 1;
                    }
                },
            }
            if let Some(other) = other {
                other.join().unwrap();
            }
        }
        within(queue.flush()).await;
        eventually("nothing of them is left", || captured.alive() == 0).await;
        let runs = runs.load(Ordering::SeqCst);
        assert!(runs >= ran && runs <= ran + unknown, "{runs} ran, {ran} were told");
        assert_eq!(ran + taken_back + unknown, ROUNDS);
        let places: Vec<_> = (0..64).map(|_| queue.try_reserve().unwrap()).collect();
        assert!(queue.try_reserve().is_err(), "a place too many came back");
        drop(places);
    });
}
