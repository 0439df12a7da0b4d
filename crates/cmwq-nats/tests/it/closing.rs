//! Machines that take no more.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cmwq::Workqueue;
use cmwq_nats::Serving;

use crate::support::{Gate, broker_or_skip, eventually, holding, queue, runs};

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
