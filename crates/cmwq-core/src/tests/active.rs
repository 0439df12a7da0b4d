//! `max_active` of one pwq: slots, the inactive list, and changes of the limit.

use std::vec::Vec;

use super::support::{Fixture, ItemPtr, Rng, pwq_config, steps, with_seeds, work};
use crate::policy::UNMANAGED;
use crate::{Kick, Next, PwqId, WorkerId};

/// An unmanaged pool with that many idle workers and a pwq with that limit.
fn pool_with_limit(max_active: u32, workers: usize) -> (Fixture, PwqId, Vec<WorkerId>) {
    let (mut f, w) = Fixture::new(UNMANAGED, workers);
    let pwq = f.pwq(max_active);
    (f, pwq, w)
}

fn is_parked(item: ItemPtr) -> bool {
    work(item).word().is_inactive()
}

#[test]
fn items_beyond_the_limit_are_parked_and_start_in_order() {
    let (mut f, pwq, w) = pool_with_limit(2, 8);
    let items = [(); 5].map(|()| f.queue_new(pwq));
    assert_eq!(items.map(is_parked), [false, false, true, true, true]);
    assert_eq!(f.pwq_load(pwq), Some((2, true, true)));
    let _ = f.runs(w[7], items[0]);
    let _ = f.runs(w[6], items[1]);
    assert!(!f.sleeps(w[5]), "nobody else may start");

    let _ = f.finish(w[6]);
    assert_eq!(items.map(is_parked), [false, false, false, true, true]);
    let _ = f.runs(w[6], items[2]);
    let _ = f.finish(w[7]);
    let _ = f.runs(w[7], items[3]);
    let _ = f.finish(w[7]);
    let _ = f.runs(w[7], items[4]);
    assert_eq!(f.pwq_load(pwq), Some((2, false, true)));
}

#[test]
fn a_parked_item_wakes_nobody() {
    let (mut f, pwq, _) = pool_with_limit(1, 4);
    let (first, second) = (f.item(), f.item());
    assert!(matches!(f.queue(pwq, first), Kick::Wake(_)));
    assert_eq!(f.queue(pwq, second), Kick::None);
}

#[test]
fn a_limit_of_one_runs_one_at_a_time_in_order() {
    let (mut f, pwq, w) = pool_with_limit(1, 8);
    let items = [(); 4].map(|()| f.queue_new(pwq));
    for item in items {
        let _ = f.runs(w[7], item);
        assert!(!f.sleeps(w[6]));
        let _ = f.finish(w[7]);
    }
}

#[test]
fn a_new_item_does_not_overtake_parked_ones() {
    let (mut f, pwq, w) = pool_with_limit(1, 8);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[7], items[0]);
    let _ = f.finish(w[7]);
    // items[1] holds the slot now; a newcomer goes behind items[2].
    let late = f.queue_new(pwq);
    assert!(is_parked(late));
    for item in [items[1], items[2], late] {
        let _ = f.runs(w[7], item);
        let _ = f.finish(w[7]);
    }
}

#[test]
fn each_pwq_has_its_own_limit() {
    let (mut f, one, w) = pool_with_limit(1, 8);
    let two = f.add_pwq(pwq_config(2, 2));
    let a = [(); 2].map(|()| f.queue_new(one));
    let b = [(); 3].map(|()| f.queue_new(two));
    assert_eq!(a.map(is_parked), [false, true]);
    assert_eq!(b.map(is_parked), [false, false, true]);
    let _ = f.runs(w[7], a[0]);
    let _ = f.runs(w[6], b[0]);
    let _ = f.finish(w[6]);
    assert!(is_parked(a[1]), "a slot of one pwq is none of the other's");
    assert!(!is_parked(b[2]));
}

#[test]
fn raising_the_limit_starts_parked_items_in_order() {
    let (mut f, pwq, w) = pool_with_limit(1, 8);
    let items = [(); 5].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[7], items[0]);
    assert_eq!(f.set_max_active(pwq, 3), Kick::Wake(w[6]));
    f.check();
    assert_eq!(items.map(is_parked), [false, false, false, true, true]);
    assert_eq!(f.runs(w[6], items[1]), Kick::Wake(w[5]), "the chain wakes the others");
    assert_eq!(f.runs(w[5], items[2]), Kick::None);
}

