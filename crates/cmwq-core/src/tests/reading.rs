//! Who only looks is told what the lists will say, and changes nothing.

use std::format;
use std::string::String;
use std::vec::Vec;

use super::batch::with_a_batch;
use super::support::{Fixture, ItemPtr, pwq_config, work};
use crate::{Kick, PoolConfig, PoolId, PwqId, WorkerId};

/// A fresh item is on its way through the inbox.
fn push(f: &mut Fixture, pwq: PwqId) -> ItemPtr {
    let item = f.item();
    assert!(work(item).claim_for(work(item).word(), PoolId(0)));
    f.inbox.saturate();
    // SAFETY: owned, and there as long as the fixture.
    assert!(unsafe { f.inbox.push(item, pwq) });
    item
}

/// As whoever takes the lock to decide.
fn list(f: &mut Fixture) -> Kick {
    f.catch_up();
    let inbox = core::mem::take(&mut f.inbox);
    let kick = f.empty_inbox(&inbox);
    f.check();
    kick
}

/// All that is told.
fn told(f: &Fixture, pwqs: &[PwqId], items: &[ItemPtr]) -> Vec<String> {
    let look = f.look();
    let mut told = Vec::new();
    for &pwq in pwqs {
        told.push(format!("{pwq:?}: {:?} {:?}", look.waiting(pwq), look.stats(pwq)));
        told.push(format!("{:?}", look.load(pwq).expect("the pwq")));
    }
    let inactive: Vec<_> = look.queues_with_inactive().collect();
    told.push(format!("{inactive:?} {} {}", look.work_waits(), f.pool_report()));
    for view in look.workers() {
        let last = look.last_func(view.id).map(|func| func as usize);
        let runs = (look.running_of(view.id), look.color_of(view.id));
        told.push(format!("{view:?}: {runs:?} after {last:?}"));
    }
    for &item in items {
        let at = item.as_ptr() as usize;
        told.push(format!("{:?} {}", look.queue_of_item_at(at), look.is_executing(work(item))));
    }
    told
}

impl Fixture {
    fn pool_report(&self) -> String {
        format!("{:#?}", self.look().report())
    }
}

/// The same is told before and after the items are listed, and asking lists nothing.
#[track_caller]
fn check(f: &mut Fixture, pwqs: &[PwqId], items: &[ItemPtr]) {
    let (has_batch_out, nr_pushed) = (f.has_batch_out(), f.inbox.newest_first().count());
    let before = told(f, pwqs, items);
    assert_eq!(before, told(f, pwqs, items), "asking changed something");
    assert_eq!((f.has_batch_out(), f.inbox.newest_first().count()), (has_batch_out, nr_pushed));
    let progress = f.look().progress();
    assert!(matches!(list(f), Kick::None | Kick::Watch), "as many run as may");
    assert_eq!(f.look().progress(), progress, "what waits has waited before it was listed");
    let after = told(f, pwqs, items);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
}

fn per_cpu(max_active: [u32; 2]) -> (Fixture, [PwqId; 2], Vec<ItemPtr>) {
    let (mut f, _, [_, worker]) = Fixture::per_cpu();
    let pwqs = max_active.map(|most| f.add_pwq(pwq_config(most, most)));
    let first = f.queue_new(pwqs[0]);
    let _ = f.runs(worker, first);
    (f, pwqs, Vec::from([first]))
}

#[test]
fn what_is_in_the_inbox_is_told_as_if_it_were_listed() {
    for limits in [[10, 10], [2, 1], [1, 10], [3, 3]] {
        for behind in 0..if cfg!(miri) { 1 } else { 5 } {
            let (mut f, pwqs, mut items) = per_cpu(limits);
            // So that others wait behind the limit, perhaps.
            items.extend((0..behind).map(|n| f.queue_new(pwqs[n % 2])));
            items.extend((0..4).map(|n| push(&mut f, pwqs[n % 2])));
            check(&mut f, &pwqs, &items);
        }
    }
}

#[test]
fn what_has_arrived_is_told_as_if_it_were_listed() {
    let mut config = PoolConfig::new(PoolId(0), 1);
    config.batches = Some(0);
    for flushes in [false, true] {
        let (mut f, workers) = Fixture::with(config.clone(), 2);
        let pwq = f.pwq(3);
        let mut items = Vec::from([f.queue_new(pwq)]);
        let _ = f.runs(workers[1], items[0]);
        items.extend((0..3).map(|_| push(&mut f, pwq)));
        let inbox = core::mem::take(&mut f.inbox);
        assert_eq!(f.take_inbox(&inbox), None, "its worker comes for it");
        if flushes {
            // They have a colour now.
            let _ = f.flush_prep(pwq, Some(0), Some(1));
        }
        items.extend((0..2).map(|_| push(&mut f, pwq)));
        check(&mut f, &[pwq], &items);
    }
}

#[test]
fn what_was_begun_of_a_batch_is_told_as_begun() {
    for begun in 0..=2 {
        let (mut f, pwq, worker, mut items) = with_a_batch(5);
        let batch = f.batch_for(worker).expect("it makes batches");
        for _ in 0..begun {
            // SAFETY: by the batch's worker, as often as its claim says.
            assert!(unsafe { batch.begin(PoolId(0)) }.is_some());
        }
        items.extend((0..2).map(|_| push(&mut f, pwq)));
        assert!(f.look().is_executing(work(items[begun])));
        assert_eq!(f.look().stats(pwq).expect("the pwq").completed, 1 + begun as u64);
        assert_eq!(f.look().waiting(pwq).expect("the pwq").queued, 6 - begun as u64);
        check(&mut f, &[pwq], &items);
    }
}

#[test]
fn nobody_is_told_of_what_is_not_there() {
    let (f, _, _) = per_cpu([1, 1]);
    let look = f.look();
    assert_eq!(
        (look.load(PwqId(9)), look.waiting(PwqId(9)), look.stats(PwqId(9))),
        Default::default()
    );
    assert_eq!((look.running_of(WorkerId(9)), look.last_func(WorkerId(9))), Default::default());
    assert_eq!(look.queue_of_item_at(8), None);
}
