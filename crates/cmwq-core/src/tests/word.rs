//! The work word against its bit table, and the item's transitions of it.

use std::format;

use super::support::{Rng, count, free_item, new_item, with_seeds, work};
use crate::{PoolId, PwqId, PwqRef, WorkItem, WorkWord};

const fn at(pool: u32, pwq: u32) -> PwqRef {
    PwqRef { pool: PoolId(pool), pwq: PwqId(pwq) }
}

#[test]
fn bits_are_where_the_table_says() {
    // Queued: PENDING 0, INACTIVE 1, PWQ 2, LINKED 3, colour 4..8, pool 8..32, pwq 32..64.
    let zero = at(0, 0);
    assert_eq!(WorkWord::queued(zero, 0, false).bits(), 0b0101);
    assert_eq!(WorkWord::queued(zero, 0, true).bits(), 0b0111);
    assert_eq!(WorkWord::queued(zero, 0, false).with_linked(true).bits(), 0b1101);
    assert_eq!(WorkWord::queued(zero, 15, false).bits(), 0xf5);
    assert_eq!(WorkWord::queued(at(1, 0), 0, false).bits(), 0x105);
    assert_eq!(WorkWord::queued(at(0, 1), 0, false).bits(), 0x1_0000_0005);
    assert_eq!(
        WorkWord::queued(at(0xab_cdef, 0x1234_5678), 0xa, true).bits(),
        0x1234_5678_abcd_efa7
    );
    // Off queue: PENDING 0, BH 4, disable depth 5..21, pool 21..52.
    assert_eq!(WorkWord::off_queue(PoolId(0), false).bits(), 0);
    assert_eq!(WorkWord::off_queue(PoolId(0), true).bits(), 0x10);
    assert_eq!(WorkWord::off_queue(PoolId(0), false).with_pending(true).bits(), 1);
    assert_eq!(WorkWord::off_queue(PoolId(0), false).with_disable_depth(1).bits(), 0x20);
    assert_eq!(WorkWord::off_queue(PoolId(0), false).with_disable_depth(0xffff).bits(), 0x1f_ffe0);
    assert_eq!(WorkWord::off_queue(PoolId(1), false).bits(), 0x20_0000);
    assert_eq!(WorkWord::INIT.bits(), 0x000f_ffff_ffe0_0000, "never queued: 31 ones at bit 21");
}

#[test]
fn an_initial_word_is_idle_and_knows_no_pool() {
    let word = WorkWord::INIT;
    assert!(!word.is_pending() && !word.is_queued() && !word.is_bh());
    assert_eq!((word.pool(), word.pwq(), word.disable_depth()), (None, None, 0));
}

fn random_at(rng: &mut Rng) -> PwqRef {
    at(rng.below(1 << 24) as u32, rng.next() as u32)
}

#[test]
fn a_queued_word_decodes_to_what_it_was_made_of() {
    with_seeds(20, |rng| {
        for _ in 0..100 {
            let (at, color, inactive) = (random_at(rng), rng.below(16) as u8, rng.percent(50));
            let linked = rng.percent(50);
            let word = WorkWord::queued(at, color, inactive).with_linked(linked);
            assert!(word.is_pending() && word.is_queued());
            assert_eq!((word.pwq(), word.pool()), (Some(at), Some(at.pool)));
            assert_eq!((word.color(), word.is_inactive()), (color, inactive));
            assert_eq!(word.is_linked(), linked);
            // An off-queue field must not be read out of the bits of a queued word.
            assert_eq!((word.disable_depth(), word.is_bh()), (0, false));
            // Each transition changes its own bit.
            assert_eq!(word.with_inactive(!inactive).bits() ^ word.bits(), 0b10);
            assert_eq!(word.with_linked(!linked).bits() ^ word.bits(), 0b1000);
            assert_eq!(WorkWord::from_bits(word.bits()), word);
        }
    });
}

#[test]
fn an_off_queue_word_decodes_to_what_it_was_made_of() {
    with_seeds(20, |rng| {
        for _ in 0..100 {
            let (pool, bh) = (PoolId(rng.below(1 << 24) as u32), rng.percent(50));
            let (depth, pending) = (rng.below(1 << 16) as u32, rng.percent(50));
            let word =
                WorkWord::off_queue(pool, bh).with_disable_depth(depth).with_pending(pending);
            assert!(!word.is_queued() && !word.is_inactive() && !word.is_linked());
            assert_eq!((word.is_pending(), word.is_bh()), (pending, bh));
            assert_eq!((word.pool(), word.pwq()), (Some(pool), None));
            assert_eq!(word.disable_depth(), depth);
            assert_eq!(
                word.with_disable_depth(0),
                WorkWord::off_queue(pool, bh).with_pending(pending)
            );
        }
    });
}

