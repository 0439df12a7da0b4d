//! What a machine says of it when it gets no items.

use std::time::Duration;

use cmwq_nats::{Error, ErrorKind, Serving};
use serde_json::json;

use crate::support::{
    Outsider, Server, broker_or_skip, eventually, forbidding, noting, queue, runs,
};

fn kind_of(serving: &Serving) -> Option<ErrorKind> {
    serving.trouble().map(|error| error.kind())
}

fn says(serving: &Serving, what: &str) -> bool {
    let says =
        |error: Error| error.kind() == ErrorKind::Unreachable && error.to_string().contains(what);
    serving.trouble().is_some_and(says)
}

/// Also one that has looked, found that nothing is to be done, and looks no more.
#[test]
fn a_machine_says_that_its_queue_is_gone_until_it_is_there_again() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "removed");
    let (note, seen) = runs();
    let other = Outsider::new(&server);
    let looks = other.listen("$JS.API.CONSUMER.INFO.cmwq-run_removed.machines");
    let serving = noting(queue.serve(), note).start().unwrap();
    // As it starts, for what is left of items that are done, and then.
    other.hear(looks, 3);
    for _ in 0..2 {
        queue.clone().destroy().unwrap();
        eventually("the machine says so", || serving.trouble().is_some());
        let trouble = serving.trouble().unwrap();
        assert_eq!(trouble.kind(), ErrorKind::Refused, "{trouble}");
        assert!(trouble.to_string().contains("look at queue 'removed'"), "{trouble}");
        assert!(serving.is_serving());
        let _ = broker.queue("removed").open().unwrap();
        eventually("nothing is wrong", || serving.trouble().is_none());
    }
    let _ = queue.queue("f", "item").unwrap();
    assert_eq!(seen.next(), "item");
}

/// Without the consumer of delayed items no delay ends here.
#[test]
fn a_machine_says_that_delayed_items_have_no_consumer() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "untimely");
    let serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    server.api("CONSUMER.DELETE.cmwq-later_untimely.timers", &json!({}));
    eventually("the machine says so", || kind_of(&serving) == Some(ErrorKind::Refused));
    let _ = broker.queue("untimely").open().unwrap();
    eventually("nothing is wrong", || serving.trouble().is_none());
}

#[test]
fn a_machine_says_that_the_broker_is_away() {
    let mut server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "away");
    let serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    server.kill();
    eventually("the machine says so", || kind_of(&serving) == Some(ErrorKind::Unreachable));
    assert!(serving.is_serving());
    server.run();
    eventually("nothing is wrong", || serving.trouble().is_none());
}

/// The broker answers nothing then, but tells of the queue if it may.
#[test]
fn a_machine_says_that_it_may_not_ask_for_items() {
    let forbidding = forbidding("$JS.API.CONSUMER.MSG.NEXT.>");
    let server = broker_or_skip!(Server::configured("", &forbidding));
    let broker = server.connect();
    let queue = queue(&broker, "forbidden");
    let serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    eventually("the machine says so", || {
        says(&serving, "may publish to $JS.API.CONSUMER.MSG.NEXT")
    });
}

/// What it says of items then comes to nothing: each would run again and again.
#[test]
fn a_machine_says_that_it_may_not_acknowledge() {
    let server = broker_or_skip!(Server::configured("", &forbidding("$JS.ACK.>")));
    let broker = server.connect();
    let queue = broker.queue("unheard").dead_after(Duration::from_millis(100)).open().unwrap();
    let serving = queue.serve().function("f", |_| Ok(())).attempts(1).start().unwrap();
    let _ = queue.queue("f", "").unwrap();
    eventually("the machine says so", || says(&serving, "may publish to $JS.ACK."));
    // It comes for ever, and does not run, nor become letters.
    eventually("it comes again", || serving.stats().taken >= 7);
    assert!(serving.stats().completed <= 4);
    assert_eq!(queue.backlog().unwrap().dead, 0);
    server.configure_anew(&forbidding("nothing"));
    queue.flush().unwrap();
    eventually("nothing is wrong", || serving.trouble().is_none());
}
