//! Disabling, enabling and cancelling with waiting, in the steps in which drivers do them: nobody
//! who comes later queues a disabled item, whichever way he takes, and nothing runs when the wait
//! is over.

use core::ptr::NonNull;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::{Owned, World, model_that_spins, nothing};
use crate::{Enqueued, FlushTarget, Grab, PoolId, WorkItem};

impl World {
    /// `queue_work` by winning PENDING first: who has it sees how often the item is disabled.
    fn queue_claimed(&self) -> bool {
        if self.item.claim().is_pending() {
            return false;
        }
        let word = self.item.word();
        if word.disable_depth() != 0 {
            self.item.release(word);
            return false;
        }
        self.enqueue(&self.item);
        true
    }

    /// In one step under the pool's lock, or not at all.
    fn queue_idle(&self) -> bool {
        let seen = self.item.word();
        if seen.is_pending() || seen.disable_depth() != 0 {
            return false;
        }
        let mut pool = self.lock();
        // SAFETY: the item outlives the model's threads.
        let outcome = unsafe { pool.enqueue_idle(self.pwq, NonNull::from(&self.item), seen) };
        matches!(outcome, Enqueued::Queued(_))
    }

    /// Around the pool's lock, or not at all.
    fn queue_by_inbox(&self) -> bool {
        let seen = self.item.word();
        let is_idle = !seen.is_pending() && seen.disable_depth() == 0;
        if !is_idle || !self.item.claim_for(seen, PoolId(0)) {
            return false;
        }
        // SAFETY: owned; the item outlives the model's threads.
        if !unsafe { self.inbox.push(NonNull::from(&self.item), self.pwq) } {
            drop(self.lock());
        }
        true
    }

    /// Makes PENDING the caller's; `true`: what it was pending for will not happen.
    fn grab(&self) -> bool {
        loop {
            if !self.item.claim().is_pending() {
                return false;
            }
            // SAFETY: the item is alive.
            let grab = unsafe { self.lock().try_grab(NonNull::from(&self.item)) };
            if matches!(grab, Grab::Taken(..)) {
                return true;
            }
            thread::yield_now();
        }
    }

    fn disable(&self) -> bool {
        let was_pending = self.grab();
        let word = self.item.word();
        self.item.release(word.with_disable_depth(word.disable_depth() + 1));
        was_pending
    }

    fn enable(&self) {
        assert!(!self.grab(), "a disabled item was queued");
        let word = self.item.word();
        self.item.release(word.with_disable_depth(word.disable_depth() - 1));
    }
}

/// A queueing comes before the item is disabled, and is taken back, or is refused.
fn disable_against(queue: fn(&World) -> bool) {
    model_that_spins(move || {
        let world = World::new();
        world.inbox.saturate();
        let queuer = {
            let world = Arc::clone(&world);
            thread::spawn(move || queue(&world))
        };
        let was_pending = world.disable();
        assert_eq!(was_pending, queuer.join().unwrap());
        world.work(|_| panic!("a disabled item runs"));
        assert_eq!((world.item.word().disable_depth(), world.item.is_pending()), (1, false));
        assert!(!queue(&world));
    });
}

#[test]
fn who_wins_pending_sees_that_the_item_is_disabled() {
    disable_against(World::queue_claimed);
}

#[test]
fn one_step_queueing_sees_that_the_item_is_disabled() {
    disable_against(World::queue_idle);
}

#[test]
fn who_claims_for_the_inbox_sees_that_the_item_is_disabled() {
    disable_against(World::queue_by_inbox);
}

/// Two disable and enable, one of which queues meanwhile and afterwards: the depth comes out right,
/// and a queueing runs or was taken back.
#[test]
fn two_disable_and_enable() {
    model_that_spins(|| {
        let world = World::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let taken = u32::from(world.disable());
                world.enable();
                taken
            })
        };
        assert!(!world.disable(), "nobody queued it");
        assert!(!world.queue_claimed(), "disabled at least once");
        world.enable();
        let queued = u32::from(world.queue_claimed());
        let taken = other.join().unwrap();
        let mut runs = 0;
        world.work(|_| runs += 1);
        assert_eq!(runs + taken, queued);
        assert_eq!((world.item.word().disable_depth(), world.item.is_pending()), (0, false));
    });
}

/// | worker | canceller |
/// |---|---|
/// | `start`, enters the function | |
/// | | disables the item |
/// | the function queues the item again: refused | |
/// | | puts a barrier behind the run, and waits for it |
///
/// or the function queues it first, and the canceller takes it back; in any case nothing runs when
/// the wait is over, and what the last run did is seen.
#[test]
fn cancelling_with_waiting_outlasts_requeueing() {
    model_that_spins(|| {
        let world = World::new();
        let (done, owned) = (Arc::new(AtomicBool::new(false)), Arc::new(Owned::new()));
        assert!(world.queue_claimed());
        let worker = {
            let (world, done, owned) = (Arc::clone(&world), Arc::clone(&done), Arc::clone(&owned));
            thread::spawn(move || {
                let mut runs = 0;
                world.work(|item| {
                    if !core::ptr::eq(item, &world.item) {
                        return done.store(true, Ordering::Release);
                    }
                    owned.touch();
                    runs += 1;
                    if runs == 1 {
                        world.queue_claimed();
                    }
                });
            })
        };
        let barrier = WorkItem::new(nothing);
        world.disable();
        // SAFETY: both live until the worker has ended.
        let found = unsafe {
            world.lock().insert_barrier(NonNull::from(&world.item), NonNull::from(&barrier))
        };
        while found != FlushTarget::Idle && !done.load(Ordering::Acquire) {
            thread::yield_now();
        }
        owned.touch();
        world.enable();
        worker.join().unwrap();
        world.work(|_| panic!("a cancelled item runs"));
        assert!(!world.item.is_pending());
    });
}
