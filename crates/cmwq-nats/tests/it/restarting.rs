//! The broker goes away and comes back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cmwq_nats::{Broker, ErrorKind};

use crate::support::{Outsider, Server, broker_or_skip, eventually, noting, queue, runs, text};

/// Killed and started in the middle of queueing and of running: all that was accepted is run.
#[test]
fn a_broker_that_restarts_loses_nothing() {
    const MANY: usize = 300;
    let mut server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("restarted").dead_after(Duration::from_secs(1)).open().unwrap();
    let ran = Arc::new(Mutex::new(HashMap::<String, u32>::new()));
    let other = server.connect();
    let machines = [&broker, &other].map(|broker| {
        let (ran, queue) = (ran.clone(), broker.queue("restarted").open().unwrap());
        let server = queue.serve().attempts(100).function("f", move |item| {
            *ran.lock().unwrap().entry(text(item)).or_default() += 1;
            Ok(())
        });
        server.start().unwrap()
    });
    let queueing = thread::spawn({
        let queue = queue.clone();
        move || {
            for i in 0..MANY {
                let _ = queue.queue("f", i.to_string()).unwrap();
            }
        }
    });
    for quarter in 1..=3 {
        eventually("some have run", || ran.lock().unwrap().len() > MANY / 4 * quarter - 20);
        server.kill();
        server.run();
    }
    queueing.join().unwrap();
    queue.flush().unwrap();
    let ran = ran.lock().unwrap();
    assert_eq!(ran.len(), MANY);
    let runs: u32 = ran.values().sum();
    eprintln!("{MANY} items, {} runs too many", runs - MANY as u32);
    assert_eq!(queue.backlog().unwrap().dead, 0);
    drop(machines);
}

/// Brokers before 2.10 bring messages back that were acknowledged, if they are killed before they
/// have written down that they took them away. Here the files are put back.
#[test]
fn messages_of_items_that_are_done_hold_up_nobody() {
    const MANY: usize = 10;
    let mut server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("left").max_queued(MANY as u32).open().unwrap();
    let put = |key: usize| queue.queue_once("f", &key.to_string(), key.to_string()).unwrap();
    for key in 0..MANY {
        assert!(!put(key).was_pending());
    }
    server.kill();
    let messages = server.messages("cmwq-run_left");
    server.run();
    let (note, runs) = runs();
    let serving = noting(queue.serve(), note.clone()).start().unwrap();
    queue.flush().unwrap();
    assert_eq!(runs.rest().len(), MANY);
    serving.close();
    server.stop();
    messages.put_back();
    server.run();

    // Nobody waits for them, and no machine gets them.
    queue.flush().unwrap();
    let _serving = noting(queue.serve(), note).start().unwrap();
    // Their keys and their places come free.
    let _ = put(3);
    assert_eq!(runs.next(), "3");
    eventually("there is room again", || queue.queue("f", "new").is_ok());
    assert_eq!(runs.next(), "new");
    assert_eq!(runs.rest(), [""; 0]);
}

/// A broker whose machine fails may lose the last ones, and gives their numbers to others. Here the
/// files are put back.
#[test]
fn a_flush_does_not_wait_for_items_that_the_broker_has_lost() {
    let mut server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "lost");
    let put = |number: u32| queue.queue("f", number.to_string()).unwrap();
    (1..=5).for_each(|number| drop(put(number)));
    server.stop();
    let messages = server.messages("cmwq-run_lost");
    server.run();
    (6..=10).for_each(|number| drop(put(number)));
    let other = Outsider::new(&server);
    let looks = other.listen("$JS.API.CONSUMER.INFO.cmwq-run_lost.machines");
    let flushing = thread::spawn({
        let queue = queue.clone();
        move || queue.flush_timeout(Duration::from_secs(60)).unwrap()
    });
    // It knows by now which item is the last one.
    let _ = other.hear(looks, 1);
    server.stop();
    messages.put_back();
    server.run();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    assert!(flushing.join().unwrap(), "it waits for items that are not there");
    let mut ran = seen.rest();
    ran.sort();
    assert_eq!(ran, ["1", "2", "3", "4", "5"]);
}

#[test]
fn who_queues_without_a_broker_is_told_when_patience_ends() {
    let mut server = broker_or_skip!();
    let broker = impatient(&server);
    let queue = broker.queue("away").open().unwrap();
    without_connection(&mut server, &broker);
    let error = queue.queue("f", "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("nothing was sent"), "{error}");
    server.run();
    // The same handles go on.
    eventually("there is a connection again", || queue.queue("f", "").is_ok());
}

/// It would be sent with the next connection, when its sender was told that it failed: items would
/// be queued many times, and a queue removed that was opened again meanwhile.
#[test]
fn what_failed_without_a_connection_is_not_done_later() {
    let mut server = broker_or_skip!();
    let broker = impatient(&server);
    let queue = broker.queue("failed").open().unwrap();
    let _ = queue.queue("f", "before").unwrap();
    without_connection(&mut server, &broker);
    for _ in 0..3 {
        let error = queue.queue("f", "meanwhile").unwrap_err();
        assert!(error.to_string().contains("nothing was sent"), "{error}");
    }
    let error = queue.clone().destroy().unwrap_err();
    assert!(error.to_string().contains("nothing was sent"), "{error}");
    server.run();
    eventually("there is a connection again", || queue.backlog().is_ok());
    // What the connection was given before is sent before.
    let _ = queue.queue("f", "after").unwrap();
    let queue = server.connect().queue("failed").open().unwrap();
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    queue.flush().unwrap();
    // They may run at the same time.
    let mut ran = seen.rest();
    ran.sort();
    assert_eq!(ran, ["after", "before"]);
}

/// Without a connection its calls fail soon.
fn impatient(server: &Server) -> Broker {
    Broker::builder(&server.address()).patience(Duration::from_millis(200)).connect().unwrap()
}

/// Kills the server, and waits until the client has noticed.
fn without_connection(server: &mut Server, broker: &Broker) {
    server.kill();
    eventually("the connection ends", || format!("{broker:?}").contains("Disconnected"));
}

/// Its host has lost power, or a firewall has forgotten the connection: nothing comes of it any
/// more, and no word of its end. That is noticed while calls still have patience.
#[test]
fn a_broker_that_falls_silent_is_missed() {
    let server = broker_or_skip!();
    let broker = Broker::connect(&server.address()).unwrap();
    let queue = queue(&broker, "silent");
    server.stand_still(true);
    let begun = Instant::now();
    eventually("it is missed", || !format!("{broker:?}").contains("state: Connected"));
    let missed = begun.elapsed();
    server.stand_still(false);
    assert!(missed < Duration::from_secs(30), "{missed:?}");
    let _ = queue.queue("f", "").unwrap();
}
