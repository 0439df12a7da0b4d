//! Real threads around real locks: the smallest driver there can be, for hardware and Miri to find
//! what the models of the word and the inbox do not cover, such as unordered use of an item's link.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::vec::Vec;

use super::support::{ItemPtr, Rng, pwq_config, steps, with_seeds};
use crate::policy::UNMANAGED;
use crate::{
    Enqueued, Grab, Inbox, Next, PoolConfig, PoolId, PoolState, PwqId, WorkItem, WorkerId, WqKey,
};

/// An item that counts what was asked of it and what it did.
#[repr(C)]
struct Counter {
    work: WorkItem,
    asked: AtomicUsize,
    done: AtomicUsize,
    runs: AtomicBool,
}

unsafe extern "C" fn count_asked(work: *mut WorkItem) {
    // SAFETY: every item here is the first member of a `Counter` that lives until all threads have
    // ended.
    let counter = unsafe { &*work.cast::<Counter>() };
    assert!(!counter.runs.swap(true, Ordering::Relaxed), "an item ran twice at once");
    // Relaxed on purpose: only the protocol makes what queuers stored visible here.
    let asked = counter.asked.swap(0, Ordering::Relaxed);
    counter.done.fetch_add(asked, Ordering::Relaxed);
    counter.runs.store(false, Ordering::Relaxed);
}

/// One queue's pool, with one worker thread.
struct Pool {
    state: Mutex<PoolState>,
    inbox: Inbox,
    id: PoolId,
    pwq: PwqId,
    worker: WorkerId,
}

const WQ: WqKey = WqKey(1);

impl Pool {
    fn new(id: u32) -> Self {
        let id = PoolId(id);
        let mut state = PoolState::new(PoolConfig::new(id, UNMANAGED));
        let pwq = state.add_pwq(pwq_config(WQ.0, 2));
        let [worker, _standby] = [(); 2].map(|()| {
            let worker = state.worker_new();
            let _ = state.worker_created(worker, None, 0);
            worker
        });
        Self { state: Mutex::new(state), inbox: Inbox::new(), id, pwq, worker }
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        let mut state = self.state.lock().expect("no thread panics");
        for (pwq, item) in self.inbox.take() {
            // SAFETY: pushed by its owner; it lives until all threads have ended.
            let _ = unsafe { state.enqueue(pwq, item) };
        }
        state
    }

