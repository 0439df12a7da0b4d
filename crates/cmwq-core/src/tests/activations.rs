//! Notes of what has become active, for whoever traces.

use std::vec::Vec;

use super::support::{Fixture, ItemPtr};

/// What was noted since the last look; nothing may have been missed.
fn noted(f: &mut Fixture) -> Vec<usize> {
    let mut addrs = Vec::new();
    assert_eq!(f.take_activations(|note| addrs.push(note.addr)), 0);
    addrs
}

fn addr(item: ItemPtr) -> usize {
    item.as_ptr() as usize
}

#[test]
fn an_item_is_noted_when_it_gets_its_slot_and_not_before() {
    let (mut f, _, [a, _]) = Fixture::per_cpu();
    let pwq = f.pwq(1);
    f.record_activations();
    let (first, second) = (f.queue_new(pwq), f.queue_new(pwq));
    assert_eq!(noted(&mut f), [addr(first)], "the second one waits behind max_active");
    let _ = f.runs(a, first);
    assert_eq!(noted(&mut f), []);
    let _ = f.finish(a);
    assert_eq!(noted(&mut f), [addr(second)]);
    let _ = f.runs(a, second);
    let _ = f.finish(a);
    assert_eq!(noted(&mut f), []);
}

#[test]
fn barriers_are_not_noted() {
    let (mut f, pwq, [a, _]) = Fixture::per_cpu();
    f.record_activations();
    let item = f.queue_new(pwq);
    let barrier = f.item();
    let _ = f.barrier(item, barrier);
    assert_eq!(noted(&mut f), [addr(item)]);
    for expected in [item, barrier] {
        let _ = f.runs(a, expected);
        let _ = f.finish(a);
    }
}

#[test]
fn nothing_is_noted_unless_it_was_asked_for() {
    let (mut f, pwq, [a, _]) = Fixture::per_cpu();
    let item = f.queue_new(pwq);
    assert_eq!(noted(&mut f), []);
    let _ = f.runs(a, item);
    let _ = f.finish(a);
}

#[test]
fn what_nobody_fetches_is_counted() {
    let (mut f, _, [a, _]) = Fixture::per_cpu();
    let pwq = f.pwq(4096);
    f.record_activations();
    for _ in 0..2_100 {
        let _ = f.queue_new(pwq);
    }
    let mut count = 0;
    let missed = f.take_activations(|_| count += 1);
    // Twice what may arrive at most.
    assert_eq!((count, missed), (2_048, 52));
    for _ in 0..2_100 {
        let _ = f.claim(a);
        let _ = f.finish(a);
    }
    f.record_activations();
    assert_eq!(noted(&mut f), []);
}
