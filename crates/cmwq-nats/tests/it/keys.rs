//! Pending once: items with keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Gate, Outsider, broker_or_skip, eventually, holding, queue, runs, text};

#[test]
fn a_key_is_pending_once_and_keeps_its_first_payload() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "once");
    assert!(!queue.queue_once("f", "user 7", "first").unwrap().was_pending());
    assert!(queue.queue_once("f", "user 7", "second").unwrap().was_pending());
    assert!(!queue.queue_once("f", "user 8", "other").unwrap().was_pending());
    assert!(!queue.queue_once("g", "user 7", "of g").unwrap().was_pending());
    let (note, seen) = runs();
    let of_g = note.clone();
    let _serving = queue
        .serve()
        .function("f", move |item| {
            note.item(item);
            Ok(())
        })
        .function("g", move |item| {
            of_g.item(item);
            Ok(())
        })
        .start()
        .unwrap();
    queue.flush().unwrap();
    let mut ran = [seen.next(), seen.next(), seen.next()];
    ran.sort();
    assert_eq!(ran, ["first", "of g", "other"]);
    // Done, so it can be queued anew.
    assert!(!queue.queue_once("f", "user 7", "third").unwrap().was_pending());
    queue.flush().unwrap();
    assert_eq!(seen.next(), "third");
    assert_eq!(seen.rest(), [""; 0]);
}

/// As the kernel has it: pending ends when the function begins, so who queues while it runs gets
/// another run, once, and the two do not overlap.
#[test]
fn queued_while_it_runs_it_runs_once_more_afterwards() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "again");
    let (note, seen) = runs();
    let (gate, inside) = (Gate::default(), Arc::new(AtomicU32::new(0)));
    let connections = [server.connect(), server.connect()];
    let _machines = connections.each_ref().map(|other| {
        let (note, gate, inside) = (note.clone(), gate.clone(), inside.clone());
        let queue = other.queue("again").open().unwrap();
        queue
            .serve()
            .function("f", move |item| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "twice at once");
                note.item(item);
                gate.pass();
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            })
            .start()
            .unwrap()
    });
    let _ = queue.queue_once("f", "k", "1").unwrap();
    assert_eq!(seen.next(), "1");
    assert!(queue.queue_once("f", "k", "2").unwrap().was_pending());
    assert!(queue.queue_once("f", "k", "3").unwrap().was_pending());
    gate.open();
    queue.flush().unwrap();
    assert_eq!(seen.next(), "2");
    assert_eq!(seen.rest(), [""; 0]);
}

/// Nobody who queues an item may miss its run: the last value that was written before the call is
/// read by a run that begins after it.
#[test]
fn no_wake_up_is_lost() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "wake-ups");
    let (written, read) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let _serving = {
        let (written, read) = (written.clone(), read.clone());
        queue.serve().function("f", move |_| {
            read.fetch_max(written.load(Ordering::SeqCst), Ordering::SeqCst);
            Ok(())
        })
    }
    .start()
    .unwrap();
    for round in 1..=200 {
        written.store(round, Ordering::SeqCst);
        let _ = queue.queue_once("f", "k", "").unwrap();
        if round % 20 == 0 {
            queue.flush().unwrap();
            assert_eq!(read.load(Ordering::SeqCst), round);
        }
    }
}

#[test]
fn ids_are_for_each_call_and_stay_over_attempts() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "ids");
    let (note, seen) = runs();
    let _serving = queue
        .serve()
        .function("f", move |item| {
            note.text(format!("{} {}", text(item), item.id()));
            if item.attempt() < 3 { Err("again".into()) } else { Ok(()) }
        })
        .retry_after(Duration::from_millis(1))
        .start()
        .unwrap();
    let mut ids = Vec::new();
    for payload in ["a", "b"] {
        let _ = queue.queue_once("f", "same key", payload).unwrap();
        queue.flush().unwrap();
        let all = [seen.next(), seen.next(), seen.next()];
        assert!(all.iter().all(|run| *run == all[0]), "{all:?}");
        let (of, id) = all[0].split_once(' ').unwrap();
        assert_eq!(of, payload);
        ids.push(id.to_owned());
    }
    assert_ne!(ids[0], ids[1]);
}

/// Keys that wait, and were queued once more: all that is asked of the broker is asked for them.
#[test]
fn keys_that_are_held_up_hold_up_no_delay() {
    const MANY: usize = 10_000;
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("crowded").max_active(1).open().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let _ = queue.queue("f", "held").unwrap();
    assert_eq!(seen.next(), "held");
    let other = Outsider::new(&server);
    for place in ["run", "again"] {
        other.publish((0..MANY).map(|i| format!("cmwq.{place}.crowded.f.k-{i}")));
    }
    let timer = |ms| queue.queue_once_delayed("f", "soon", "", Duration::from_millis(ms)).unwrap();
    let begun = Instant::now();
    assert!(!timer(1).was_pending());
    // The timer is not pending any more once its delay has passed.
    eventually("it has been due", || !timer(3_600_000).was_pending());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    gate.open();
}
