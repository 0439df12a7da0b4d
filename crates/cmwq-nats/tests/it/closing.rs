//! Machines that take no more.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use cmwq_nats::{Broker, Cancelled, Serving};
use serde_json::json;

use crate::forking::{begin_child, end_of};
use crate::support::{Gate, Outsider, broker_or_skip, eventually, holding, noting, queue, runs};

/// Its own puller ends when the function has returned.
#[test]
fn a_function_may_close_its_own_machine() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "closes-itself");
    let place = Arc::new(Mutex::new(None::<Serving>));
    let (note, seen) = runs();
    let function = {
        let place = Arc::clone(&place);
        move |item: &cmwq_nats::Item| {
            let serving = place.lock().unwrap().take();
            serving.expect("it is called once").close();
            note.item(item);
            Ok(())
        }
    };
    *place.lock().unwrap() = Some(queue.serve().function("f", function).start().unwrap());
    let first = queue.queue("f", "first").unwrap();
    assert_eq!(seen.next(), "first");
    first.flush().unwrap();
    // The machine goes, and takes nothing more.
    eventually("nobody waits for items", || queue.backlog().unwrap().idle_machines == 0);
    let _ = queue.queue("f", "second").unwrap();
    let backlog = queue.backlog().unwrap();
    assert_eq!((backlog.waiting + backlog.taken, seen.rest()), (1, Vec::new()));
}

#[test]
fn who_closes_with_a_limit_does_not_wait_for_longer() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "closes-in-time");
    let (gate, (note, seen)) = (Gate::default(), runs());
    let held = holding(queue.serve(), note.clone(), &gate).start().unwrap();
    let item = queue.queue("f", "held").unwrap();
    assert_eq!(seen.next(), "held");
    assert!(!held.close_timeout(Duration::from_millis(1)), "it still runs");
    gate.open();
    item.flush().unwrap();
    let idle = holding(queue.serve(), note, &gate).start().unwrap();
    assert!(idle.close_timeout(Duration::MAX), "nothing runs");
}

/// The program's own item, which goes before the machine's, may end only after that has.
#[test]
fn a_machine_that_has_no_turn_on_its_workqueue_closes() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "closes-behind");
    let wq = Workqueue::builder("own").ordered().build().unwrap();
    let gate = Gate::default();
    let own = wq.queue({
        let gate = gate.clone();
        move || gate.pass()
    });
    let (note, _seen) = runs();
    let serving = holding(queue.serve().on(&wq), note, &gate).start().unwrap();
    assert!(serving.is_serving());
    assert!(serving.close_timeout(Duration::from_secs(20)), "nothing of the queue's runs");
    gate.open();
    own.join().unwrap();
}

/// Whether the broker is there or not: each puller queues the next one, which the workqueue lets
/// in.
#[test]
fn a_machine_ends_with_its_workqueue() {
    let mut server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "ends-with-it");
    for is_away in [false, true] {
        let wq = Workqueue::new("ends").unwrap();
        let (note, seen) = runs();
        let serving = noting(queue.serve().on(&wq), note).start().unwrap();
        let _ = queue.queue("f", "before").unwrap();
        assert_eq!(seen.next(), "before");
        assert!(serving.is_serving());
        if is_away {
            server.kill();
        }
        wq.close().wait();
        assert!(!serving.is_serving());
        assert!(serving.close_timeout(Duration::MAX), "nothing runs");
        if !is_away {
            let after = queue.queue("f", "after").unwrap();
            assert_eq!(after.cancel().unwrap(), Cancelled::BeforeStart);
        }
    }
}

/// As the last line of a program that keeps its machines for ever.
#[test]
fn a_process_whose_machine_serves_can_be_shut_down() {
    let server = broker_or_skip!();
    let address = server.address();
    let child = begin_child(move || {
        let broker = Broker::connect(&address).unwrap();
        let queue = queue(&broker, "shut-down");
        let (note, seen) = runs();
        let serving = noting(queue.serve(), note).start().unwrap();
        let _ = queue.queue("f", "before").unwrap();
        assert_eq!(seen.next(), "before");
        cmwq::shutdown(Duration::from_secs(60)).unwrap();
        assert!(!serving.is_serving());
    });
    assert_eq!(end_of(child), 0);
    let broker = server.connect();
    assert_eq!(queue(&broker, "shut-down").backlog().unwrap().taken, 0);
}

/// The process may end right after that. Else the item would wait for as long as the broker takes
/// to miss the machine.
#[test]
fn a_machine_that_closes_ends_what_it_moves() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "moving");
    let serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    let other = Outsider::new(&server);
    // This one stands in for the queue, and takes its time.
    server.api("STREAM.DELETE.cmwq-run_moving", &json!({}));
    let moved = other.listen("cmwq.run.moving.>");
    let words = other.listen("$JS.ACK.cmwq-later_moving.timers.>");
    let _ = queue.queue_delayed("f", "", Duration::ZERO).unwrap();
    let of = other.hear_one(moved);
    let closing = thread::spawn(move || {
        serving.close();
        drop((queue, broker));
    });
    let begun = Instant::now();
    eventually("it has had time to close", || begun.elapsed() > Duration::from_millis(300));
    let is_waiting = !closing.is_finished();
    other.say(&of, r#"{"stream":"cmwq-run_moving","seq":1}"#);
    let heard = other.hear(words, usize::from(is_waiting));
    assert_eq!(heard, ["+ACK"], "it waits for what it has asked");
    closing.join().unwrap();
}
