//! Delays.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{
    Gate, Outsider, Server, broker_or_skip, eventually, forbidding, holding, noting, queue, runs,
};

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
    assert_eq!(seen.rest(), [""; 0]);
    // A machine says that a timer is over when it has queued the item.
    eventually("one is left", || queue.backlog().unwrap().delayed == 1);
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

/// So whoever queues it anew gets another run, also while the broker has not heard from the machine
/// that has moved it, which may have died: here from none.
#[test]
fn a_timer_whose_item_has_begun_is_not_pending() {
    let acks = "$JS.ACK.cmwq-later_later-begun.timers.>";
    let server = broker_or_skip!(Server::configured("", &forbidding(acks)));
    let broker = server.connect();
    let queue = queue(&broker, "later-begun");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    // No word is needed until such a delay is over.
    let timer = |payload| queue.queue_once_delayed("f", "k", payload, Duration::ZERO).unwrap();
    assert!(!timer("1").was_pending());
    assert_eq!(seen.next(), "1");
    assert!(!timer("2").was_pending());
    // It is due while the first one runs, and waits where those do that are held up.
    eventually("it is there, too", || queue.backlog().unwrap().delayed == 2);
    gate.open();
    assert_eq!(seen.next(), "2");
    assert!(!timer("3").was_pending());
    assert_eq!(seen.next(), "3");
}

/// What a machine takes away as it starts an item is the timer that this one comes of.
#[test]
fn a_timer_that_was_set_while_an_item_of_its_key_waits_stays() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("later-anew").ordered().open().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let _ = queue.queue("f", "held").unwrap();
    assert_eq!(seen.next(), "held");
    let timer = |payload, ms| {
        queue.queue_once_delayed("f", "k", payload, Duration::from_millis(ms)).unwrap()
    };
    assert!(!timer("near", 1).was_pending());
    eventually("it has been due", || !timer("far", 3_600_000).was_pending());
    gate.open();
    assert_eq!(seen.next(), "near");
    queue.flush().unwrap();
    assert!(timer("other", 1).was_pending());
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

/// A machine that has taken a delayed item, and died, is missed as soon as one that ran it.
#[test]
fn delayed_items_of_a_dead_machine_go_to_others() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("later-lost").dead_after(Duration::from_secs(1)).open().unwrap();
    let _ = queue.queue_delayed("f", "x", Duration::from_millis(1)).unwrap();
    let _silent = Outsider::new(&server).take_from("cmwq-later_later-lost.timers");
    let begun = Instant::now();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    assert_eq!(seen.next(), "x");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Else one that has such items only would not hear of another `dead_after`.
#[test]
fn a_machine_looks_what_has_changed_when_a_delayed_item_comes() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "looks");
    let other = Outsider::new(&server);
    let listen = || other.listen("$JS.API.CONSUMER.INFO.cmwq-run_looks.machines");
    let looks = listen();
    let _serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    // As it starts, for what is left of items that are done, and then; then it rests.
    other.hear(looks, 3);
    let looks = listen();
    let _ = queue.queue_delayed("f", "", Duration::from_secs(3600)).unwrap();
    other.hear(looks, 1);
}

/// Older programs have made one consumer, without a filter, for what is delayed and for what is due
/// and held up.
#[test]
fn what_an_older_program_has_delayed_comes() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "older-later");
    let stream = "cmwq-later_older-later";
    for consumer in ["timers", "again"] {
        server.api(&format!("CONSUMER.DELETE.{stream}.{consumer}"), &json!({}));
    }
    let config = json!({
        "durable_name": "timers",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 1_000_000_000,
        "max_ack_pending": -1,
    });
    let request = json!({ "stream_name": stream, "config": config });
    server.api(&format!("CONSUMER.DURABLE.CREATE.{stream}.timers"), &request);
    let _ = queue.queue_delayed("f", "far", Duration::from_secs(3600)).unwrap();
    let other = Outsider::new(&server);
    other
        .publish(["1", "2"].map(|i| format!("cmwq.again.older-later.due.{i}.f.u-{i}")).into_iter());
    let _ = queue.queue_delayed("f", "near", Duration::from_millis(1)).unwrap();
    // A machine has said when the one comes, and has died with the next.
    let words = [r#"-NAK {"delay":3600000000000}"#, "+WPI"];
    let [_, _] = words.map(|word| other.say(&other.take_from(&format!("{stream}.timers")), word));
    let queue = broker.queue("older-later").open().unwrap();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    let mut ran = [seen.next(), seen.next(), seen.next()];
    ran.sort();
    assert_eq!(ran, ["", "", "near"]);
    queue.flush().unwrap();
    assert_eq!(seen.rest(), [""; 0]);
    // A machine says that a timer is over when it has queued the item.
    eventually("one is left", || queue.backlog().unwrap().delayed == 1);
}
