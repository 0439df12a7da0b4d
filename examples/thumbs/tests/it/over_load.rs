//! More than can be done.

use axum::http::StatusCode;
use thumbs::limits::Limits;
use thumbs::pool::{Kind, Pool};

use crate::support::{LIMITS, Raw, Waiting, eventually, picture, serve, serve_within};

const PLACES: u32 = 4;
/// Begun at once at most, see `pool`, and the places.
const TAKEN: usize = 32 + PLACES as usize;
const REQUESTS: usize = 100;

/// While the store stands still, those for whom there is no place are told at once; the others are
/// served when it goes on.
#[tokio::test]
async fn more_requests_than_places_are_refused_at_once() {
    let store = Waiting::new(usize::MAX);
    let pool = Pool::new(Kind::Cmwq, PLACES).unwrap();
    let client = serve(pool, store.clone()).await;
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..REQUESTS {
        let (client, answered) = (client.clone(), answered.clone());
        tokio::spawn(async move {
            let (status, _) = client.post(picture(number as u64)).await;
            answered.send(status).unwrap();
        });
    }
    // Nothing else can be answered now.
    for _ in 0..REQUESTS - TAKEN {
        assert_eq!(answers.recv().await.unwrap(), StatusCode::TOO_MANY_REQUESTS);
    }
    eventually("those that were taken begin", || store.calls() > 0).await;
    store.open();
    let mut served = 0;
    for _ in 0..TAKEN {
        match answers.recv().await.unwrap() {
            StatusCode::CREATED => served += 1,
            other => assert_eq!(other, StatusCode::TOO_MANY_REQUESTS),
        }
    }
    assert!(served >= PLACES as usize, "{served} were served");
    assert_eq!(store.calls(), served);
    let queue = client.queue_when(|queue| queue["completed"] == served).await;
    assert_eq!(queue["refused"], REQUESTS - served);
    assert_eq!(client.post(picture(1)).await.0, StatusCode::CREATED, "there is room again");
}

/// It is refused before any of it was sent.
#[tokio::test]
async fn a_request_is_refused_before_its_body_is_read() {
    let pool = Pool::new(Kind::Cmwq, 4).unwrap();
    let limits = Limits { bodies: 1, ..LIMITS };
    let client = serve_within(&limits, pool, Waiting::new(0)).await;
    let mut first = Raw::connect(&client.address).await;
    first.has_leave_to_send(1000).await;
    let mut second = Raw::connect(&client.address).await;
    second.send_head(1000).await;
    let answer = second.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
}

/// As browsers do it: first all that there is to send.
#[tokio::test]
async fn who_sends_before_he_reads_learns_that_he_was_refused() {
    const LONG: usize = 16 << 20;
    let pool = Pool::new(Kind::Cmwq, 4).unwrap();
    let limits = Limits { bodies: 1, ..LIMITS };
    let client = serve_within(&limits, pool, Waiting::new(0)).await;
    let mut first = Raw::connect(&client.address).await;
    first.has_leave_to_send(1000).await;
    for (told, status) in [(LONG, "HTTP/1.1 429 "), (2 * LONG, "HTTP/1.1 413 ")] {
        let mut refused = Raw::connect(&client.address).await;
        refused.send_head(told).await;
        refused.send(&vec![0; LONG]).await;
        let answer = refused.rest().await;
        assert!(answer.starts_with(status), "{answer}");
    }
}

#[tokio::test]
async fn no_more_are_in_execution_than_may_be() {
    const REQUESTS: usize = 40;
    let store = Waiting::new(usize::MAX);
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), store.clone()).await;
    let asking: Vec<_> = (0..REQUESTS as u64)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.post(picture(number)).await.0 })
        })
        .collect();
    let most = TAKEN - PLACES as usize;
    eventually("as many are in the store as may be", || store.calls() == most).await;
    client.queue_when(|queue| queue["waiting"] == REQUESTS - most).await;
    store.open();
    for answer in asking {
        assert_eq!(answer.await.unwrap(), StatusCode::CREATED);
    }
    assert_eq!(store.most_at_once(), most);
}
