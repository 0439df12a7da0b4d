//! Waiting.

use crate::support::{Gate, broker_or_skip, queue, runs};

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
