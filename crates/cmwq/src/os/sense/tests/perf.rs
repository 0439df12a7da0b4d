use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cmwq_core::detect::evidence::Switch;

use super::subject::Subject;
use super::{eventually, skip};
use crate::os::sense::{SwitchRecords, probe_perf};

/// Whether switch records can be had; says why if not.
fn can_record() -> bool {
    probe_perf().map_err(skip).is_ok()
}

fn open() -> SwitchRecords {
    SwitchRecords::open_current_thread().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn switches_are_seen_without_being_consumed() {
    if !can_record() {
        return;
    }
    Subject::watched(open, |subject, records| {
        let is_blocked = || records.last() == Switch::Blocked;
        // Twice: a page fault on its way is over soon.
        eventually("it blocks, and looking takes nothing away", || is_blocked() && is_blocked());
        let head = records.head();
        subject.spin();
        // Running, or pushed aside by the other tests; blocked only for a page fault's time.
        eventually("it runs", || records.last() == Switch::Runnable);
        assert!(records.head() > head);
    });
}

#[test]
fn every_block_is_seen_from_another_thread() {
    if !can_record() {
        return;
    }
    Subject::watched(open, |subject, records| {
        for _ in 0..100 {
            subject.spin();
            // At once, but for a page fault that has to wait for who changes the address space.
            eventually("it runs", || records.last() != Switch::Blocked);
            subject.block();
            eventually("it blocks", || records.last() == Switch::Blocked);
        }
    });
}

#[test]
fn the_newest_record_can_be_read_while_the_ring_is_overwritten() {
    if !can_record() {
        return;
    }
    // Twice around a ring of one page, at two records for each sleep.
    let enough = 2 * 4096;
    let ended = AtomicBool::new(false);
    let records = thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let ended = &ended;
        scope.spawn(move || {
            let records = Arc::new(open());
            sender.send(Arc::clone(&records)).expect("the test waits for this");
            while records.head() < enough {
                thread::sleep(Duration::from_nanos(1));
            }
            ended.store(true, Ordering::Release);
        });
        let records = receiver.recv().expect("the records open");
        let mut head = 0;
        while !ended.load(Ordering::Acquire) {
            let now = records.head();
            assert!(now >= head && now.is_multiple_of(8), "{head} {now}");
            // Records of 8 bytes and of switches only, or this would be `None` sooner or later.
            assert!(now == 0 || records.last() != Switch::None, "at {now}");
            head = now;
        }
        records
    });
    assert!(records.head() >= enough);
}
