//! A queue's pwqs while its slots are led elsewhere.

use std::vec::Vec;

use crate::{EmptyCheck, PoolId, PwqId, PwqRef, Pwqs};

const fn at(pool: u32, pwq: u32) -> PwqRef {
    PwqRef { pool: PoolId(pool), pwq: PwqId(pwq) }
}

fn pwqs(all: &[PwqRef]) -> Pwqs {
    let mut pwqs = Pwqs::new();
    all.iter().for_each(|&at| pwqs.add(at));
    pwqs
}

/// Leads the slots to `wanted` as a driver does; returns what is retired.
fn change(pwqs: &mut Pwqs, slots: &mut [PwqRef], wanted: &[Option<u32>]) -> Vec<PwqRef> {
    for (slot, wanted) in slots.iter_mut().zip(wanted) {
        if let Some(wanted) = wanted.filter(|&wanted| Pwqs::moves(slot.pool, PoolId(wanted))) {
            *slot = at(wanted, pwqs.iter().len() as u32);
            pwqs.add(*slot);
        }
    }
    let replaced = pwqs.replaced(|at| slots.contains(&at));
    replaced.iter().for_each(|&at| pwqs.retire(at));
    replaced
}

#[test]
fn only_slots_that_lead_elsewhere_get_new_pwqs() {
    let mut slots = [at(0, 0), at(1, 0), at(2, 0)];
    let mut pwqs = pwqs(&slots);
    // The second is there already, and the third one's pool cannot be made.
    assert_eq!(change(&mut pwqs, &mut slots, &[Some(1), Some(1), None]), [at(0, 0)]);
    assert_eq!(slots, [at(1, 3), at(1, 0), at(2, 0)]);
    assert!(pwqs.in_use().eq([at(1, 0), at(2, 0), at(1, 3)]));
    assert!(pwqs.retired().eq([at(0, 0)]) && pwqs.is_retired(at(0, 0)));
    assert!(pwqs.entries().map(|(at, is_retired)| (at.pwq.0, is_retired)).eq([
        (0, true),
        (0, false),
        (0, false),
        (3, false)
    ]));
    assert!(change(&mut pwqs, &mut slots, &[Some(1), Some(1), Some(2)]).is_empty(), "no change");
}

#[test]
fn a_pwq_stays_while_a_slot_leads_to_it() {
    let shared = at(0, 0);
    let (mut pwqs, mut slots) = (pwqs(&[shared]), [shared; 2]);
    assert!(change(&mut pwqs, &mut slots, &[Some(1), None]).is_empty());
    assert_eq!(change(&mut pwqs, &mut slots, &[Some(1), Some(1)]), [shared]);
}

#[test]
fn what_was_retired_before_is_not_retired_again() {
    let (mut pwqs, mut slots) = (pwqs(&[at(0, 0)]), [at(0, 0)]);
    assert_eq!(change(&mut pwqs, &mut slots, &[Some(1)]), [at(0, 0)]);
    assert_eq!(change(&mut pwqs, &mut slots, &[Some(0)]), [at(1, 1)]);
    assert!(pwqs.retired().eq([at(0, 0), at(1, 1)]));
    pwqs.remove(at(0, 0));
    assert!(pwqs.iter().eq([at(1, 1), at(0, 2)]) && !pwqs.is_retired(at(0, 0)));
}

#[test]
fn of_an_ordered_queue_the_oldest_starts_items() {
    let mut ordered = Pwqs::new();
    assert!(!ordered.begins_plugged(true) && ordered.to_unplug(true).is_none());
    ordered.add(at(0, 0));
    assert!(ordered.begins_plugged(true) && !ordered.begins_plugged(false));
    ordered.add(at(1, 0));
    ordered.retire(at(0, 0));
    assert_eq!(ordered.to_unplug(true), Some(at(0, 0)), "retired or not");
    ordered.remove(at(0, 0));
    assert_eq!((ordered.to_unplug(true), ordered.to_unplug(false)), (Some(at(1, 0)), None));
}

#[test]
fn a_queue_that_leaves_all_pools_takes_the_retired_ones_along() {
    let (mut pwqs, mut slots) = (pwqs(&[at(0, 0)]), [at(0, 0)]);
    let _ = change(&mut pwqs, &mut slots, &[Some(1)]);
    assert_eq!(pwqs.take_all(), [at(0, 0), at(1, 1)]);
    assert!(pwqs.is_empty());
}

#[test]
fn a_queue_is_empty_if_nothing_moved_while_it_was_read() {
    let look = EmptyCheck::begin(5);
    assert!(look.finds_it_empty(false, || 5));
    assert!(!look.finds_it_empty(false, || 6), "what has ended may have queued something");
    assert!(!look.finds_it_empty(true, || panic!("this is not asked then")));
}
