//! The way around the lock, with one thread; for more, see `threads` and the loom models.

use std::format;
use std::vec::Vec;

use super::support::{Fixture, ItemPtr, count, free_item, new_item, work};
use crate::place::PoolKind;
use crate::policy::UNMANAGED;
use crate::{Grab, Inbox, Kick, PoolConfig, PoolId, PwqId, WorkWord};

/// Claims a fresh item for pool 0 and pushes it.
fn push(inbox: &Inbox, item: ItemPtr, pwq: PwqId) -> bool {
    assert!(work(item).claim_for(work(item).word(), PoolId(0)));
    // SAFETY: owned, and freed only after it was taken out.
    unsafe { inbox.push(item, pwq) }
}

#[test]
fn items_come_out_oldest_first_each_with_its_pwq() {
    let inbox = Inbox::new();
    assert!(inbox.is_empty() && inbox.take().next().is_none());
    let items: Vec<ItemPtr> = (0..5).map(|_| new_item(count)).collect();
    for round in 0..2 {
        for (n, &item) in items.iter().enumerate() {
            let _ = push(&inbox, item, PwqId(7 + n as u32));
            assert!(!inbox.is_empty());
        }
        let taken: Vec<(PwqId, ItemPtr)> = inbox.take().collect();
        let expected = items.iter().enumerate().map(|(n, &item)| (PwqId(7 + n as u32), item));
        assert_eq!(taken, Vec::from_iter(expected), "round {round}");
        assert!(inbox.is_empty());
        items.iter().for_each(|&item| work(item).release(work(item).word()));
    }
    for item in items {
        // SAFETY: taken out above.
        unsafe { free_item(item) };
    }
}

#[test]
fn pushing_is_enough_only_while_the_pool_is_saturated() {
    let inbox = Inbox::default();
    let items = [(); 3].map(|()| new_item(count));
    assert!(!inbox.is_saturated(), "a new pool has nobody who would come");
    assert!(!push(&inbox, items[0], PwqId(0)));
    inbox.saturate();
    assert!(inbox.is_saturated());
    assert!(push(&inbox, items[1], PwqId(0)));
    inbox.desaturate();
    assert!(!push(&inbox, items[2], PwqId(0)));
    assert_eq!(inbox.take().count(), 3, "the item is there in any case");
    assert_eq!(format!("{inbox:?}"), "Inbox { is_empty: true, is_saturated: false }");
    for item in items {
        // SAFETY: taken out above.
        unsafe { free_item(item) };
    }
}

#[test]
fn a_full_inbox_is_emptied_by_whoever_finds_it_full() {
    let inbox = Inbox::new();
    inbox.saturate();
    let items: Vec<ItemPtr> = (0..129).map(|_| new_item(count)).collect();
    for round in 0..2 {
        let (last, others) = items.split_last().expect("items");
        assert!(others.iter().all(|&item| push(&inbox, item, PwqId(0))), "round {round}");
        assert!(!push(&inbox, *last, PwqId(0)), "128 are enough");
        assert_eq!(inbox.take().count(), 129);
        items.iter().for_each(|&item| work(item).release(work(item).word()));
    }
    for item in items {
        // SAFETY: taken out above.
        unsafe { free_item(item) };
    }
}

#[test]
fn an_item_in_transit_says_where_it_is_going() {
    let item = new_item(count);
    let seen = work(item).word();
    assert!(work(item).claim_for(seen, PoolId(3)));
    assert_eq!(work(item).word(), WorkWord::off_queue(PoolId(3), false).with_pending(true));
    assert!(!work(item).claim_for(seen, PoolId(3)), "the word is not what it was");
    assert!(work(item).claim().is_pending(), "others are refused");
    // SAFETY: on no list.
    unsafe { free_item(item) };
}

#[test]
fn what_was_in_transit_is_an_item_like_any_other() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(1);
    let inbox = Inbox::new();
    let items = [(); 3].map(|()| f.item());
    for item in items {
        let _ = push(&inbox, item, pwq);
        assert_eq!(f.grab(item), Grab::NotHere, "not before the inbox is emptied");
    }
    let kicks: Vec<Kick> = inbox
        .take()
        // SAFETY: pushed by its owner, and kept by the fixture.
        .map(|(pwq, item)| unsafe { f.enqueue(pwq, item) })
        .collect();
    f.check();
    assert_eq!(kicks, [Kick::Wake(w[3]), Kick::None, Kick::None], "the others are inactive");
    let _ = f.runs(w[3], items[0]);
    let _ = f.cancel(items[1]);
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], items[2]);
}

/// Whoever has created a worker finds an item in the inbox, for which another one is woken.
#[test]
fn a_worker_in_the_making_takes_nobodys_wake_up() {
    let config = PoolConfig::of_kind(PoolId(0), PoolKind::Percpu, 1, false);
    let (mut f, w) = Fixture::with(config, 1);
    let (pwq, item, inbox) = (f.pwq(8), f.item(), Inbox::new());
    let spare = f.worker_new();
    assert!(!push(&inbox, item, pwq));
    let found = f.take_inbox(&inbox).expect("nobody runs who would come for it");
    assert_eq!(found, Kick::Wake(w[0]));
    assert_eq!(f.born(spare, None), Kick::None, "one comes");
    assert_eq!(f.runs(w[0], item), Kick::None);
    let _ = f.queue_new(pwq);
    assert_eq!(f.blocks(w[0]), Kick::Wake(spare), "it stands by");
}

#[test]
fn the_more_urgent_of_two_kicks_is_kept() {
    let wake = Kick::Wake(crate::WorkerId(1));
    let by_urgency = [Kick::None, Kick::Watch, Kick::NeedFirst, wake];
    for (n, &a) in by_urgency.iter().enumerate() {
        for (m, &b) in by_urgency.iter().enumerate() {
            assert_eq!(a.or(b), by_urgency[n.max(m)]);
        }
    }
}
