use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::subject::Subject;
use super::{PATIENCE, eventually, skip};
use crate::sense::{Switch, SwitchRecords, poll_readable, probe_perf};

/// Whether switch records can be had; says why if not.
fn can_record() -> bool {
    probe_perf().map_err(skip).is_ok()
}

fn open() -> SwitchRecords {
    SwitchRecords::open_current_thread().unwrap_or_else(|e| panic!("{e}"))
}

/// Polls without waiting, so that only what happens from here on is news.
fn forget_old_news(records: &SwitchRecords) {
    poll_readable([records.fd()], Some(Duration::ZERO)).expect("poll");
}

#[test]
fn switches_are_seen_without_being_consumed() {
    if !can_record() {
        return;
    }
    Subject::watched(open, |subject, records| {
        eventually("it blocks", || records.last() == Switch::Blocked);
        assert_eq!(records.last(), Switch::Blocked, "looking takes nothing away");
        let head = records.head();
        subject.spin();
        // Running, or pushed aside by the other tests, but never blocked.
        assert!(matches!(records.last(), Switch::Running | Switch::Preempted));
        assert!(records.head() > head);
    });
}

#[test]
fn a_poll_returns_when_the_thread_blocks() {
    if !can_record() {
        return;
    }
    let records = Subject::watched(open, |subject, records| {
        for _ in 0..100 {
            subject.spin();
            forget_old_news(records);
            assert_ne!(records.last(), Switch::Blocked);
            subject.block();
            while records.last() != Switch::Blocked {
                let [news] = poll_readable([records.fd()], Some(PATIENCE)).expect("poll");
                assert!(news.is_readable && !news.is_hung_up, "{news:?}");
            }
        }
    });
    eventually("it hangs up", || {
        poll_readable([records.fd()], Some(Duration::ZERO)).expect("poll")[0].is_hung_up
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
