//! Opening: names, settings that stay, what is wrong with them.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use cmwq_nats::{Broker, ErrorKind, QueueBuilder};
use serde_json::json;

use crate::support::{
    Gate, Outsider, Server, broker_or_skip, eventually, holding, noting, queue, runs,
};

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

/// A broker before 2.10.6 takes the oldest away for a lower limit, and is not told one.
#[test]
fn no_item_goes_when_fewer_may_be_queued() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = broker.queue("lowered").max_queued(5).open().unwrap();
    for i in 0..5 {
        let _ = queue.queue("f", i.to_string()).unwrap();
    }
    let lowered = broker.queue("lowered").max_queued(2).open();
    assert_eq!(queue.backlog().unwrap().waiting, 5);
    match lowered {
        Ok(_) => assert_eq!(queue.queue("f", "5").unwrap_err().kind(), ErrorKind::Full),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("2.10.6"), "{error}");
        }
    }
    for higher in [6, 0] {
        let _ = broker.queue("lowered").max_queued(higher).open().unwrap();
        let _ = queue.queue("f", "more").unwrap();
    }
    assert_eq!(queue.backlog().unwrap().waiting, 7);
}

/// A broker before 2.9.1 does not know a word without which items of a key replace each other.
/// Here one stands in for it that answers as if it had not heard it.
#[test]
fn a_broker_that_ignores_what_it_is_told_is_refused() {
    let maps = r#"mappings: { "$JS.API.STREAM.CREATE.*": "stands.in.$1" }"#;
    let server = broker_or_skip!(Server::configured("", maps));
    let broker = server.connect();
    let other = Outsider::new(&server);
    let asked = other.listen("stands.in.*");
    let opening = thread::spawn(move || broker.queue("ignored").open().map(drop));
    let (asked, reply) = other.hear_question(asked);
    let mut config: serde_json::Value = serde_json::from_str(&asked).unwrap();
    assert!(config.as_object_mut().unwrap().remove("discard_new_per_subject").is_some());
    other.say(&reply, &json!({ "config": config }).to_string());
    let error = opening.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("ignores 'discard_new_per_subject'"), "{error}");
}

/// A stream may have been made by one.
#[test]
fn what_a_broker_has_ignored_it_is_told_again() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "told");
    server.configure("cmwq-run_told", "discard_new_per_subject", json!(false));
    let _ = broker.queue("told").open().unwrap();
    assert!(!queue.queue_once("f", "k", "1").unwrap().was_pending());
    assert!(queue.queue_once("f", "k", "2").unwrap().was_pending());
}

/// Whoever makes the queue, and whoever comes second, what one of them says holds.
#[test]
fn two_who_open_a_new_queue_at_once_lose_no_setting() {
    const MANY: usize = 50;
    let server = broker_or_skip!();
    let brokers = [server.connect(), server.connect()];
    let barrier = Barrier::new(2);
    let open = |which: usize, says: fn(QueueBuilder) -> QueueBuilder| {
        let open = |i| {
            let builder = says(brokers[which].queue(&format!("new-{i}")));
            barrier.wait();
            builder.open().err().map(|error| error.to_string())
        };
        (0..MANY).filter_map(open).collect::<Vec<_>>()
    };
    let errors = thread::scope(|scope| {
        let first = scope.spawn(|| open(0, |builder| builder.ordered().max_queued(2)));
        // Not every broker can be told a lower limit, if this one is the first.
        let second = open(1, |builder| builder.dead_after(Duration::from_secs(7)).max_queued(2));
        [first.join().unwrap(), second].concat()
    });
    assert!(errors.is_empty(), "{} of {MANY}: {errors:?}", errors.len());
    let told = consumers(&server, (0..MANY).map(|i| format!("new-{i}")));
    let wrong: Vec<_> = told.iter().filter(|told| **told != (1, 7_000_000_000)).collect();
    assert!(wrong.is_empty(), "{} of {MANY}: {wrong:?}", wrong.len());
    for i in 0..MANY {
        let queue = queue(&brokers[0], &format!("new-{i}"));
        let _ = (queue.queue("f", "").unwrap(), queue.queue("f", "").unwrap());
        assert_eq!(queue.queue("f", "").unwrap_err().kind(), ErrorKind::Full);
    }
}

/// Who has died while he changed something is not waited for longer than he may take.
#[test]
fn settings_can_be_changed_after_somebody_died_as_he_changed_some() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "locked");
    lock(&server, "locked");
    assert_eq!(queue.backlog().unwrap().delayed, 1);
    let _ = broker.queue("locked").ordered().open().unwrap();
    assert_eq!(consumers(&server, ["locked".to_owned()].into_iter())[0].0, 1);
    assert_eq!(queue.backlog().unwrap().delayed, 0);
}

/// Machines find what he has left, and take it for no item.
#[test]
fn what_somebody_left_who_died_as_he_changed_settings_goes() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "left-locked");
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    lock(&server, "left-locked");
    assert_eq!(queue.backlog().unwrap().delayed, 1);
    eventually("it is gone", || queue.backlog().unwrap().delayed == 0);
    queue.flush().unwrap();
    assert_eq!((seen.rest(), queue.backlog().unwrap().dead), (vec![], 0));
}

/// As somebody who changes settings of a queue, and has not ended.
fn lock(server: &Server, queue: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(server.address()).await.unwrap();
        let subject = format!("cmwq.later.{queue}.settings.lock");
        client.request(subject, "".into()).await.unwrap();
    });
}

/// What the broker has for `max_active` and `dead_after` of queues.
fn consumers(server: &Server, queues: impl Iterator<Item = String>) -> Vec<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(server.address()).await.unwrap();
        let mut told = Vec::new();
        for queue in queues {
            let path = format!("$JS.API.CONSUMER.INFO.cmwq-run_{queue}.machines");
            let answer = client.request(path, "".into()).await.unwrap();
            let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
            let of = |name| answer["config"][name].as_u64().unwrap_or(0);
            told.push((of("max_ack_pending"), of("ack_wait")));
        }
        told
    })
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

/// The broker reckons with it, in nanoseconds.
#[test]
fn machines_may_be_taken_for_dead_never() {
    for silence in [Duration::MAX, Duration::from_nanos(u64::MAX)] {
        let server = broker_or_skip!();
        let broker = server.connect();
        let queue = broker.queue("never").dead_after(silence).open().unwrap();
        let (note, seen) = runs();
        let gate = Gate::default();
        let _serving = holding(queue.serve(), note, &gate).start().unwrap();
        let _ = queue.queue("f", "held").unwrap();
        assert_eq!(seen.next(), "held");
        let (begun, before) = (Instant::now(), server.cpu_ticks());
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(50));
        }
        // 100 ticks a second.
        let (used, took) = (server.cpu_ticks() - before, begun.elapsed().as_millis() / 10);
        assert!(u128::from(used) < took / 2, "{used} of {took} ticks");
        assert!(consumers(&server, ["never".to_owned()].into_iter())[0].1 < u64::MAX / 4);
        gate.open();
    }
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