#[test]
fn lowering_the_limit_lets_active_items_finish() {
    let (mut f, pwq, w) = pool_with_limit(3, 8);
    let items = [(); 5].map(|()| f.queue_new(pwq));
    for (&id, &item) in w.iter().rev().zip(&items[..3]) {
        let _ = f.runs(id, item);
    }
    assert_eq!(f.set_max_active(pwq, 1), Kick::None);
    f.check();
    for id in [w[7], w[6]] {
        let _ = f.finish(id);
        assert!(!f.sleeps(id), "three, then two are active: no slot is free yet");
        assert_eq!(items.map(is_parked), [false, false, false, true, true]);
    }
    let _ = f.finish(w[5]);
    let _ = f.runs(w[5], items[3]);
    assert!(is_parked(items[4]));
}

#[test]
fn a_limit_of_zero_freezes_and_thaws_in_order() {
    let (mut f, pwq, w) = pool_with_limit(2, 8);
    let first = f.queue_new(pwq);
    let _ = f.runs(w[7], first);
    assert_eq!(f.set_max_active(pwq, 0), Kick::None);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    assert_eq!(items.map(is_parked), [true; 3]);
    let _ = f.finish(w[7]);
    assert!(!f.sleeps(w[7]));
    assert_eq!(f.pwq_load(pwq), Some((0, true, true)));
    assert_eq!(f.set_max_active(pwq, 2), Kick::Wake(w[7]));
    f.check();
    let _ = f.runs(w[7], items[0]);
    let _ = f.runs(w[6], items[1]);
    assert!(is_parked(items[2]));
}

/// A pool in which somebody always comes when kicked, and what it should start next.
struct Busy {
    f: Fixture,
    pwq: PwqId,
    items: Vec<ItemPtr>,
    started: usize,
    busy: Vec<WorkerId>,
}

impl Busy {
    fn act(&mut self, kick: Kick) {
        if let Kick::Wake(id) = kick {
            self.look(id);
        }
    }

    fn look(&mut self, id: WorkerId) {
        match self.f.next(id) {
            Next::Run(claim) => {
                assert_eq!(claim.item, self.items[self.started].as_ptr(), "out of order");
                self.started += 1;
                self.busy.push(id);
                self.act(claim.kick);
            }
            Next::Manage => {
                let new = self.f.worker_new();
                let kick = self.f.born(new, Some(id));
                self.look(id);
                self.act(kick);
            }
            Next::Sleep { .. } | Next::Exit => {}
        }
    }

    fn queue(&mut self) {
        let item = self.f.item();
        self.items.push(item);
        let kick = self.f.queue(self.pwq, item);
        self.act(kick);
    }

    fn set_limit(&mut self, limit: u32) {
        let kick = self.f.set_max_active(self.pwq, limit);
        self.f.check();
        self.act(kick);
    }

    fn finish_one(&mut self, rng: &mut Rng) {
        if !self.busy.is_empty() {
            let id = self.busy.swap_remove(rng.below(self.busy.len()));
            let _ = self.f.finish(id);
            self.look(id);
        }
    }
}

/// Items start in queueing order, as many as the limit admits and not one more or less.
#[test]
fn order_and_limit_hold_under_random_changes() {
    with_seeds(20, |rng| {
        let (f, pwq, _) = pool_with_limit(3, 2);
        let mut run = Busy { f, pwq, items: Vec::new(), started: 0, busy: Vec::new() };
        let mut limit = 3;
        for _ in 0..steps(500, 60) {
            let before = run.busy.len();
            match rng.below(10) {
                0 => {
                    limit = rng.below(6);
                    run.set_limit(limit as u32);
                }
                1..=5 => run.queue(),
                _ => run.finish_one(rng),
            }
            let unfinished = run.items.len() - run.started + run.busy.len();
            assert!(run.busy.len() <= limit.max(before), "more than the limit run");
            assert!(run.busy.len() >= limit.min(unfinished), "fewer than could run");
        }
        run.set_limit(100);
        while !run.busy.is_empty() {
            run.finish_one(rng);
        }
        assert_eq!(run.started, run.items.len(), "every item ran");
    });
}
