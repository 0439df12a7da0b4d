//! What waits for its next attempt, or for its time: how the broker is told.
//!
//! A word that asks for a later delivery puts off by 10 ms when the broker looks for whom the time
//! has come. Where such words come more often than that, it does not look at all.

use std::time::{Duration, Instant};

use cmwq_nats::{Failure, Item, Server as Machine};
use serde_json::json;

use crate::support::{Note, Outsider, broker_or_skip, eventually, noting, queue, runs};

/// On it each item fails the first time.
fn failing_once(machine: Machine, note: Note) -> Machine {
    machine.function("f", move |item: &Item| -> Result<(), Failure> {
        if item.attempt() == 1 {
            return Err("no database".into());
        }
        note.item(item);
        Ok(())
    })
}

#[test]
fn an_item_that_has_failed_waits_on_its_machine() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "pausing");
    let other = Outsider::new(&server);
    let words = other.listen("$JS.ACK.cmwq-run_pausing.machines.>");
    let (note, _seen) = runs();
    let pause = Duration::from_millis(200);
    let _serving = failing_once(queue.serve(), note).retry_after(pause).start().unwrap();
    let begun = Instant::now();
    let _ = queue.queue("f", "").unwrap();
    let mut heard = other.hear_until(words, "+ACK");
    // A slow machine says meanwhile that it is there.
    heard.retain(|word| word != "+WPI");
    assert_eq!(heard, ["-NAK", "+ACK"]);
    assert!(begun.elapsed() >= pause);
}

/// So does a machine that ends hand on what is left of the pause.
#[test]
fn a_machine_that_is_closed_hands_on_what_waits() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "handed-on");
    let (note, seen) = runs();
    let pause = Duration::from_secs(1);
    let first = failing_once(queue.serve(), note.clone()).retry_after(pause).start().unwrap();
    let begun = Instant::now();
    let _ = queue.queue("f", "item").unwrap();
    eventually("it has failed", || first.stats().failed == 1);
    first.close();
    let _second = failing_once(queue.serve(), note).start().unwrap();
    assert_eq!(seen.next(), "item");
    let waited = begun.elapsed();
    // Not for the 30 s after which the first machine is taken for dead.
    assert!(waited >= pause && waited < Duration::from_secs(25), "{waited:?}");
}

#[test]
fn a_change_of_dead_after_moves_no_attempt() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let open = |silence| broker.queue("moved").dead_after(silence).open().unwrap();
    let queue = open(Duration::from_millis(500));
    let (note, seen) = runs();
    let pause = Duration::from_millis(400);
    let serving = failing_once(queue.serve(), note).retry_after(pause).start().unwrap();
    let _ = queue.queue("f", "item").unwrap();
    eventually("it has failed", || serving.stats().failed == 1);
    let begun = Instant::now();
    let _ = open(Duration::from_secs(60));
    assert_eq!(seen.next(), "item");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// A machine has taken an item and says nothing; others fail, each at another time.
#[test]
fn items_that_fail_keep_no_orphan() {
    const MANY: usize = 20_000;
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("orphaned").dead_after(Duration::from_secs(1)).open().unwrap();
    let other = Outsider::new(&server);
    let _ = queue.queue("f", "orphan").unwrap();
    let _silent = other.take("orphaned");
    other.publish((0..MANY).map(|i| format!("cmwq.run.orphaned.f.u-{i}")));
    let (note, seen) = runs();
    let begun = Instant::now();
    let serving = queue.serve().function("f", move |item| {
        if item.payload().is_empty() {
            return Err("no database".into());
        }
        note.item(item);
        Ok(())
    });
    let serving = serving.retry_after(Duration::from_secs(60)).start().unwrap();
    assert_eq!(seen.next(), "orphan");
    let failed = serving.stats().failed;
    eprintln!("the orphan ran after {:?} and {failed} failures", begun.elapsed());
    assert!(failed < MANY as u64, "when all had failed");
}

#[test]
fn a_delay_that_ends_soon_is_waited_for_here() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "soon");
    let other = Outsider::new(&server);
    let words = other.listen("$JS.ACK.cmwq-later_soon.timers.>");
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    let _ = queue.queue_delayed("f", "soon", Duration::from_secs(1)).unwrap();
    assert_eq!(seen.next(), "soon");
    assert_eq!(other.hear(words, 2), ["-NAK", "+ACK"]);
}

/// A machine that is closed keeps none of those that it waits for.
#[test]
fn delays_end_though_a_machine_is_closed() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "left-soon");
    let other = Outsider::new(&server);
    let (note, seen) = runs();
    let words = other.listen("$JS.ACK.cmwq-later_left-soon.timers.>");
    let first = noting(queue.serve(), note.clone()).start().unwrap();
    let _ = queue.queue_delayed("f", "soon", Duration::from_secs(3)).unwrap();
    let _ = queue.queue_delayed("f", "far", Duration::from_secs(3600)).unwrap();
    // That one has been looked at, and so has the one before.
    let heard = other.hear(words, 1);
    assert!(heard[0].starts_with("-NAK {"), "{heard:?}");
    let begun = Instant::now();
    first.close();
    let _second = noting(queue.serve(), note).start().unwrap();
    assert_eq!(seen.next(), "soon");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Each of those is looked at, and has to be told something of.
#[test]
fn delays_end_while_others_begin() {
    const MANY: usize = 20_000;
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "stormy");
    let other = Outsider::new(&server);
    let (note, seen) = runs();
    let _ = queue.queue_delayed("f", "first", Duration::from_secs(2)).unwrap();
    let far = (0..MANY).map(|i| format!("cmwq.later.stormy.f.u-{i}"));
    other.publish_later(far, Duration::from_secs(3600));
    let begun = Instant::now();
    let _serving = noting(queue.serve(), note).start().unwrap();
    assert_eq!(seen.next(), "first");
    let info = server.api("CONSUMER.INFO.cmwq-later_stormy.timers", &json!({}));
    let looked_at = info["delivered"]["consumer_seq"].as_u64().unwrap();
    eprintln!("it ran after {:?}, when {looked_at} had been looked at", begun.elapsed());
    assert!(looked_at < MANY as u64);
}
