//! How the program ends.

use crate::support::{Program, Raw, eventually, picture};

/// The program, with a request half of whose body has come; the other half.
async fn with_half_a_request(arguments: &[&str]) -> (Program, Raw, Vec<u8>) {
    let program = Program::start(arguments);
    let mut body = picture(1);
    let mut client = Raw::connect(&program.client.address).await;
    client.has_leave_to_send(body.len()).await;
    let rest = body.split_off(body.len() / 2);
    client.send(&body).await;
    (program, client, rest)
}

#[tokio::test]
async fn what_was_taken_is_finished() {
    for signal in ["INT", "TERM"] {
        let (program, mut client, rest) = with_half_a_request(&[]).await;
        program.signal(signal);
        program.takes_no_connections().await;
        client.send(&rest).await;
        let answer = client.rest().await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        let (status, said) = program.ended().await;
        assert!(status.success(), "{status:?}: {said}");
    }
}

/// Not the same one: that might come so soon that it is taken for the first.
#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (program, _client, _) = with_half_a_request(&[]).await;
    program.signal("INT");
    program.takes_no_connections().await;
    program.signal("TERM");
    let (status, said) = program.ended().await;
    assert_eq!(status.code(), Some(143), "{status:?}: {said}");
}

#[tokio::test]
async fn it_ends_in_time_whatever_clients_do() {
    let (program, _client, _) = with_half_a_request(&["--shutdown-timeout", "300ms"]).await;
    program.signal("TERM");
    let (status, said) = program.ended().await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("--shutdown-timeout"), "{said}");
}

/// In a thread of the runtime's, as also the name of a database's host is looked up.
#[tokio::test]
async fn it_does_not_wait_for_a_call_that_nobody_awaits() {
    let program = Program::start(&["--pool", "blocking:1", "--slow-disk-ms", "600000"]);
    let before = program.threads();
    let mut client = Raw::connect(&program.client.address).await;
    client.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    eventually("the call has a thread", || program.threads() > before).await;
    drop(client);
    program.signal("TERM");
    let (status, said) = program.ended().await;
    assert!(status.success(), "{status:?}: {said}");
}
