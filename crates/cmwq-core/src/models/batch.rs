//! Items that a worker begins without the lock, against somebody who calls them back with it.

use core::ptr::NonNull;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{Event, Owned, nothing};
use crate::{
    Batch, Claim, Grab, Inbox, Next, PoolConfig, PoolId, PoolState, PwqConfig, PwqId, WorkItem,
    WorkerId, WqKey,
};

const POOL: PoolId = PoolId(0);

struct Shared {
    pool: Mutex<PoolState>,
    pwq: PwqId,
    worker: WorkerId,
    items: [WorkItem; 4],
    /// What each item's function uses.
    owned: [Owned; 4],
    event: Event,
}

/// A pool whose worker is about to call the function of item 1, has taken item 2 along, and left
/// item 3 behind.
fn shared() -> (Arc<Shared>, Claim, Arc2<Batch>) {
    let config = PoolConfig { batches: Some(0), ..PoolConfig::new(POOL, 1) };
    let mut pool = PoolState::new(config);
    let [worker, _] = [(); 2].map(|()| {
        let id = pool.worker_new();
        let _ = pool.worker_created(id, None, 0);
        id
    });
    let pwq = pool.add_pwq(PwqConfig {
        wq: WqKey(0),
        max_active: 10,
        node: None,
        cpu_intensive: false,
        rescuer: false,
        work_color: 0,
    });
    let batch = pool.batch_for(worker).expect("it makes batches");
    let shared = Arc::new(Shared {
        pool: Mutex::new(pool),
        pwq,
        worker,
        items: [(); 4].map(|()| WorkItem::new(nothing)),
        owned: [(); 4].map(|()| Owned::new()),
        event: Event::new(),
    });
    let mut pool = shared.pool.lock().unwrap();
    let inbox = Inbox::new();
    inbox.saturate();
    for item in &shared.items {
        assert!(item.claim_for(item.word(), POOL));
        // SAFETY: owned; the items live as long as the model.
        assert!(unsafe { inbox.push(NonNull::from(item), pwq) });
    }
    // The first one puts the worker to work.
    let mut transit = inbox.take();
    let (_, first) = transit.next().expect("four were pushed");
    // SAFETY: as above.
    let _ = unsafe { pool.enqueue(pwq, first) };
    let Next::Run(_) = pool.next(worker, || 0) else { unreachable!() };
    pool.arrive(transit);
    let _ = pool.finish(worker);
    let Next::Run(claim) = pool.next(worker, || 0) else { unreachable!() };
    assert_eq!(claim.more, 1, "two have arrived behind it");
    drop(pool);
    (shared, claim, batch)
}

/// The allocator's, since the core's own are: loom need not know of them.
type Arc2<T> = std::sync::Arc<T>;

impl Shared {
    fn number_of(&self, item: *mut WorkItem) -> usize {
        self.items.iter().position(|other| core::ptr::eq(other, item)).expect("one of ours")
    }

    /// The worker's part; `run` is called for each run, with the item's number.
    fn work(&self, claim: &Claim, batch: &Batch, mut run: impl FnMut(usize)) {
        run(self.number_of(claim.item));
        for _ in 0..claim.more {
            // SAFETY: the worker's own, and as often as its claim says.
            let Some((item, _)) = (unsafe { batch.begin(POOL) }) else { break };
            run(self.number_of(item));
        }
        let mut pool = self.pool.lock().unwrap();
        let _ = pool.finish(self.worker);
        drop(pool);
        loop {
            let next = self.pool.lock().unwrap().next(self.worker, || 0);
            let Next::Run(claim) = next else { return };
            assert_eq!(claim.more, 0, "nothing has arrived behind it");
            run(self.number_of(claim.item));
            let _ = self.pool.lock().unwrap().finish(self.worker);
        }
    }
}

/// Each item runs once, and whoever learns with the lock that it is done sees what it did.
#[test]
fn who_calls_back_sees_what_was_done() {
    loom::model(|| {
        let (s, claim, batch) = shared();
        let worker = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let mut runs = [0; 4];
                s.work(&claim, &batch, |number| {
                    runs[number] += 1;
                    s.owned[number].touch();
                });
                runs
            })
        };
        let mut pool = s.pool.lock().unwrap();
        pool.call_back();
        let done = pool.pwq_stats(s.pwq).unwrap().completed as usize;
        for owned in &s.owned[1..done] {
            owned.touch();
        }
        drop(pool);
        assert_eq!(worker.join().unwrap(), [0, 1, 1, 1]);
    });
}

/// So does who only looks, and the batch stays out.
#[test]
fn who_looks_sees_what_was_done() {
    loom::model(|| {
        let (s, claim, batch) = shared();
        let worker = {
            let s = Arc::clone(&s);
            thread::spawn(move || s.work(&claim, &batch, |number| s.owned[number].touch()))
        };
        let pool = s.pool.lock().unwrap();
        let done = pool.reading(&Inbox::new()).stats(s.pwq).unwrap().completed as usize;
        for owned in &s.owned[1..done] {
            owned.touch();
        }
        drop(pool);
        worker.join().unwrap();
    });
}

/// An item of a batch that is taken back does not run; one that cannot be is run.
#[test]
fn an_item_is_begun_or_taken_back() {
    loom::model(|| {
        let (s, claim, batch) = shared();
        let worker = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let mut runs = 0;
                s.work(&claim, &batch, |number| runs += u32::from(number == 2));
                runs
            })
        };
        let mut pool = s.pool.lock().unwrap();
        pool.call_back();
        pool.catch_up();
        // SAFETY: it lives as long as the model.
        let grabbed = unsafe { pool.try_grab(NonNull::from(&s.items[2])) };
        drop(pool);
        let is_taken = matches!(grabbed, Grab::Taken(..));
        assert_eq!(worker.join().unwrap(), u32::from(!is_taken));
    });
}

/// Who is refused because an item of a batch is pending is seen by its run.
#[test]
fn a_refused_caller_is_seen_by_the_run() {
    loom::model(|| {
        let (s, claim, batch) = shared();
        let worker = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let mut seen = false;
                s.work(&claim, &batch, |number| {
                    if number == 2 {
                        seen = s.event.is_set();
                    }
                });
                seen
            })
        };
        s.event.set();
        let is_refused = s.items[2].claim().is_pending();
        let seen = worker.join().unwrap();
        assert!(seen || !is_refused, "a lost event");
    });
}
