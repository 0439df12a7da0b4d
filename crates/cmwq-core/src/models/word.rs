//! The promises of the work word by themselves.

use loom::sync::Arc;
use loom::sync::Mutex;
use loom::thread;

use super::{Event, Owned, model_of_three, nothing};
use crate::{PoolId, WorkItem, WorkWord};

struct Shared {
    item: WorkItem,
    event: Event,
    owned: Owned,
    /// The pool's lock, where a step is taken under it.
    lock: Mutex<()>,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared {
        item: WorkItem::new(nothing),
        event: Event::new(),
        owned: Owned::new(),
        lock: Mutex::new(()),
    })
}

const IDLE: WorkWord = WorkWord::off_queue(PoolId(0), false);

const fn queued() -> WorkWord {
    WorkWord::queued(crate::PwqRef { pool: PoolId(0), pwq: crate::PwqId(0) }, 0, false)
}

#[test]
fn one_of_two_claims_wins() {
    loom::model(|| {
        let s = shared();
        let other = {
            let s = Arc::clone(&s);
            thread::spawn(move || !s.item.claim().is_pending())
        };
        let mine = !s.item.claim().is_pending();
        assert!(mine ^ other.join().unwrap());
    });
}

/// | worker | queuer |
/// |---|---|
/// | takes the item off its list | |
/// | `start` | |
/// | | `claim` wins |
/// | | puts the item on the list of another pool, under that pool's lock |
#[test]
fn the_next_owner_finds_the_link_as_the_worker_left_it() {
    loom::model(|| {
        let s = shared();
        assert!(!s.item.claim().is_pending());
        s.item.set_queued(queued());
        let queuer = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                if !s.item.claim().is_pending() {
                    s.owned.touch();
                }
            })
        };
        {
            let _pool = s.lock.lock().unwrap();
            s.owned.touch();
            s.item.start(IDLE);
        }
        queuer.join().unwrap();
    });
}

/// The same for the shorter ways to own an idle item.
#[test]
fn who_queues_in_one_step_finds_the_link_as_the_canceller_left_it() {
    loom::model(|| {
        let s = shared();
        assert!(!s.item.claim().is_pending());
        let queuer = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let _pool = s.lock.lock().unwrap();
                let seen = s.item.word();
                if !seen.is_pending() && s.item.queue_from_idle(seen, queued()) {
                    s.owned.touch();
                }
            })
        };
        s.owned.touch();
        s.item.release(IDLE);
        queuer.join().unwrap();
    });
}

#[test]
fn who_claims_for_a_pool_finds_the_link_as_the_canceller_left_it() {
    loom::model(|| {
        let s = shared();
        assert!(!s.item.claim().is_pending());
        let queuer = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let seen = s.item.word();
                if !seen.is_pending() && s.item.claim_for(seen, PoolId(0)) {
                    s.owned.touch();
                }
            })
        };
        s.owned.touch();
        s.item.release(IDLE);
        queuer.join().unwrap();
    });
}

#[test]
fn the_next_owner_finds_the_link_as_the_canceller_left_it() {
    loom::model(|| {
        let s = shared();
        assert!(!s.item.claim().is_pending());
        let next = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                if !s.item.claim().is_pending() {
                    s.owned.touch();
                }
            })
        };
        s.owned.touch();
        s.item.release(IDLE);
        next.join().unwrap();
    });
}

/// The owner and the worker rewrite the word after the caller was refused. Whatever they write, and
/// if they write it relaxed, the run must synchronise with the refused caller.
fn hears_a_refused_caller(rewrite: fn(&WorkItem)) {
    loom::model(move || {
        let s = shared();
        assert!(!s.item.claim().is_pending());
        let refused = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.event.set();
                s.item.claim().is_pending()
            })
        };
        rewrite(&s.item);
        s.item.start(IDLE);
        let seen = s.event.is_set();
        assert!(seen || !refused.join().unwrap(), "a refused caller's event was lost");
    });
}

#[test]
fn a_run_hears_who_was_refused_before_set_queued() {
    hears_a_refused_caller(|item| item.set_queued(queued()));
}

#[test]
fn a_run_hears_who_was_refused_before_set_in_transit() {
    hears_a_refused_caller(|item| item.set_in_transit(PoolId(1)));
}

#[test]
fn a_run_hears_who_was_refused_before_update_queued() {
    hears_a_refused_caller(|item| item.update_queued(queued()));
}

/// In a child of a fork the item's word is `before`, from before the fork. Two queue it: one takes
/// it over, and its run hears the other, if that was refused.
fn is_taken_over_once(before: WorkWord) {
    /// The id of no pool, by which words of this process are known.
    const NOWHERE: PoolId = PoolId(9);

    /// Whether the caller owned the item.
    fn claim(s: &Shared, before: WorkWord) -> bool {
        let is_owned = loop {
            let seen = s.item.word();
            if seen != before {
                break !s.item.claim().is_pending();
            }
            // SAFETY: no pool has the item on a list.
            if unsafe { s.item.take_over(seen, NOWHERE) } {
                break true;
            }
        };
        if is_owned {
            s.owned.touch();
        }
        is_owned
    }

    loom::model(move || {
        let s = shared();
        assert!(!s.item.claim().is_pending());
        if before.is_queued() {
            s.item.set_queued(before);
        } else {
            s.item.release(before);
        }
        let other = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.event.set();
                claim(&s, before)
            })
        };
        if claim(&s, before) {
            s.item.start(IDLE);
            let seen = s.event.is_set();
            // The other one may have found it idle, behind this run.
            assert!(other.join().unwrap() || seen, "a refused caller's event was lost");
        } else {
            assert!(other.join().unwrap(), "nobody owns the item");
        }
    });
}

#[test]
fn an_inherited_item_is_taken_over_once_and_hears_who_was_refused() {
    is_taken_over_once(queued());
}

#[test]
fn an_item_that_was_idle_at_the_fork_is_claimed_once() {
    is_taken_over_once(WorkWord::INIT);
}

/// Whoever holds `PENDING` without queueing turns callers away. They rely on it that what they
/// stored is seen by somebody; if there is to be no run, then by the one that refused them.
#[test]
fn whoever_gives_pending_up_sees_what_those_it_turned_away_stored() {
    loom::model(|| {
        let s = shared();
        assert!(!s.item.claim().is_pending());
        let refused = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                s.event.set();
                s.item.claim().is_pending()
            })
        };
        s.item.release(IDLE);
        let seen = s.event.is_set();
        assert!(seen || !refused.join().unwrap(), "a refused caller's event was lost");
    });
}

/// Of several ways to take an idle item, one succeeds.
#[test]
fn a_claim_and_the_short_ways_exclude_each_other() {
    model_of_three(|| {
        let s = shared();
        let claimer = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let won = !s.item.claim().is_pending();
                if won {
                    s.owned.touch();
                }
                won
            })
        };
        let for_pool = {
            let s = Arc::clone(&s);
            thread::spawn(move || {
                let seen = s.item.word();
                let won = !seen.is_pending() && s.item.claim_for(seen, PoolId(0));
                if won {
                    s.owned.touch();
                }
                won
            })
        };
        let seen = s.item.word();
        let queued = !seen.is_pending() && s.item.queue_from_idle(seen, queued());
        if queued {
            s.owned.touch();
        }
        let winners = [claimer.join().unwrap(), for_pool.join().unwrap(), queued];
        assert!(winners.iter().filter(|&&won| won).count() == 1, "{winners:?}");
    });
}
