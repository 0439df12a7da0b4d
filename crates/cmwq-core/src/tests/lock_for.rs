//! What is done first with a pool's lock, for whatever it is taken for, and what is left.

use std::vec::Vec;

use super::batch::with_a_batch;
use super::support::{Fixture, ItemPtr, work};
use crate::place::PoolKind;
use crate::{Inbox, Kick, LockFor, PoolConfig, PoolId, PwqId, WorkerId};

const ALL: [LockFor; 6] = [
    LockFor::Find,
    LockFor::Queue,
    LockFor::Counts,
    LockFor::NextItem,
    LockFor::Decide,
    LockFor::Inbox,
];

/// What was done, and what is left.
#[derive(Debug, PartialEq, Eq)]
struct After {
    in_inbox: usize,
    is_batch_out: bool,
    /// Which items are on lists.
    listed: Vec<usize>,
    kick: Kick,
}

/// So many items more, which come by the inbox.
fn push(f: &mut Fixture, pwq: PwqId, count: usize, items: &mut Vec<ItemPtr>) {
    for _ in 0..count {
        let item = f.item();
        assert!(work(item).claim_for(work(item).word(), PoolId(0)));
        // SAFETY: owned, and there as long as the fixture.
        let _ = unsafe { f.inbox.push(item, pwq) };
        items.push(item);
    }
}

/// With the fixture's inbox.
fn with_inbox<R>(f: &mut Fixture, act: impl FnOnce(&mut Fixture, &Inbox) -> R) -> R {
    let inbox = core::mem::take(&mut f.inbox);
    let result = act(f, &inbox);
    f.inbox = inbox;
    f.check();
    result
}

fn begin(f: &mut Fixture, items: &[ItemPtr], what_for: LockFor) -> After {
    let kick = with_inbox(f, |f, inbox| f.begin_hold(inbox, what_for));
    let is_listed = |&n: &usize| work(items[n]).word().pwq().is_some();
    After {
        in_inbox: f.inbox.newest_first().count(),
        is_batch_out: f.has_batch_out(),
        listed: (0..items.len()).filter(is_listed).collect(),
        kick,
    }
}

/// A pool that lets push, its two workers, and items in its inbox.
fn pool(pushed: usize) -> (Fixture, PwqId, [WorkerId; 2], Vec<ItemPtr>) {
    let config = PoolConfig::of_kind(PoolId(0), PoolKind::Percpu, 1, true);
    let (mut f, workers) = Fixture::with(config, 2);
    let (pwq, mut items) = (f.pwq(256), Vec::new());
    push(&mut f, pwq, pushed, &mut items);
    (f, pwq, [workers[0], workers[1]], items)
}

/// As [`pool`], whose worker runs an item and nothing else waits.
fn at_work(pushed: usize) -> (Fixture, PwqId, WorkerId, Vec<ItemPtr>) {
    let (mut f, pwq, [_, worker], mut items) = pool(0);
    let running = f.queue_new(pwq);
    let _ = f.runs(worker, running);
    push(&mut f, pwq, pushed, &mut items);
    (f, pwq, worker, items)
}

/// Items 1 and 2 are in the batch, 3 and 4 have arrived, 5 and 6 are in the inbox.
#[test]
fn while_a_batch_is_out() {
    for what_for in ALL {
        let (mut f, pwq, _, mut items) = with_a_batch(5);
        push(&mut f, pwq, 2, &mut items);
        let (in_inbox, is_batch_out, listed, kick) = match what_for {
            LockFor::Find => (0, false, (1..7).collect(), Kick::Watch),
            LockFor::Queue => (0, true, [].into(), Kick::Watch),
            LockFor::Counts => (2, false, [].into(), Kick::None),
            LockFor::NextItem => (2, true, [].into(), Kick::None),
            LockFor::Decide => (0, false, [1].into(), Kick::Watch),
            LockFor::Inbox => (0, true, [].into(), Kick::Watch),
        };
        let expected = After { in_inbox, is_batch_out, listed, kick };
        assert_eq!(begin(&mut f, &items, what_for), expected, "{what_for:?}");
        // The fixture takes its items back.
        let _ = begin(&mut f, &items, LockFor::Find);
    }
}

#[test]
fn while_a_worker_runs_that_comes_for_what_is_in_the_inbox() {
    for what_for in ALL {
        let (mut f, _, _, items) = at_work(2);
        let (in_inbox, listed, kick) = match what_for {
            LockFor::Find => (0, [0, 1].into(), Kick::Watch),
            LockFor::Queue | LockFor::Decide => (0, [0].into(), Kick::Watch),
            LockFor::Counts | LockFor::NextItem => (2, [].into(), Kick::None),
            LockFor::Inbox => (0, [].into(), Kick::Watch),
        };
        let expected = After { in_inbox, is_batch_out: false, listed, kick };
        assert_eq!(begin(&mut f, &items, what_for), expected, "{what_for:?}");
    }
}

#[test]
fn while_nobody_runs() {
    for what_for in ALL {
        let (mut f, _, workers, items) = pool(2);
        let (in_inbox, listed, kick) = match what_for {
            LockFor::Find => (0, [0, 1].into(), Kick::Wake(workers[1])),
            LockFor::Queue | LockFor::Decide | LockFor::Inbox => {
                (0, [0].into(), Kick::Wake(workers[1]))
            }
            LockFor::Counts | LockFor::NextItem => (2, [].into(), Kick::None),
        };
        let expected = After { in_inbox, is_batch_out: false, listed, kick };
        assert_eq!(begin(&mut f, &items, what_for), expected, "{what_for:?}");
    }
}

#[test]
fn what_waits_is_older_than_the_inbox() {
    let (mut f, pwq, worker, mut items) = at_work(0);
    items.push(f.queue_new(pwq));
    push(&mut f, pwq, 1, &mut items);
    let take = |f: &mut Fixture| with_inbox(f, |f, inbox| f.take_inbox_after_item(inbox));
    let _ = f.finish(worker);
    assert_eq!((take(&mut f), f.inbox.is_empty()), (Kick::None, false), "it is left there");
    let _ = f.runs(worker, items[0]);
    let _ = f.finish(worker);
    assert_eq!((take(&mut f), f.inbox.is_empty()), (Kick::None, true), "its claim says: watch");
    let _ = f.runs(worker, items[1]);
}

#[test]
fn who_has_the_inbox_say_that_pushing_is_not_enough_lists_what_came() {
    let (mut f, pwq, worker, mut items) = at_work(0);
    let update = |f: &mut Fixture, is_watched| {
        with_inbox(f, |f, inbox| f.update_saturation(inbox, is_watched, || false))
    };
    assert_eq!((update(&mut f, false), f.lets_push()), (None, false), "nobody looks");
    assert_eq!((update(&mut f, true), f.lets_push()), (Some(Kick::None), true));
    assert!(f.inbox.is_saturated());
    push(&mut f, pwq, 1, &mut items);
    assert_eq!(update(&mut f, true), None, "as before");
    assert!(!f.inbox.is_empty());
    assert_eq!((update(&mut f, false), f.lets_push()), (Some(Kick::Watch), false));
    assert!(f.inbox.is_empty() && !f.inbox.is_saturated());
    let _ = f.finish(worker);
    let _ = f.runs(worker, items[0]);
}
