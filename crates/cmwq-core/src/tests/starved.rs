//! A managed pool whose woken worker gets no CPU is helped by others.

use super::support::Fixture;
use crate::consts::TICKS_UNTIL_STARVED;
use crate::place::PoolKind;
use crate::{Kick, PoolConfig, PoolId, WorkerId};

fn pool(kind: PoolKind) -> (Fixture, std::vec::Vec<WorkerId>) {
    Fixture::with(PoolConfig::of_kind(PoolId(0), kind, 1, true), 3)
}

fn ticks(f: &mut Fixture, times: u8) {
    (0..times).for_each(|_| assert_eq!(f.tick(), Kick::None));
}

#[test]
fn what_nobody_comes_for_is_for_others() {
    let (mut f, w) = pool(PoolKind::Managed);
    let pwq = f.pwq(8);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let guest = f.guest_enter();
    ticks(&mut f, TICKS_UNTIL_STARVED - 1);
    assert!(!f.has_backlog() && f.guest_next(guest, false).is_none(), "its own worker comes");
    ticks(&mut f, 1);
    assert!(f.is_starved() && f.has_backlog());
    let claim = f.guest_next(guest, false).expect("an item for the guest");
    assert_eq!(claim.item, items[0].as_ptr());
    assert!(f.is_starved(), "that a guest is there gives the worker no CPU");
    let _ = f.runs(w[2], items[1]);
    assert!(!f.is_starved(), "the worker has come");
    assert!(f.has_backlog(), "and runs an item, while another one waits");
}

#[test]
fn ticks_count_only_without_a_break() {
    let (mut f, w) = pool(PoolKind::Managed);
    let pwq = f.pwq(8);
    let item = f.queue_new(pwq);
    ticks(&mut f, TICKS_UNTIL_STARVED - 1);
    let _ = f.runs(w[2], item);
    // Nothing waits, then something waits at capacity, then somebody is to come again.
    ticks(&mut f, TICKS_UNTIL_STARVED);
    let _ = f.queue_new(pwq);
    ticks(&mut f, TICKS_UNTIL_STARVED);
    assert!(!f.is_starved());
    assert_eq!(f.blocks(w[2]), Kick::Wake(w[1]));
    ticks(&mut f, TICKS_UNTIL_STARVED - 1);
    assert!(!f.is_starved());
    ticks(&mut f, 1);
    assert!(f.is_starved());
}

/// As in the kernel: there is nobody to help them.
#[test]
fn pools_of_other_kinds_wait() {
    let (mut f, _) = pool(PoolKind::Percpu);
    let pwq = f.pwq(8);
    let _ = f.queue_new(pwq);
    ticks(&mut f, 2 * TICKS_UNTIL_STARVED);
    assert!(!f.is_starved());
}
