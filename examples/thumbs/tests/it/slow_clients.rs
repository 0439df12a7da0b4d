//! Clients that do not send what they began.

use std::time::Duration;

use axum::http::StatusCode;
use thumbs::pool::{Kind, Pool};

use crate::support::{PATIENCE, Raw, Waiting, picture, serve_for};

const SHORT: Duration = Duration::from_millis(500);

#[tokio::test]
async fn a_body_that_does_not_come_frees_its_place() {
    let pool = Pool::new(Kind::Cmwq, 1).unwrap();
    let client = serve_for(pool, Waiting::new(0), PATIENCE, SHORT).await;
    let body = picture(1);
    let mut slow = Raw::connect(&client.address).await;
    slow.has_a_place_for(body.len()).await;
    let answer = slow.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(client.post(body).await.0, StatusCode::CREATED, "there is a place again");
}

#[tokio::test]
async fn half_a_head_does_not_keep_a_connection() {
    let pool = Pool::new(Kind::Cmwq, 1).unwrap();
    let client = serve_for(pool, Waiting::new(0), SHORT, PATIENCE).await;
    let mut slow = Raw::connect(&client.address).await;
    slow.send(b"GET /health HTTP/1.1\r\nhost").await;
    let answer = slow.rest().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
}
