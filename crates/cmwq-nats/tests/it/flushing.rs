//! Waiting.

use std::thread;
use std::time::Duration;

use crate::support::{Gate, broker_or_skip, eventually, holding, queue, runs};

/// A flush waits for what was queued before it, and not for what comes later.
#[test]
fn a_flush_ends_though_others_go_on_queueing() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "flushed");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = {
        let gate = gate.clone();
        queue.serve().function("now", |_| Ok(())).function("held", move |item| {
            note.item(item);
            gate.pass();
            Ok(())
        })
    }
    .start()
    .unwrap();
    for _ in 0..20 {
        let _ = queue.queue("now", "").unwrap();
    }
    let first = std::thread::spawn({
        let queue = queue.clone();
        move || queue.flush().unwrap()
    });
    first.join().unwrap();
    let held = queue.queue("held", "h").unwrap();
    assert_eq!(seen.next(), "h");
    let waiting = std::thread::spawn(move || held.flush().unwrap());
    // One that was queued after it is done first.
    queue.queue("now", "").unwrap().flush().unwrap();
    assert!(!waiting.is_finished());
    gate.open();
    waiting.join().unwrap();
    queue.flush().unwrap();
}

#[test]
fn a_flush_with_a_limit_does_not_wait_for_longer() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "in-time");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let ticket = queue.queue("f", "held").unwrap();
    assert_eq!(seen.next(), "held");
    for limit in [Duration::ZERO, Duration::from_millis(20)] {
        assert!(!ticket.flush_timeout(limit).unwrap(), "it still runs");
        assert!(!queue.flush_timeout(limit).unwrap(), "it still runs");
    }
    gate.open();
    assert!(ticket.flush_timeout(Duration::MAX).unwrap());
    assert!(queue.flush_timeout(Duration::from_secs(60)).unwrap());
    assert!(queue.flush_timeout(Duration::ZERO).unwrap(), "nothing is left");
}

#[test]
fn an_empty_queue_is_flushed_at_once() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "empty");
    queue.flush().unwrap();
}

/// Calls may come from items, and from async runtimes.
#[test]
fn an_item_may_queue_and_wait() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "nested");
    let (note, seen) = runs();
    let _serving = {
        let queue = queue.clone();
        queue.clone().serve().function("inner", |_| Ok(())).function("outer", move |item| {
            queue.queue("inner", "")?.flush()?;
            note.item(item);
            Ok(())
        })
    }
    .start()
    .unwrap();
    for i in 0..10 {
        let _ = queue.queue("outer", i.to_string()).unwrap();
    }
    queue.flush().unwrap();
    (0..10).for_each(|_| drop(seen.next()));
}

/// It would wait for its own end, and say all the while that it is alive.
#[test]
fn a_function_that_waits_for_its_own_item_is_told() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let (own, other) = (queue(&broker, "own"), queue(&broker, "not-own"));
    let (note, seen) = runs();
    let _serving = {
        let own = own.clone();
        own.clone().serve().attempts(1).function("f", move |_| {
            let kind = |result: Result<(), cmwq_nats::Error>| result.map_err(|error| error.kind());
            let key = |key| own.ticket("f", key).unwrap();
            let told = (kind(own.flush()), kind(key("k").flush()));
            note.text(format!("{told:?} {:?}", (kind(key("l").flush()), kind(other.flush()))));
            own.flush()?;
            Ok(())
        })
    }
    .start()
    .unwrap();
    let _ = own.queue_once("f", "k", "").unwrap();
    assert_eq!(seen.next(), "(Err(InvalidInput), Err(InvalidInput)) (Ok(()), Ok(()))");
    own.flush().unwrap();
    let [letter] = <[_; 1]>::try_from(own.dead_letters(10).unwrap()).unwrap();
    assert!(letter.error().contains("function 'f' waits for its own item"), "{letter:?}");
}

/// Delays that have passed: also where an item of the same key runs, which holds up what was
/// delayed.
#[test]
fn a_flush_waits_for_what_was_delayed_and_is_held_up() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "held-up");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let _ = queue.queue_once("f", "k", "1").unwrap();
    assert_eq!(seen.next(), "1");
    let timer = |payload, ms| {
        queue.queue_once_delayed("f", "k", payload, Duration::from_millis(ms)).unwrap()
    };
    assert!(!timer("2", 1).was_pending());
    // The timer is not pending any more once its delay has passed.
    eventually("it has been due", || !timer("3", 3_600_000).was_pending());
    // For that one, whose delay has not passed, nobody waits.
    let flushing = {
        let queue = queue.clone();
        thread::spawn(move || queue.flush().unwrap())
    };
    for _ in 0..20 {
        assert_eq!(queue.backlog().unwrap().taken, 1);
    }
    assert!(!flushing.is_finished());
    gate.open();
    flushing.join().unwrap();
    assert_eq!(seen.next(), "2");
    assert_eq!(seen.rest(), [""; 0]);
    assert_eq!(queue.backlog().unwrap().delayed, 1);
}
