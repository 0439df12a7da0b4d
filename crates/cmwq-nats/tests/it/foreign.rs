//! What other programs publish that no machine would.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::support::{Server, broker_or_skip, noting, queue, runs};

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
    queue.flush().unwrap();
    let mut ran = seen.rest();
    ran.sort();
    assert_eq!(ran, ["408", "503"]);
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
