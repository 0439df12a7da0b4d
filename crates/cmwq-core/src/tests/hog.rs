//! Items that hog the CPU do not count from then on, once, whatever else is reported of them.

use std::vec::Vec;

use super::support::{Fixture, ItemPtr};
use crate::place::PoolKind;
use crate::policy::UNMANAGED;
use crate::{Finding, Found, Kick, PoolConfig, PoolId, PwqId, Waited, WorkerId, WqKey};

/// A per-CPU pool whose worker `b` runs the first item while the second waits.
fn hogged() -> (Fixture, PwqId, [WorkerId; 2], [ItemPtr; 2]) {
    let (mut f, pwq, [a, b]) = Fixture::per_cpu();
    let items = [(); 2].map(|()| f.queue_new(pwq));
    assert_eq!(f.runs(b, items[0]), Kick::Watch);
    (f, pwq, [a, b], items)
}

/// A pool of this kind with one CPU, whose first two workers run a hog and another item, while a
/// third item waits.
fn hog_and_another(kind: PoolKind) -> (Fixture, Vec<WorkerId>) {
    let config = PoolConfig::of_kind(PoolId(0), kind, 1, true);
    let (mut f, mut w) = Fixture::with(config, 4);
    w.reverse();
    let pwq = f.pwq(10);
    let items = [(); 3].map(|()| f.queue_new(pwq));
    let _ = f.runs(w[0], items[0]);
    assert_eq!(f.hogs(w[0]), Some(Kick::Wake(w[1])));
    let _ = f.runs(w[1], items[1]);
    (f, w)
}

impl Fixture {
    /// Reports that `id` hogs the CPU in its present run; whom to wake, if anything changed.
    fn hogs(&mut self, id: WorkerId) -> Option<Kick> {
        let seq = self.seq(id);
        let hog = self.worker_cpu_intensive(id, seq);
        self.check();
        hog.map(|hog| hog.kick)
    }

    fn is_hog(&self, id: WorkerId) -> bool {
        self.worker_view(id).expect("no such worker").hog
    }
}

#[test]
fn a_hog_makes_room_for_the_next_item() {
    let (mut f, pwq, [a, b], items) = hogged();
    let seq = f.seq(b);
    let hog = f.worker_cpu_intensive(b, seq).expect("it counts");
    f.check();
    assert_eq!(hog.kick, Kick::Wake(a));
    assert_eq!(hog.item.expect("its item").1, WqKey(1));
    assert_eq!(f.nr_running(), 0);
    assert!(f.is_hog(b));
    let stats = f.pwq_stats(pwq).expect("the pwq");
    assert_eq!((stats.cpu_intensive, stats.cm_wakeup), (1, 1));
    f.manages(a);
    let c = f.worker_new();
    let _ = f.born(c, Some(a));
    let _ = f.runs(a, items[1]);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn finishing_ends_it() {
    let (mut f, _, [_, b], items) = hogged();
    assert!(f.hogs(b).is_some());
    let _ = f.finish(b);
    assert_eq!(f.nr_running(), 1, "between items it counts again");
    assert!(!f.is_hog(b));
    let _ = f.runs(b, items[1]);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn it_is_marked_once() {
    let (mut f, pwq, [_, b], _) = hogged();
    assert!(f.hogs(b).is_some());
    assert_eq!(f.hogs(b), None);
    assert_eq!(f.nr_running(), 0);
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cpu_intensive, 1);
}

#[test]
fn a_sleeper_is_no_hog() {
    let (mut f, pwq, [_, b], _) = hogged();
    let _ = f.blocks(b);
    assert_eq!(f.hogs(b), None, "it was taken off the count already");
    assert_eq!(f.nr_running(), 0);
    f.resumes(b);
    assert_eq!(f.nr_running(), 1);
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cpu_intensive, 0);
}

#[test]
fn a_hog_that_sleeps_is_not_subtracted_twice() {
    let (mut f, _, [_, b], _) = hogged();
    assert!(f.hogs(b).is_some());
    let _ = f.blocks(b);
    assert_eq!(f.nr_running(), 0);
    f.resumes(b);
    assert_eq!(f.nr_running(), 0, "it is still a hog");
    let _ = f.blocks(b);
    let _ = f.finish(b);
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn reports_that_come_late_are_ignored() {
    let (mut f, _, [a, b], items) = hogged();
    let old = f.seq(b);
    let _ = f.finish(b);
    let _ = f.runs(b, items[1]);
    assert!(f.worker_cpu_intensive(b, old).is_none(), "another run");
    assert_eq!(f.hogs(a), None, "idle");
    assert!(f.worker_cpu_intensive(WorkerId(99), 0).is_none(), "unknown");
    f.check();
    assert_eq!(f.nr_running(), 1);
}

#[test]
fn a_report_between_two_runs_does_not_outlast_them() {
    let (mut f, _, [_, b], items) = hogged();
    let _ = f.finish(b);
    let _ = f.hogs(b);
    let _ = f.runs(b, items[1]);
    assert_eq!(f.nr_running(), 1);
    let _ = f.finish(b);
    let _ = f.hogs(b);
    assert!(!f.sleeps(b));
    assert!(!f.is_hog(b));
}

#[test]
fn without_concurrency_management_there_are_no_hogs() {
    let (mut f, w) = Fixture::new(UNMANAGED, 2);
    let pwq = f.pwq(10);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[1], item);
    assert_eq!(f.hogs(w[1]), None);
    assert_eq!(f.nr_running(), 1);
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cpu_intensive, 0);
}

