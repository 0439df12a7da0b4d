//! What others see: how many items wait at the broker, beside the local workqueue.

use cmwq::Workqueue;
use cmwq_observe::inspect::Target;

use crate::support::{Gate, broker_or_skip, eventually, holding, queue, runs};

#[test]
fn what_waits_at_the_broker_is_shown_with_the_local_queue() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "shown");
    let wq = Workqueue::builder("shown-here").ordered().build().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let serving = holding(queue.serve().on(&wq), note, &gate).start().unwrap();
    let outside = || {
        let seen = Target::open(std::process::id()).unwrap().snapshot().unwrap();
        seen.queues.iter().find(|queue| queue.name == "shown-here").map(|queue| queue.outside)
    };
    let _ = queue.queue("f", "first").unwrap();
    assert_eq!(seen.next(), "first");
    for _ in 0..7 {
        let _ = queue.queue("f", "").unwrap();
    }
    eventually("seven wait", || outside() == Some(7));
    gate.open();
    queue.flush().unwrap();
    eventually("none waits", || outside() == Some(0));
    serving.close();
}
