//! Opening: names, settings that stay, what is wrong with them.

use std::time::Duration;

use cmwq_nats::{Broker, ErrorKind};

use crate::support::{Server, broker_or_skip, eventually, noting, queue, runs};

#[test]
fn what_is_not_said_stays_as_it_is() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let first = broker.queue("kept").max_active(2).max_queued(5).open().unwrap();
    for _ in 0..5 {
        let _ = first.queue("f", "").unwrap();
    }
    let again = server.connect().queue("kept").open().unwrap();
    assert_eq!(again.queue("f", "").unwrap_err().kind(), ErrorKind::Full);
    let wider = server.connect().queue("kept").max_queued(0).open().unwrap();
    let _ = wider.queue("f", "").unwrap();
}

#[test]
fn nonsense_is_refused_with_a_hint() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let invalid = |error: cmwq_nats::Error, hint: &str| {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    };
    invalid(broker.queue("a.b").open().unwrap_err(), "a-z");
    let silent = broker.queue("a").dead_after(Duration::from_millis(1));
    invalid(silent.open().unwrap_err(), "100 ms");
    let queue = queue(&broker, "a");
    invalid(queue.queue("a b", "").unwrap_err(), "a-z");
    invalid(queue.queue_once("f", "", "").unwrap_err(), "key");
    invalid(queue.queue("f", vec![0; 2 << 20]).unwrap_err(), "max_payload");
    invalid(queue.serve().start().unwrap_err(), "function");
    invalid(queue.serve().function("*", |_| Ok(())).start().unwrap_err(), "a-z");
    // No cluster: the broker says why.
    let refused = broker.queue("b").replicas(3).open().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
}

#[test]
fn patience_may_have_no_end() {
    let mut server = broker_or_skip!();
    let broker = Broker::builder(&server.address()).patience(Duration::MAX).connect().unwrap();
    let queue = queue(&broker, "patient");
    server.kill();
    let queueing = std::thread::spawn(move || queue.queue("f", "").map(drop));
    server.run();
    queueing.join().unwrap().unwrap();
}

#[test]
fn no_broker_is_said_with_its_address() {
    let error = Broker::connect("127.0.0.1:1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
    assert!(error.to_string().contains("nats-server"), "{error}");
}

/// Passwords are in no message, nor where a builder is shown.
#[test]
fn a_login_may_be_part_of_the_address() {
    let more = ["--user", "me", "--pass", "p@ss"].map(str::to_owned).to_vec();
    let server = broker_or_skip!(Server::told(more));
    let at = |login: &str| Broker::builder(&format!("nats://{login}@{}", server.address()));
    assert!(at("me:p%40ss").connect().unwrap().queue("a").open().is_ok());
    let wrong = at("me:guess");
    assert!(!format!("{wrong:?}").contains("guess"), "{wrong:?}");
    let error = wrong.connect().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let told = error.to_string();
    assert!(told.contains(&server.address()) && !told.contains("guess"), "{told}");
    assert!(told.contains("nats://USER:PASSWORD@HOST"), "{told}");
    assert!(at("token").connect().is_err());
    let server = broker_or_skip!(Server::told(["--auth", "t0k"].map(str::to_owned).to_vec()));
    assert!(Broker::connect(&format!("t0k@{}", server.address())).is_ok());
}

#[cfg(not(feature = "tls"))]
#[test]
fn without_tls_who_asks_for_it_is_told_so() {
    let server = broker_or_skip!();
    let error = Broker::connect(&format!("tls://{}", server.address())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("the feature `tls`"), "{error}");
}

#[test]
fn a_destroyed_queue_is_gone_and_can_be_opened_again() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let first = queue(&broker, "destroyed");
    let _ = first.queue("f", "old").unwrap();
    let (note, seen) = runs();
    first.destroy().unwrap();
    let second = queue(&broker, "destroyed");
    let _serving = noting(second.serve(), note).start().unwrap();
    let _ = second.queue("f", "new").unwrap();
    assert_eq!(seen.next(), "new");
    second.destroy().unwrap();
    let third = queue(&broker, "destroyed");
    let _ = third.queue("f", "newer").unwrap();
    // The machine goes on with the queue of that name.
    assert_eq!(seen.next(), "newer");
    eventually("all is done", || third.backlog().unwrap().taken == 0);
}
