//! Clients that do not send what they began, or do not take what they asked for.

use std::time::Duration;

use axum::http::StatusCode;
use thumbs::limits::Limits;
use thumbs::pool::{Kind, Pool};

use crate::support::{LIMITS, Raw, Waiting, picture, serve_file_within, serve_within};

const SHORT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn who_does_not_send_what_he_may_frees_his_place() {
    let pool = Pool::new(Kind::Cmwq, 1).unwrap();
    let limits = Limits { body_timeout: SHORT, bodies: 1, ..LIMITS };
    let client = serve_within(&limits, pool, Waiting::new(0)).await;
    let body = picture(1);
    let mut slow = Raw::connect(&client.address).await;
    slow.has_leave_to_send(body.len()).await;
    let answer = slow.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(client.post(body).await.0, StatusCode::CREATED, "there is a place again");
}

/// Pictures on their way take no place from those who want what is there.
#[tokio::test]
async fn a_body_that_does_not_come_keeps_nobody_from_the_queue() {
    let limits = Limits { bodies: 2, ..LIMITS };
    let (client, _folder) = serve_file_within(&limits, 1).await;
    let path = client.store(picture(1)).await;
    let mut slow = Raw::connect(&client.address).await;
    slow.has_leave_to_send(1000).await;
    assert_eq!(client.get(&path).await.0, StatusCode::OK);
    assert_eq!(client.get(&format!("{path}/thumbnail")).await.0, StatusCode::OK);
    assert_eq!(client.post(picture(2)).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn half_a_head_does_not_keep_a_connection() {
    let pool = Pool::new(Kind::Cmwq, 1).unwrap();
    let limits = Limits { head_timeout: SHORT, ..LIMITS };
    let client = serve_within(&limits, pool, Waiting::new(0)).await;
    let mut slow = Raw::connect(&client.address).await;
    slow.send(b"GET /health HTTP/1.1\r\nhost").await;
    let answer = slow.rest().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

/// The answer lies in memory, so who does not take it may not keep it, and there are only so many.
#[tokio::test]
async fn an_answer_that_is_not_taken_is_dropped() {
    // One that stores, one that does not read, and none for anybody else.
    let limits = Limits { answer_timeout: SHORT, connections: 2, ..LIMITS };
    let (client, _folder) = serve_file_within(&limits, 1).await;
    let mut original = picture(1);
    // More than the kernel keeps for a connection.
    original.resize(18 << 20, 0);
    let path = client.store(original.clone()).await;
    let mut reads_nothing = Raw::connect(&client.address).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    reads_nothing.send(request.as_bytes()).await;
    let mut waits = Raw::connect(&client.address).await;
    waits.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = waits.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let taken = reads_nothing.rest().await.len();
    assert!(taken < original.len(), "all of it came");
}
