//! Taking items back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use cmwq_nats::{Cancelled, ErrorKind};
use serde_json::json;

use crate::support::{Gate, broker_or_skip, eventually, holding, noting, queue, runs};

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

/// Cancelling an item that runs is not the end of the run: its key does not run beside it.
#[test]
fn who_queues_what_was_cancelled_as_it_ran_gets_a_run_afterwards() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "cancel-again");
    let (note, seen) = runs();
    let (gate, inside) = (Gate::default(), Arc::new(AtomicU32::new(0)));
    let connections = [server.connect(), server.connect()];
    let machines = connections.each_ref().map(|other| {
        let (note, gate, inside) = (note.clone(), gate.clone(), inside.clone());
        let queue = other.queue("cancel-again").open().unwrap();
        let server = queue.serve().function("f", move |item| {
            note.text(format!("{} {}", inside.fetch_add(1, Ordering::SeqCst), item.attempt()));
            gate.pass();
            inside.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        });
        server.start().unwrap()
    });
    let first = queue.queue_once("f", "k", "1").unwrap();
    assert_eq!(seen.next(), "0 1");
    assert_eq!(first.cancel().unwrap(), Cancelled::Started);
    assert_eq!(first.cancel().unwrap(), Cancelled::Started);
    let _ = queue.queue_once("f", "k", "2").unwrap();
    // It is behind the run: nothing is there that a machine could take.
    for _ in 0..20 {
        let looks = queue.backlog().unwrap();
        assert_eq!((looks.taken, looks.waiting), (1, 0));
    }
    gate.open();
    queue.flush().unwrap();
    assert_eq!(seen.next(), "0 1");
    assert_eq!(seen.rest(), [""; 0]);
    assert_eq!(first.cancel().unwrap(), Cancelled::NotThere);
    eventually("nothing is left", || queue.backlog().unwrap().delayed == 0);
    drop(machines);
}

/// `cancel`, then `flush`, is what `cancel_work_sync` is in the kernel; and the item keeps its
/// places until it has ended.
#[test]
fn what_was_cancelled_as_it_ran_is_waited_for() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("cancel-sync").ordered().max_queued(2).open().unwrap();
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let ticket = queue.queue("f", "x").unwrap();
    assert_eq!(seen.next(), "x");
    assert_eq!(ticket.cancel().unwrap(), Cancelled::Started);
    let _ = queue.queue("f", "y").unwrap();
    assert_eq!(queue.queue("f", "z").unwrap_err().kind(), ErrorKind::Full);
    let waiting = {
        let ticket = ticket.clone();
        thread::spawn(move || ticket.flush().unwrap())
    };
    let all = {
        let queue = queue.clone();
        thread::spawn(move || queue.flush().unwrap())
    };
    for _ in 0..20 {
        assert_eq!((queue.backlog().unwrap().taken, queue.backlog().unwrap().waiting), (1, 1));
    }
    assert_eq!((waiting.is_finished(), all.is_finished()), (false, false));
    assert_eq!(seen.rest(), [""; 0], "the next one waits for its turn");
    gate.open();
    waiting.join().unwrap();
    all.join().unwrap();
    assert_eq!(seen.next(), "y");
}

/// It becomes no dead letter, and no machine starts it a second time.
#[test]
fn what_was_cancelled_is_not_given_up() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "cancel-last");
    let (note, seen) = runs();
    let (tell, told) = runs();
    let gate = Gate::default();
    let serving = {
        let gate = gate.clone();
        queue.serve().attempts(1).function("f", move |item| {
            note.item(item);
            gate.pass();
            Err("too late".into())
        })
    }
    .on_failure(move |_, reason, is_given_up| tell.text(format!("{reason}, {is_given_up}")))
    .start()
    .unwrap();
    let ticket = queue.queue("f", "x").unwrap();
    assert_eq!(seen.next(), "x");
    assert_eq!(ticket.cancel().unwrap(), Cancelled::Started);
    gate.open();
    ticket.flush().unwrap();
    assert_eq!(told.next(), "too late, false");
    assert_eq!((serving.stats().failed, serving.stats().dead), (1, 0));
    assert_eq!(queue.backlog().unwrap().dead, 0);
    assert_eq!(seen.rest(), [""; 0]);
}

/// One that waits for its next attempt when it is cancelled.
#[test]
fn what_was_cancelled_between_two_attempts_is_not_tried_again() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "cancel-between");
    let (note, seen) = runs();
    let serving = {
        let note = note.clone();
        queue.serve().retry_after(Duration::from_secs(6)).function("f", move |item| {
            note.item(item);
            Err("again".into())
        })
    }
    .start()
    .unwrap();
    let ticket = queue.queue("f", "x").unwrap();
    assert_eq!(seen.next(), "x");
    eventually("the attempt has failed", || serving.stats().failed == 1);
    assert_eq!(ticket.cancel().unwrap(), Cancelled::Started);
    ticket.flush().unwrap();
    assert_eq!((serving.stats().failed, seen.rest()), (1, vec![]));
}

/// What is due, and held up by an item of its key.
#[test]
fn what_is_held_up_can_be_taken_back() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "cancel-due");
    let (note, seen) = runs();
    let gate = Gate::default();
    let _serving = holding(queue.serve(), note, &gate).start().unwrap();
    let _ = queue.queue_once("f", "k", "1").unwrap();
    assert_eq!(seen.next(), "1");
    let timer = || {
        let ticket = queue.queue_once_delayed("f", "k", "2", Duration::from_millis(1));
        ticket.unwrap().was_pending()
    };
    assert!(!timer());
    // It is pending until it is due. Then there is another one.
    eventually("it is held up", || !timer());
    assert_eq!(queue.ticket("f", "k").unwrap().cancel().unwrap(), Cancelled::Started);
    gate.open();
    queue.flush().unwrap();
    assert_eq!(seen.rest(), [""; 0]);
    eventually("nothing is left", || queue.backlog().unwrap().delayed == 0);
}

/// An operator may forbid that messages are taken away: then it is not as if they were not there.
#[test]
fn what_the_broker_does_not_take_back_is_not_taken_for_gone() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "kept-back");
    server.configure("cmwq-run_kept-back", "deny_delete", json!(true));
    server.configure("cmwq-dead_kept-back", "deny_delete", json!(true));
    let ticket = queue.queue("f", "x").unwrap();
    assert_eq!(ticket.cancel().unwrap_err().kind(), ErrorKind::Refused);
    let failing = queue.serve().attempts(1).function("f", |_| Err("fails".into()));
    let _serving = failing.start().unwrap();
    queue.flush().unwrap();
    let [letter] = <[_; 1]>::try_from(queue.dead_letters(10).unwrap()).unwrap();
    assert_eq!(letter.remove().unwrap_err().kind(), ErrorKind::Refused);
}
