//! More than can be done.

use axum::http::StatusCode;
use thumbs::pool::{Kind, Pool};

use crate::support::{Waiting, eventually, picture, serve};

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
