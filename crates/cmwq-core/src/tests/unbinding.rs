//! Which workers wake up elsewhere: those of managed pools whose items compute after their waits.

use std::vec::Vec;

use super::support::Fixture;
use crate::consts::{COMPUTES_AFTER_WAIT_NS, MANY_SHORT_WAKES};
use crate::place::PoolKind;
use crate::{Kick, Lend, PoolConfig, PoolId, Waited, WorkerId};

fn managed(unbinds: bool) -> (Fixture, Vec<WorkerId>) {
    let config = PoolConfig { kind: PoolKind::Managed, unbinds, ..PoolConfig::new(PoolId(0), 1) };
    Fixture::with(config, 2)
}

/// That computed for a millisecond before.
const fn waited(after: u64) -> Waited {
    Waited { before: 1_000_000, after }
}

/// One item that blocks and then computes for so long. Whether its worker was unbound.
fn item_that_waits(f: &mut Fixture, id: WorkerId, computed: u64) -> bool {
    let pwq = f.pwq(1);
    let item = f.queue_new(pwq);
    let _ = f.runs(id, item);
    let seq = f.seq(id);
    assert!(!f.is_unbound(id, seq), "it is not blocked yet");
    let _ = f.blocks(id);
    let is_unbound = f.is_unbound(id, seq);
    assert!(!f.is_unbound(id, seq + 1), "another run");
    let _ = f.finish(id);
    f.item_waited(waited(computed));
    assert!(!f.is_unbound(id, seq), "the run is over");
    assert!(!f.sleeps(id));
    assert!(f.remove_pwq(pwq).is_ok());
    is_unbound
}

#[test]
fn workers_of_other_pools_stay_where_they_are() {
    let (mut f, w) = managed(false);
    assert!(!item_that_waits(&mut f, w[1], COMPUTES_AFTER_WAIT_NS));
}

#[test]
fn a_worker_that_blocks_is_unbound_until_items_hardly_compute_after_their_waits() {
    let (mut f, w) = managed(true);
    for _ in 0..2 {
        for _ in 0..MANY_SHORT_WAKES {
            assert!(item_that_waits(&mut f, w[1], COMPUTES_AFTER_WAIT_NS - 1));
        }
        assert!(!item_that_waits(&mut f, w[1], 0), "they only end then");
        // Measured all the same: one that computes is enough.
        assert!(!item_that_waits(&mut f, w[1], COMPUTES_AFTER_WAIT_NS));
    }
    assert!(item_that_waits(&mut f, w[1], 0));
}

#[test]
fn a_worker_that_was_unbound_is_bound_before_it_helps() {
    let (mut f, w) = managed(true);
    assert_eq!(f.kick_to_help(), Kick::Wake(w[1]));
    assert!(!f.sleeps(w[1]));
    assert_eq!(f.lend(w[1], true), Lend::Rebind);
    assert_eq!((f.nr_idle(), f.nr_running()), (2, 0), "it looks again");
    assert!(matches!(f.lend(w[1], false), Lend::Lent(_)));
    assert_eq!(f.lend(w[0], true), Lend::No, "the standby stays where it is");
}

#[test]
fn the_count_of_short_wakes_does_not_wrap() {
    let (mut f, w) = managed(true);
    for _ in 0..1000 {
        f.item_waited(waited(0));
    }
    assert!(!item_that_waits(&mut f, w[1], 0));
}
