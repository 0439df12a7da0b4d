//! Non-reentrance: an item never runs twice at once, and other items are not held up by that.

use super::support::{Fixture, count, count_other, pwq_config, work};
use crate::policy::UNMANAGED;
use crate::{Kick, WqKey};

#[test]
fn an_item_queued_again_goes_to_the_worker_that_runs_it() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[3], item);
    let other = f.item();
    let _ = f.queue(pwq, item);
    let _ = f.queue(pwq, other);
    assert_eq!(f.runs(w[2], other), Kick::None, "w2 skips the item that w3 runs");
    assert!(!f.work_waits(), "it waits for w3 alone");
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], item);
}

#[test]
fn a_worker_that_finds_only_such_an_item_goes_back_to_sleep() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[3], item);
    assert_eq!(f.queue(pwq, item), Kick::Wake(w[2]));
    assert!(!f.sleeps(w[2]));
    assert_eq!(f.nr_running(), 1);
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], item);
}

#[test]
fn it_keeps_its_place_among_what_the_worker_has_scheduled() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let (item, barrier) = (f.queue_new(pwq), f.item());
    let _ = f.runs(w[3], item);
    let _ = f.queue(pwq, item);
    assert!(!f.sleeps(w[2]));
    // A flush now waits for the last queueing, which is scheduled, not for the run.
    assert_eq!(f.barrier(item, barrier), crate::FlushTarget::Queued);
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], item);
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], barrier);
}

#[test]
fn scheduled_items_come_before_the_worklist() {
    let (mut f, w) = Fixture::new(1, 4);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[3], item);
    let _ = f.blocks(w[3]);
    let _ = f.queue(pwq, item);
    let (second, third) = (f.queue_new(pwq), f.queue_new(pwq));
    let _ = f.runs(w[2], second);
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], item);
    let _ = f.finish(w[2]);
    assert!(f.sleeps(w[2]), "w3 runs");
    let _ = f.finish(w[3]);
    let _ = f.runs(w[3], third);
}

#[test]
fn other_items_with_the_same_function_are_not_held_up() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let (one, two) = (f.queue_new(pwq), f.queue_new(pwq));
    let _ = f.runs(w[3], one);
    let _ = f.runs(w[2], two);
    assert_eq!(f.nr_running(), 2);
}

/// Makes the item at the same address another one, as an allocator would after the function freed
/// it.
fn recycle(item: super::support::ItemPtr, func: crate::WorkFn) {
    // SAFETY: on no list, and nobody looks at it right now.
    unsafe { item.write(crate::WorkItem::new(func)) };
}

#[test]
fn a_recycled_address_with_another_function_is_another_item() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let item = f.item_with(count);
    let _ = f.queue(pwq, item);
    let _ = f.runs(w[3], item);
    recycle(item, count_other);
    assert!(!f.is_executing(item));
    let _ = f.queue(pwq, item);
    let _ = f.runs(w[2], item);
    assert_eq!(f.nr_running(), 2, "both run at once");
    let _ = f.finish(w[3]);
    assert!(f.is_executing(item), "finishing one does not forget the other");
    let _ = f.finish(w[2]);
    assert!(!f.is_executing(item));
}

#[test]
fn a_recycled_address_with_the_same_function_is_still_serialised() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.pwq(10);
    let item = f.item_with(count);
    let _ = f.queue(pwq, item);
    let _ = f.runs(w[3], item);
    // The very pointer: compilers may give a function several addresses.
    recycle(item, work(item).func());
    assert!(f.is_executing(item));
    let _ = f.queue(pwq, item);
    assert!(!f.sleeps(w[2]));
}

#[test]
fn a_driver_can_ask_where_a_running_item_must_be_queued() {
    let (mut f, w) = Fixture::new(UNMANAGED, 4);
    let pwq = f.add_pwq(pwq_config(7, 10));
    let item = f.queue_new(pwq);
    let (addr, func) = (item.as_ptr() as usize, work(item).func());
    assert_eq!(f.executing_on(addr, func, WqKey(7)), None, "queued is not running");
    let _ = f.runs(w[3], item);
    assert_eq!(f.executing_on(addr, func, WqKey(7)), Some(pwq));
    assert_eq!(
        f.executing_on(addr, func, WqKey(8)),
        None,
        "another queue's items go their own way"
    );
    assert_eq!(f.executing_on(addr, count_other, WqKey(7)), None);
    assert_eq!(f.executing_on(addr + 32, func, WqKey(7)), None);
    let _ = f.finish(w[3]);
    assert_eq!(f.executing_on(addr, func, WqKey(7)), None);
}

#[test]
fn many_running_items_are_all_found() {
    // More than there are buckets, so that some share one, and removed in another order than
    // inserted.
    let n = if cfg!(miri) { 12 } else { 100 };
    let (mut f, w) = Fixture::new(UNMANAGED, n + 1);
    let pwq = f.pwq(1000);
    let items: std::vec::Vec<_> = (0..n).map(|_| f.queue_new(pwq)).collect();
    for (i, &item) in items.iter().enumerate() {
        let _ = f.runs(w[n - i], item);
    }
    assert!(items.iter().all(|&item| f.is_executing(item)));
    for start in 0..3 {
        for i in (start..n).step_by(3) {
            let _ = f.finish(w[n - i]);
            assert!(!f.is_executing(items[i]));
        }
    }
    assert!(items.iter().all(|&item| !f.is_executing(item)));
}