    /// The worker thread.
    fn work(&self, stop: &AtomicBool) {
        loop {
            // Before the look: what was queued before the stop is seen by the look.
            let is_last = stop.load(Ordering::Acquire);
            let mut state = self.lock();
            match state.next(self.worker, || 0) {
                Next::Run(claim) => {
                    self.inbox.saturate();
                    drop(state);
                    // SAFETY: claimed.
                    unsafe { (claim.func)(claim.item) };
                    let _ = self.lock().finish(self.worker);
                }
                Next::Sleep { .. } => {
                    self.inbox.desaturate();
                    drop(state);
                    if is_last {
                        return;
                    }
                    thread::yield_now();
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

struct Queue {
    pools: [Pool; 2],
    counters: Vec<NonNull<Counter>>,
}

// SAFETY: the counters are shared the way items are: through the protocol under test, or by
// atomics.
unsafe impl Sync for Queue {}

impl Queue {
    fn item(&self, n: usize) -> ItemPtr {
        self.counters[n].cast()
    }

    /// `queue_work` on either pool, by whatever way fits.
    fn queue(&self, n: usize, pool: &Pool) {
        // SAFETY: counters live until all threads have ended.
        let (counter, item) = unsafe { (self.counters[n].as_ref(), self.item(n)) };
        counter.asked.fetch_add(1, Ordering::Relaxed);
        let seen = counter.work.word();
        let at_home = !seen.is_pending() && seen.pool().is_none_or(|last| last == pool.id);
        if at_home && pool.inbox.is_saturated() {
            if counter.work.claim_for(seen, pool.id) {
                // SAFETY: owned.
                if !unsafe { pool.inbox.push(item, pool.pwq) } {
                    drop(pool.lock());
                }
                return;
            }
        } else if at_home {
            // SAFETY: counters live until all threads have ended.
            let queued = unsafe { pool.lock().enqueue_idle(pool.pwq, item, seen) };
            if matches!(queued, Enqueued::Queued(_)) {
                return;
            }
        }
        if !counter.work.claim().is_pending() {
            self.queue_claimed(&counter.work, item, pool);
        }
    }

    /// Non-reentrance: a pool that still runs the item runs it again.
    fn queue_claimed(&self, work: &WorkItem, item: ItemPtr, pool: &Pool) {
        let last = work.word().pool().filter(|&last| last != pool.id);
        if let Some(last) = last {
            let other = &self.pools[last.0 as usize];
            let mut state = other.lock();
            if let Some(pwq) = state.executing_on(item.as_ptr() as usize, work.func(), WQ) {
                // SAFETY: owned; counters live until all threads have ended.
                let _ = unsafe { state.enqueue(pwq, item) };
                return;
            }
        }
        // SAFETY: as above.
        let _ = unsafe { pool.lock().enqueue(pool.pwq, item) };
    }

    /// `cancel_work`, and then what it would have done.
    fn cancel_and_do(&self, n: usize) {
        // SAFETY: counters live until all threads have ended.
        let counter = unsafe { self.counters[n].as_ref() };
        let Some(pool) = counter.work.word().pool() else { return };
        let mut state = self.pools[pool.0 as usize].lock();
        // SAFETY: as above.
        let Grab::Taken(..) = (unsafe { state.try_grab(self.item(n)) }) else { return };
        drop(state);
        // It may still be running; then its run does the rest. Whoever is refused from now on is
        // heard below.
        counter.work.release(counter.work.word());
        let asked = counter.asked.swap(0, Ordering::Relaxed);
        counter.done.fetch_add(asked, Ordering::Relaxed);
    }

    fn storm(&self, rng: &mut Rng, rounds: usize) {
        for _ in 0..rounds {
            let n = rng.below(self.counters.len());
            match rng.below(8) {
                0 => self.cancel_and_do(n),
                at => self.queue(n, &self.pools[at % 2]),
            }
        }
    }
}

#[test]
fn nothing_that_was_asked_for_is_lost() {
    with_seeds(4, |rng| {
        let new_counter = || {
            let counter = Counter {
                work: WorkItem::new(count_asked),
                asked: AtomicUsize::new(0),
                done: AtomicUsize::new(0),
                runs: AtomicBool::new(false),
            };
            NonNull::from(std::boxed::Box::leak(std::boxed::Box::new(counter)))
        };
        let counters = (0..3).map(|_| new_counter()).collect();
        let queue = Queue { pools: [Pool::new(0), Pool::new(1)], counters };
        let stop = AtomicBool::new(false);
        let seeds = [rng.next(), rng.next()];
        thread::scope(|scope| {
            for pool in &queue.pools {
                scope.spawn(|| pool.work(&stop));
            }
            let queuers = seeds.map(|seed| {
                let queue = &queue;
                scope.spawn(move || queue.storm(&mut Rng::new(seed), steps(50_000, 120)))
            });
            for queuer in queuers {
                queuer.join().expect("a queuer");
            }
            stop.store(true, Ordering::Release);
        });
        for &counter in &queue.counters {
            // SAFETY: leaked above; all threads have ended.
            let counter = unsafe { std::boxed::Box::from_raw(counter.as_ptr()) };
            assert_eq!(counter.asked.load(Ordering::Relaxed), 0, "asked for and never done");
            assert!(counter.done.load(Ordering::Relaxed) > 0);
            assert!(!counter.work.is_pending());
        }
    });
}