#[test]
fn debug_decodes_the_word() {
    let queued = WorkWord::queued(at(3, 7), 9, true).with_linked(true);
    assert_eq!(
        format!("{queued:?}"),
        "WorkWord { pending: true, queued_on: PwqRef { pool: pool3, pwq: pwq7 }, \
         inactive: true, linked: true, color: 9 }"
    );
    assert_eq!(
        format!("{:?}", WorkWord::off_queue(PoolId(4), true).with_disable_depth(2)),
        "WorkWord { pending: false, last_pool: Some(pool4), disable_depth: 2, bh: true }"
    );
    assert_eq!(
        format!("{:?}", WorkWord::INIT),
        "WorkWord { pending: false, last_pool: None, disable_depth: 0 }"
    );
}

#[test]
fn an_item_has_the_layout_of_a_work_struct() {
    // data, entry.next, entry.prev, func: what C code that embeds one relies on.
    assert_eq!((size_of::<WorkItem>(), align_of::<WorkItem>()), (32, 8));
    let item = new_item(count);
    assert_eq!(WorkItem::node(item).as_ptr() as usize - item.as_ptr() as usize, 8);
    // SAFETY: the node is the item's.
    assert_eq!(unsafe { WorkItem::of_node(WorkItem::node(item)) }, item);
    // SAFETY: nothing refers to it.
    unsafe { free_item(item) };
}

#[test]
fn one_claim_wins_and_keeps_the_rest_of_the_word() {
    let item = new_item(count);
    let idle = WorkWord::off_queue(PoolId(6), true).with_disable_depth(1);
    assert_eq!(work(item).claim(), WorkWord::INIT);
    work(item).publish_idle(idle);
    assert!(!work(item).is_pending());
    assert_eq!(work(item).claim(), idle, "the winner learns the pool, the depth and BH");
    assert_eq!(work(item).claim(), idle.with_pending(true), "the next one is refused");
    assert_eq!(work(item).word(), idle.with_pending(true));
    // SAFETY: nothing refers to it.
    unsafe { free_item(item) };
}

#[test]
fn an_item_from_before_a_fork_is_taken_over_with_its_depth_and_without_its_pool() {
    const NOWHERE: PoolId = PoolId(9);
    let never_queued = WorkWord::INIT.with_disable_depth(3);
    let ran = WorkWord::off_queue(PoolId(6), true).with_disable_depth(3);
    let armed = ran.with_pending(true);
    let words = [never_queued, ran, armed, WorkWord::queued(at(6, 2), 3, false)];
    for (word, depth) in words.into_iter().zip([3, 3, 3, 0]) {
        let item = new_item(count);
        assert!(!work(item).claim().is_pending());
        work(item).set_own(word);
        // SAFETY: no pool has the item on a list.
        let take = |seen| unsafe { work(item).take_over(seen, NOWHERE) };
        assert!(!take(WorkWord::INIT), "another word was seen");
        assert!(take(word));
        let ours = WorkWord::off_queue(NOWHERE, false).with_disable_depth(depth);
        assert_eq!(work(item).word(), ours.with_pending(true));
        // SAFETY: nothing refers to it.
        unsafe { free_item(item) };
    }
}

#[test]
fn idle_to_queued_needs_the_very_word_that_was_seen() {
    let item = new_item(count);
    let seen = work(item).word();
    let queued = WorkWord::queued(at(1, 2), 3, false);
    work(item).publish_idle({
        assert!(!work(item).claim().is_pending());
        WorkWord::INIT.with_disable_depth(1)
    });
    assert!(!work(item).queue_from_idle(seen, queued), "it was disabled meanwhile");
    assert_eq!(work(item).word().disable_depth(), 1);
    assert!(!work(item).claim().is_pending());
    work(item).publish_idle(WorkWord::INIT);
    assert!(work(item).queue_from_idle(seen, queued));
    assert_eq!(work(item).word(), queued);
    // SAFETY: nothing refers to it.
    unsafe { free_item(item) };
}

unsafe extern "C" fn one(_: *mut WorkItem) {}
unsafe extern "C" fn other(_: *mut WorkItem) {}

#[test]
fn an_item_is_known_by_the_function_that_it_was_given() {
    // One pointer each: a function may have several addresses.
    let [one, other]: [crate::WorkFn; 2] = [one, other];
    let mut item = WorkItem::new(one);
    assert!(core::ptr::fn_addr_eq(item.func(), one));
    assert_eq!(item.way(), 0);
    for way in [1, 2, 3, 1] {
        item.know_as(other, way);
        assert!(core::ptr::fn_addr_eq(item.func(), other));
        assert_eq!(item.way(), way);
    }
    assert!(!item.is_pending() && item.word() == WorkWord::INIT);
}

#[test]
fn the_pool_where_an_item_may_still_run_is_asked_first() {
    let item = WorkItem::new(count);
    let _ = item.claim();
    assert_eq!(item.word().may_run_at(PoolId(3), false), None, "it never ran");
    item.set_queued(WorkWord::queued(PwqRef { pool: PoolId(2), pwq: PwqId(0) }, 0, false));
    assert_eq!(item.word().may_run_at(PoolId(3), false), Some(PoolId(2)));
    assert_eq!(item.word().may_run_at(PoolId(2), false), None, "it is that one");
    assert_eq!(item.word().may_run_at(PoolId(3), true), None, "ordered");
}
