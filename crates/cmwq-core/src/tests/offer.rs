//! Items that are run by those who wait for them.

use super::support::{Fixture, ItemPtr, work};
use crate::pool::Offered;
use crate::{Kick, PwqId, WorkerId};

fn offer(f: &mut Fixture, pwq: PwqId, item: ItemPtr) -> (WorkerId, Offered) {
    assert!(!work(item).claim().is_pending());
    let guest = f.guest_enter();
    // SAFETY: boxed until the fixture is dropped; PENDING was just won.
    let offered = unsafe { f.offer(guest, pwq, item) };
    f.check();
    (guest, offered)
}

#[test]
fn where_nothing_waits_it_is_the_callers_and_nobody_is_woken() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let running = f.queue_new(pwq);
    let _ = f.runs(b, running);
    let item = f.item();
    let (guest, offered) = offer(&mut f, pwq, item);
    let Offered::Begun(claim) = offered else { panic!("{offered:?}") };
    assert_eq!((claim.item, claim.kick), (item.as_ptr(), Kick::None));
    assert_eq!((f.nr_running(), f.pwq_load(pwq)), (1, Some((2, false, true))), "it has a slot");
    assert!(f.is_executing(item) && !work(item).is_pending());
    let _ = f.finish(guest);
    assert!(f.guest_may_leave(guest));
    assert_eq!(f.guest_leave(guest), Kick::None);
    let _ = f.finish(b);
    let stats = f.pwq_stats(pwq).expect("the pwq");
    assert_eq!((stats.started, stats.completed), (2, 2));
    assert!(!f.sleeps(b));
}

#[test]
fn it_overtakes_nothing_and_no_limit() {
    let (mut f, pwq, [_, b]) = Fixture::per_cpu();
    let (running, waiting) = (f.queue_new(pwq), f.queue_new(pwq));
    let _ = f.runs(b, running);
    let item = f.item();
    let (guest, offered) = offer(&mut f, pwq, item);
    assert!(matches!(offered, Offered::Queued(Kick::Watch)), "{offered:?}");
    let _ = f.guest_leave(guest);
    let _ = f.finish(b);
    let _ = f.runs(b, waiting);
    let _ = f.finish(b);
    let _ = f.runs(b, item);
    let _ = f.finish(b);

    let one = f.pwq(1);
    let first = f.queue_new(one);
    let _ = f.runs(b, first);
    let behind = f.item();
    let (guest, offered) = offer(&mut f, one, behind);
    assert!(matches!(offered, Offered::Queued(Kick::None)), "{offered:?}");
    let _ = f.guest_leave(guest);
    let _ = f.finish(b);
    let _ = f.runs(b, behind);
    let _ = f.finish(b);
    assert!(!f.sleeps(b));
}

/// What waits for its slot starts when it ends.
#[test]
fn behind_it_others_start() {
    let (mut f, _, [_, b]) = Fixture::per_cpu();
    let one = f.pwq(1);
    let item = f.item();
    let (guest, offered) = offer(&mut f, one, item);
    assert!(matches!(offered, Offered::Begun(_)), "{offered:?}");
    let inactive = f.queue_new(one);
    let _ = f.finish(guest);
    assert_eq!(f.guest_leave(guest), Kick::Wake(b));
    let _ = f.runs(b, inactive);
    let _ = f.finish(b);
    assert!(!f.sleeps(b));
}
