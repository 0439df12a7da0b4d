//! Taking items back.

use std::time::Duration;

use cmwq_nats::Cancelled;

use crate::support::{Gate, broker_or_skip, noting, queue, runs};

#[test]
fn what_was_cancelled_before_its_start_never_runs() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "cancel");
    let kept = queue.queue("f", "kept").unwrap();
    let gone = queue.queue("f", "gone").unwrap();
    let key = queue.queue_once("f", "key", "gone, too").unwrap();
    let _ = queue.queue_once("f", "key", "gone, too").unwrap();
    let timer = queue.queue_delayed("f", "not yet", Duration::from_secs(3600)).unwrap();
    assert_eq!(gone.cancel().unwrap(), Cancelled::BeforeStart);
    assert_eq!(gone.cancel().unwrap(), Cancelled::NotThere);
    assert_eq!(key.cancel().unwrap(), Cancelled::BeforeStart);
    assert_eq!(queue.ticket("f", "key").unwrap().cancel().unwrap(), Cancelled::NotThere);
    assert_eq!(timer.cancel().unwrap(), Cancelled::BeforeStart);
    // Somebody who waits for it need not any more.
    gone.flush().unwrap();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    kept.flush().unwrap();
    queue.flush().unwrap();
    assert_eq!(seen.next(), "kept");
    assert_eq!(seen.rest(), [""; 0]);
    assert_eq!(kept.cancel().unwrap(), Cancelled::NotThere);
}

#[test]
fn what_has_started_is_not_stopped_and_not_tried_again() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "cancel-late");
    let (note, seen) = runs();
    let gate = Gate::default();
    let serving = {
        let gate = gate.clone();
        queue.serve().function("f", move |item| {
            note.item(item);
            gate.pass();
            Err("would be tried again".into())
        })
    }
    .retry_after(Duration::from_millis(1))
    .start()
    .unwrap();
    let ticket = queue.queue("f", "x").unwrap();
    assert_eq!(seen.next(), "x");
    assert_eq!(ticket.cancel().unwrap(), Cancelled::Started);
    gate.open();
    queue.flush().unwrap();
    // Another one comes and goes; the first did not come again before it.
    let _ = queue.queue_once("f", "second", "y").unwrap();
    assert_eq!(seen.next(), "y");
    serving.close();
    assert!(!seen.rest().contains(&"x".to_owned()));
}