#[test]
fn an_item_of_a_cpu_intensive_queue_is_none() {
    let (mut f, w) = Fixture::new(1, 2);
    let mut config = super::support::pwq_config(2, 10);
    config.cpu_intensive = true;
    let pwq = f.add_pwq(config);
    let item = f.queue_new(pwq);
    let _ = f.runs(w[1], item);
    assert_eq!(f.hogs(w[1]), None);
    assert!(!f.is_hog(w[1]), "it was never counted, but not for hogging");
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cpu_intensive, 0);
}

#[test]
fn a_lent_hog_does_not_count_at_home_and_is_counted_abroad() {
    let (mut home, own, [a, b]) = Fixture::per_cpu();
    let (mut abroad, pwq, _, items) = hogged();
    let _ = home.lends(b).expect("a stays as standby");
    let guest = abroad.guest_enter();
    let _ = abroad.guest_next(guest, false).expect("the second item");

    let seq = home.seq(b);
    let hog = home.worker_cpu_intensive(b, seq).expect("it counts at home");
    home.check();
    assert_eq!((hog.kick, hog.item.is_none()), (Kick::None, true));
    assert_eq!(home.nr_running(), 0);
    let (_, wq) = abroad.guest_cpu_intensive(guest).expect("it runs something");
    assert_eq!(wq, WqKey(1));
    assert_eq!(abroad.pwq_stats(pwq).expect("the pwq").cpu_intensive, 1);
    let item = home.item();
    assert_eq!(home.queue(own, item), Kick::Wake(a), "its own pod may go on");

    let _ = abroad.finish(guest);
    assert!(abroad.guest_cpu_intensive(guest).is_none(), "it runs nothing");
    let _ = abroad.guest_leave(guest);
    assert!(abroad.guest_cpu_intensive(guest).is_none(), "it has gone");
    let _ = home.lend_again(b);
    home.check();
    assert_eq!(home.nr_running(), 1, "another item, another run");
    assert!(home.hogs(b).is_some());
    home.lend_end(b);
    home.check();
    assert_eq!(home.nr_running(), 1);
    let _ = items;
}

#[test]
fn no_worker_is_taken_for_a_guest() {
    let (mut f, pwq, [_, b], _) = hogged();
    assert!(f.guest_cpu_intensive(b).is_none());
    assert_eq!(f.pwq_stats(pwq).expect("the pwq").cpu_intensive, 0);
}

fn is_looked_at(f: &Fixture, id: WorkerId) -> bool {
    let mut found = false;
    f.suspects(|view| found |= view.id == id);
    found
}

#[test]
fn a_hog_of_a_managed_pool_that_waits_gives_its_room_back() {
    let (mut f, w) = hog_and_another(PoolKind::Managed);
    assert_eq!((f.room_for_hogs(), is_looked_at(&f, w[0])), (0, true));
    let _ = f.blocks(w[0]);
    assert_eq!((f.room_for_hogs(), f.nr_running()), (1, 1));
    f.resumes(w[0]);
    assert_eq!((f.room_for_hogs(), f.nr_running()), (0, 1), "nobody has taken it");

    let _ = f.blocks(w[0]);
    assert_eq!(f.hogs(w[1]), Some(Kick::Wake(w[2])));
    f.resumes(w[0]);
    assert!(!f.is_hog(w[0]) && f.is_hog(w[1]));
    assert_eq!((f.room_for_hogs(), f.nr_running()), (0, 1), "there is no room for both");
    let _ = f.finish(w[1]);
    assert!(f.hogs(w[0]).is_some(), "as any other");
}

#[test]
fn while_short_items_are_run_nobody_is_taken_for_a_hog() {
    let (mut f, w) = hog_and_another(PoolKind::Managed);
    let _ = f.blocks(w[0]);
    assert_eq!((f.room_for_new_hogs(false), f.room_for_new_hogs(true)), (1, 0));
}

#[test]
fn other_pools_have_room_for_all_hogs_and_look_at_none() {
    let (mut f, w) = hog_and_another(PoolKind::Percpu);
    assert_eq!((f.room_for_hogs(), is_looked_at(&f, w[0])), (u32::MAX, false));
    let _ = f.blocks(w[0]);
    assert!(f.hogs(w[1]).is_some());
    f.resumes(w[0]);
    assert!(f.is_hog(w[0]) && f.is_hog(w[1]));
    assert_eq!(f.nr_running(), 0);
}

#[test]
fn a_hog_of_a_managed_pool_is_unbound_when_it_is_found() {
    for (kind, expected) in [(PoolKind::Managed, true), (PoolKind::Percpu, false)] {
        let (mut f, w) = hog_and_another(kind);
        // What it uses after waits says nothing about it.
        (0..10).for_each(|_| f.item_waited(Waited { before: 0, after: 0 }));
        assert!(!f.is_unbound(w[1], f.seq(w[1])), "it is no hog");
        let _ = f.finish(w[0]);
        let mut found = Finding::new(w[1], f.seq(w[1]), Found::Hog);
        let _ = f.report_look(std::slice::from_mut(&mut found), None, || 0);
        f.check();
        assert_eq!((found.is_news, found.is_unbound), (true, expected));
        assert!(!f.is_unbound(w[1], f.seq(w[1]) + 1), "another run");
    }
}
