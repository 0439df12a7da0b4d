//! Delays.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::support::{broker_or_skip, eventually, noting, queue, runs};

#[test]
fn a_delayed_item_does_not_run_before_its_time() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "later");
    let (sender, receiver) = channel();
    let _serving = queue
        .serve()
        .function("f", move |item| {
            sender.send((Instant::now(), item.attempt())).unwrap();
            Ok(())
        })
        .start()
        .unwrap();
    for ms in [0, 1, 300] {
        let (begun, delay) = (Instant::now(), Duration::from_millis(ms));
        let ticket = queue.queue_delayed("f", "", delay).unwrap();
        ticket.flush().unwrap();
        let (ran, attempt) = receiver.recv().unwrap();
        // The broker's and this process's clocks are the same one.
        assert!(ran - begun >= delay, "{ms} ms: after {:?}", ran - begun);
        assert_eq!(attempt, 1, "waiting is no attempt");
    }
}

#[test]
fn delayed_items_take_no_place_of_max_active() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("later-ordered").ordered().open().unwrap();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    let far = queue.queue_delayed("f", "far", Duration::from_secs(3600)).unwrap();
    for i in 0..5 {
        let _ = queue.queue("f", i.to_string()).unwrap();
    }
    queue.flush().unwrap();
    let ran: Vec<String> = (0..5).map(|_| seen.next()).collect();
    assert_eq!(ran, ["0", "1", "2", "3", "4"]);
    assert_eq!(queue.backlog().unwrap().delayed, 1);
    let _ = far.cancel().unwrap();
    eventually("it is gone", || queue.backlog().unwrap().delayed == 0);
}

#[test]
fn a_delay_without_an_end_does_not_end() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("later-never").ordered().open().unwrap();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    let never = queue.queue_delayed("f", "never", Duration::MAX).unwrap();
    // The machine looks at what is delayed in order, and runs one at a time.
    let soon = queue.queue_delayed("f", "soon", Duration::from_millis(1)).unwrap();
    soon.flush().unwrap();
    assert_eq!(seen.next(), "soon");
    assert_eq!((seen.rest(), queue.backlog().unwrap().delayed), (Vec::new(), 1));
    let _ = never.cancel().unwrap();
}

#[test]
fn a_timer_of_a_key_is_pending_once() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "later-once");
    let (far, near) = (Duration::from_secs(3600), Duration::from_millis(1));
    assert!(!queue.queue_once_delayed("f", "k", "a", far).unwrap().was_pending());
    assert!(queue.queue_once_delayed("f", "k", "b", near).unwrap().was_pending());
    assert_eq!(queue.backlog().unwrap().delayed, 1);
}

/// With no machine there is nobody who moves it. When one comes, its time has passed.
#[test]
fn a_delay_that_is_over_when_a_machine_comes_is_over() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "later-late");
    let ticket = queue.queue_delayed("f", "x", Duration::from_millis(1)).unwrap();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    ticket.flush().unwrap();
    assert_eq!(seen.next(), "x");
}
