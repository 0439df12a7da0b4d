//! Queueing through the pool's lock: no event is lost, no run is made up.

use core::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use super::{World, nothing};
use crate::{Enqueued, Grab, PoolId, WorkItem};

/// Stores the event and queues the item, in another thread.
fn queuer(world: &Arc<World>) -> thread::JoinHandle<bool> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        world.event.set();
        world.queue()
    })
}

/// The queuer has returned: the last run saw the event, or one is still to come that does.
fn event_is_seen(world: &World, seen: Option<bool>) {
    let seen = world.work_and_watch().or(seen);
    assert_eq!(seen, Some(true), "the event was lost");
}

/// | queuer | worker |
/// |---|---|
/// | stores the event | |
/// | `claim`: refused, the item is queued | |
/// | | `start` |
/// | | the function must see the event |
///
/// or the claim comes after `start` and wins, so that there is another run.
#[test]
fn a_refused_queuers_event_is_seen_by_the_run() {
    loom::model(|| {
        let world = World::new();
        assert!(world.queue());
        let queuer = queuer(&world);
        let seen = world.work_and_watch();
        queuer.join().unwrap();
        event_is_seen(&world, seen);
    });
}

/// The queuer is refused while the owner is still on its way to the pool's lock.
#[test]
fn a_refused_queuers_event_survives_the_owners_set_queued() {
    loom::model(|| {
        let world = World::new();
        assert!(!world.item.claim().is_pending());
        let queuer = queuer(&world);
        world.enqueue(&world.item);
        let seen = world.work_and_watch();
        queuer.join().unwrap();
        event_is_seen(&world, seen);
    });
}

/// The queuer is refused while the item is inactive; activating it rewrites the word.
#[test]
fn a_refused_queuers_event_survives_activation() {
    loom::model(|| {
        let world = World::with_limit(1);
        let first = WorkItem::new(nothing);
        assert!(!first.claim().is_pending());
        world.enqueue(&first);
        assert!(world.queue());
        assert!(world.item.word().is_inactive());
        let queuer = queuer(&world);
        let seen = world.work_and_watch();
        queuer.join().unwrap();
        event_is_seen(&world, seen);
    });
}

/// The queuer is refused while the item is in transit; the holder of the lock makes it queued.
#[test]
fn a_refused_queuers_event_survives_the_inbox() {
    loom::model(|| {
        let world = World::new();
        world.inbox.saturate();
        let seen = world.item.word();
        assert!(world.item.claim_for(seen, PoolId(0)));
        let queuer = queuer(&world);
        // SAFETY: owned; the item will be run.
        assert!(unsafe { world.inbox.push(NonNull::from(&world.item), world.pwq) });
        let seen = world.work_and_watch();
        queuer.join().unwrap();
        event_is_seen(&world, seen);
    });
}

/// Two queuers at once, one of which owns `PENDING`: both events are seen.
#[test]
fn the_winners_and_the_losers_events_are_seen() {
    loom::model(|| {
        let world = World::new();
        let queuer = queuer(&world);
        let mine = world.queue();
        let seen = world.work_and_watch();
        let others = queuer.join().unwrap();
        assert!(mine || others);
        event_is_seen(&world, seen);
    });
}

/// The queuer is refused by an item that is cancelled and queued again by others before it runs.
#[test]
fn a_refused_queuers_event_survives_a_change_of_owner() {
    loom::model(|| {
        let world = World::new();
        assert!(world.queue());
        let queuer = queuer(&world);
        // SAFETY: the item is alive.
        let grab = unsafe { world.lock().try_grab(NonNull::from(&world.item)) };
        assert!(matches!(grab, Grab::Taken(..)));
        world.enqueue(&world.item);
        let seen = world.work_and_watch();
        queuer.join().unwrap();
        event_is_seen(&world, seen);
    });
}

/// Each successful `queue` is one run, whichever way it was done.
#[test]
fn one_step_queueing_and_claims_make_one_run_each() {
    loom::model(|| {
        let world = World::new();
        let queuer = queuer(&world);
        let seen = world.item.word();
        let mut mine = false;
        if !seen.is_pending() {
            let mut pool = world.lock();
            // SAFETY: the item is alive and will be run.
            let outcome = unsafe { pool.enqueue_idle(world.pwq, NonNull::from(&world.item), seen) };
            mine = matches!(outcome, Enqueued::Queued(_));
        }
        let mut runs = 0;
        world.work(|_| runs += 1);
        let others = queuer.join().unwrap();
        world.work(|_| runs += 1);
        assert_eq!(runs, u32::from(mine) + u32::from(others));
        assert!(runs > 0);
    });
}

/// A cancelled item does not run, one that was not cancelled does.
#[test]
fn an_item_is_either_cancelled_or_run() {
    loom::model(|| {
        let world = World::new();
        assert!(world.queue());
        let canceller = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // SAFETY: the item is alive.
                let grab = unsafe { world.lock().try_grab(NonNull::from(&world.item)) };
                let taken = matches!(grab, Grab::Taken(..));
                if taken {
                    world.item.release(world.item.word());
                }
                taken
            })
        };
        let mut runs = 0;
        world.work(|_| runs += 1);
        let cancelled = canceller.join().unwrap();
        world.work(|_| runs += 1);
        assert_eq!(runs, u32::from(!cancelled));
        assert!(!world.item.is_pending());
    });
}
