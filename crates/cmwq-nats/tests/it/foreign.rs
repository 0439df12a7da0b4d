//! What other programs publish that no machine would.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use cmwq_nats::ErrorKind;

use crate::support::{Server, broker_or_skip, eventually, noting, queue, runs};

/// A request to which the broker has no message is answered by headers with a status. Any program
/// may store such headers with a message.
#[test]
fn a_message_that_looks_like_a_word_of_the_broker_is_run() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "status");
    let (note, seen) = runs();
    let _serving = noting(queue.serve(), note).start().unwrap();
    publish(&server, "cmwq.run.status.f.u-408", "NATS/1.0 408 Request Timeout\r\n\r\n", "408");
    publish(&server, "cmwq.run.status.f.u-503", "NATS/1.0 503\r\n\r\n", "503");
    let mut ran = [seen.next(), seen.next()];
    ran.sort();
    assert_eq!(ran, ["408", "503"]);
    queue.flush().unwrap();
}

/// The client panics as it reads such a header. That ends it, and what it says of the connection
/// stays as it was.
#[test]
fn a_machine_whose_client_has_ended_says_so_and_rests() {
    let server = broker_or_skip!();
    let broker = server.connect();
    let queue = queue(&broker, "ended");
    let serving = queue.serve().function("f", |_| Ok(())).start().unwrap();
    assert!(serving.is_serving() && serving.trouble().is_none(), "{:?}", serving.trouble());
    publish(&server, "cmwq.run.ended.f.u-1", "NATS/1.0\r\nA: b\rc\r\n\r\n", "");
    eventually("the client ends", || !serving.is_serving());
    let trouble = serving.trouble().unwrap();
    assert_eq!(trouble.kind(), ErrorKind::Unreachable, "{trouble}");
    assert!(trouble.to_string().contains("carriage return"), "{trouble}");
    // The request that waits comes to nothing. Then one puller after the other goes through the
    // worklist, each after a rest.
    let started = || serving.workqueue().stats().started;
    let waits = started();
    eventually("the next one comes", || started() > waits + 1);
    let (begun, first) = (Instant::now(), started());
    eventually("others come", || started() >= first + 4);
    assert!(begun.elapsed() >= Duration::from_millis(3 * 200), "{:?}", begun.elapsed());
    // Nor is anybody else kept waiting.
    let error = queue.queue("f", "").unwrap_err();
    assert!(error.to_string().contains("nothing was sent: the NATS client has ended"), "{error}");
    serving.close();
}

/// Publishes with headers as they are: the client would not write them.
fn publish(server: &Server, subject: &str, headers: &str, payload: &str) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let (of_headers, all) = (headers.len(), headers.len() + payload.len());
    let told = format!(
        "CONNECT {{\"verbose\":false,\"headers\":true}}\r\n\
         HPUB {subject} {of_headers} {all}\r\n{headers}{payload}\r\nPING\r\n"
    );
    stream.write_all(told.as_bytes()).unwrap();
    // The broker has taken what it was told before.
    let mut answers = BufReader::new(stream).lines().map(Result::unwrap);
    let last = answers.find(|line| line.starts_with("PONG") || line.starts_with("-ERR"));
    assert_eq!(last.as_deref(), Some("PONG"));
}
