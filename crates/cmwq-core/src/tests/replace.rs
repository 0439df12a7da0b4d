//! Replacing a queue's pwq: retiring the old one, plugging the new one of an ordered queue.

use super::support::{Crowd, Fixture, pwq_config, work};
use crate::policy::UNMANAGED;
use crate::{FlushTarget, Kick, PoolConfig, PoolId, PoolState, WqKey};

fn unbound() -> Crowd {
    Crowd::new(PoolConfig::new(PoolId(0), UNMANAGED))
}

#[test]
fn a_retired_pwq_says_when_it_has_drained() {
    let mut c = unbound();
    let pwq = c.f.pwq(1);
    let (running, inactive) = (c.queue(pwq), c.queue(pwq));
    assert!(!c.f.retire_pwq(pwq), "two items are in flight");
    assert!(!c.f.accepts(pwq, WqKey(1)));
    c.finish(running, |effects| assert_eq!(effects.retired, None));
    assert!(c.is_running(inactive), "what was queued before still runs");
    c.finish(inactive, |effects| assert_eq!(effects.retired, Some(WqKey(1))));
    assert!(c.f.remove_pwq(pwq).is_ok());
}

#[test]
fn an_idle_pwq_can_be_removed_when_it_is_retired() {
    let (mut f, pwq, _) = Fixture::per_cpu();
    assert!(f.accepts(pwq, WqKey(1)));
    assert!(f.retire_pwq(pwq));
    assert!(f.remove_pwq(pwq).is_ok());
    assert!(!f.accepts(pwq, WqKey(1)), "it does not exist");
    assert_eq!(f.nr_pwqs(), 0);
}

#[test]
fn an_id_that_is_used_again_is_another_queues() {
    let (mut f, pwq, _) = Fixture::per_cpu();
    assert!(f.retire_pwq(pwq));
    let _ = f.remove_pwq(pwq);
    assert_eq!(f.add_pwq(pwq_config(2, 1)), pwq, "the test needs the same id");
    assert!(!f.accepts(pwq, WqKey(1)));
    assert!(f.accepts(pwq, WqKey(2)));
}

#[test]
fn a_running_item_is_queued_again_on_the_retired_pwq() {
    let mut c = unbound();
    let pwq = c.f.pwq(4);
    let item = c.queue(pwq);
    assert!(!c.f.retire_pwq(pwq));
    let func = work(item).func();
    let same = c.f.executing_on(item.as_ptr() as usize, func, WqKey(1));
    assert_eq!(same, Some(pwq), "it must not run on two pools at once");
    let kick = c.f.queue(pwq, item);
    c.act(kick);
    c.finish(item, |effects| assert_eq!(effects.retired, None, "queued again"));
    assert!(c.is_running(item));
    c.finish(item, |effects| assert_eq!(effects.retired, Some(WqKey(1))));
}

#[test]
fn cancelling_the_last_item_drains_a_retired_pwq() {
    let (mut f, _) = Fixture::new(UNMANAGED, 0);
    let pwq = f.pwq(1);
    let item = f.queue_new(pwq);
    assert!(!f.retire_pwq(pwq));
    assert_eq!(f.cancel(item).1.retired, Some(WqKey(1)));
}

#[test]
fn a_flush_waits_for_a_retired_pwq_and_its_barriers() {
    let mut c = unbound();
    let pwq = c.f.pwq(1);
    let item = c.queue(pwq);
    assert!(!c.f.retire_pwq(pwq));
    let barrier = c.f.item();
    assert!(matches!(c.f.barrier(item, barrier), FlushTarget::Running(_)));
    assert!(c.f.flush_prep(pwq, Some(0), Some(1)));
    c.finish(item, |effects| assert_eq!((effects.flush_done, effects.retired), (None, None)));
    c.finish(barrier, |effects| {
        assert_eq!(effects.flush_done, Some(WqKey(1)));
        assert_eq!(effects.retired, Some(WqKey(1)));
    });
}

#[test]
fn a_plugged_pwq_queues_and_starts_nothing_until_it_is_unplugged() {
    let mut c = unbound();
    let (old, new) = (c.f.pwq(1), c.f.pwq(1));
    let first = c.queue(old);
    c.f.plug_pwq(new);
    assert!(!c.f.retire_pwq(old));
    let (second, third) = (c.queue(new), c.queue(new));
    assert_eq!(c.started, [first]);
    c.finish(first, |effects| assert_eq!(effects.retired, Some(WqKey(1))));
    assert_eq!(c.started, [first], "the driver unplugs, not the pool");
    let kick = c.f.unplug_pwq(new);
    c.act(kick);
    assert_eq!(c.started, [first, second], "one at a time");
    c.finish(second, |_| {});
    assert_eq!(c.started, [first, second, third]);
}

#[test]
fn unplugging_an_empty_pwq_wakes_nobody() {
    let (mut f, _) = Fixture::new(UNMANAGED, 2);
    let pwq = f.pwq(1);
    f.plug_pwq(pwq);
    assert_eq!(f.unplug_pwq(pwq), Kick::None);
    let item = f.item();
    assert!(matches!(f.queue(pwq, item), Kick::Wake(_)));
}

#[test]
fn a_repatriation_is_counted_for_the_first_waiting_item() {
    let mut pool = PoolState::new(PoolConfig::new(PoolId(0), UNMANAGED));
    assert!(!pool.count_repatriated(), "nothing waits");
    let (mut f, _) = Fixture::new(UNMANAGED, 0);
    let (one, other) = (f.pwq(1), f.pwq(1));
    let _ = (f.queue_new(one), f.queue_new(other));
    assert!(f.count_repatriated());
    let counted = [one, other].map(|pwq| f.pwq_stats(pwq).unwrap().repatriated);
    assert_eq!(counted, [1, 0]);
}
