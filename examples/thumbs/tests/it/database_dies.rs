//! PostgreSQL, killed or stopped while it is used. Without PostgreSQL here, that is said, and not
//! tested.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::Bytes;
use thumbs::pool::{Kind, Pool};
use thumbs::store::{Name, Postgresql, Store as _, Stored};
use tokio::task::spawn_blocking;

use crate::support::{Client, PATIENCE, Postgres, Raw, picture, serve};

#[tokio::test]
async fn a_database_that_is_killed_comes_back_with_what_was_stored() {
    let Some(mut server) = Postgres::create() else { return };
    let store = Postgresql::new(&server.address(), PATIENCE).unwrap();
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), Arc::new(store)).await;
    let (status, body) = client.post(picture(1)).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "it does not run yet");
    assert_eq!(body, "the database cannot do that now\n", "and nothing of where it is");
    let mut by_hand = Raw::connect(&client.address).await;
    by_hand.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = by_hand.until("\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    server.start().await;
    let path = client.store(picture(2)).await;
    assert_eq!(client.get(&path).await.1, picture(2));
    for _ in 0..2 {
        // Killed under load: every request is answered, with the picture stored or not.
        let asking: Vec<_> = (0..20)
            .map(|number| {
                let client = client.clone();
                tokio::spawn(async move { (number, client.post(picture(number)).await.0) })
            })
            .collect();
        server.kill();
        let mut stored = Vec::new();
        for answer in asking {
            match answer.await.unwrap() {
                (number, StatusCode::CREATED) => stored.push(number),
                (_, other) => assert_eq!(other, StatusCode::SERVICE_UNAVAILABLE),
            }
        }
        eventually(&client, &path, StatusCode::SERVICE_UNAVAILABLE).await;
        assert_eq!(client.get("/queues").await.0, StatusCode::OK, "the rest goes on");
        let (status, said) = client.get("/health").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{said:?}");
        server.start().await;
        assert_eq!(client.get(&path).await.1, picture(2));
        for number in stored {
            let name = thumbs::store::Name::of(&picture(number));
            let there = client.get(&format!("/pictures/{}", name.as_str())).await;
            assert_eq!(there.0, StatusCode::OK, "picture {number} was said to be stored");
        }
    }
}

/// Asks until that is the answer: processes of a server that was killed may still answer for a
/// moment, and one that is busy may take longer than it is given. The body.
async fn eventually(client: &Client, path: &str, status: StatusCode) -> Bytes {
    let start = Instant::now();
    loop {
        let (answered, body) = client.get(path).await;
        if answered == status {
            return body;
        }
        assert!(start.elapsed() < PATIENCE, "{path} is answered with {answered}: {body:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A server, a service that waits for it so long, and what was stored there.
async fn with_a_picture(limit: Duration) -> Option<(Postgres, Client, String)> {
    let mut server = Postgres::create()?;
    server.start().await;
    let store = Postgresql::new(&server.address(), limit).unwrap();
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), Arc::new(store)).await;
    let start = Instant::now();
    while client.post(picture(1)).await.0 != StatusCode::CREATED {
        assert!(start.elapsed() < PATIENCE, "nothing can be stored");
    }
    let path = format!("/pictures/{}", Name::of(&picture(1)).as_str());
    Some((server, client, path))
}

/// Nothing is closed, and nothing comes: as if its disk hung.
#[tokio::test]
async fn a_database_that_stands_still_is_one_that_does_not_answer() {
    let Some((server, client, path)) = with_a_picture(Duration::from_secs(1)).await else { return };
    eventually(&client, "/health", StatusCode::OK).await;
    server.signal_all("STOP");
    // More than may be in execution: nobody keeps a place. Connections that were made before are
    // used, and new ones.
    let asking: Vec<_> = (0..40)
        .map(|_| {
            let (client, path) = (client.clone(), path.clone());
            tokio::spawn(async move { client.get(&path).await })
        })
        .collect();
    for answer in asking {
        let (status, said) = answer.await.unwrap();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(said, "the database cannot do that now\n");
    }
    assert_eq!(client.get("/health").await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(client.get("/queues").await.0, StatusCode::OK, "the rest goes on");
    server.signal_all("CONT");
    eventually(&client, "/health", StatusCode::OK).await;
    assert_eq!(eventually(&client, &path, StatusCode::OK).await, picture(1));
}

/// A statement that waits for a lock ends in the server, too.
#[tokio::test]
async fn the_server_does_not_go_on_for_nobody() {
    let Some((server, client, path)) = with_a_picture(Duration::from_secs(1)).await else { return };
    let other = server.connect().await.unwrap();
    other.batch_execute("BEGIN; LOCK TABLE pictures").await.unwrap();
    assert_eq!(client.get(&path).await.0, StatusCode::SERVICE_UNAVAILABLE);
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let start = Instant::now();
    while other.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        assert!(start.elapsed() < PATIENCE, "it waits for ever");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(eventually(&client, &path, StatusCode::OK).await, picture(1));
}

/// Each connection makes the table if there is none.
#[tokio::test]
async fn the_first_requests_may_come_together() {
    let Some(mut server) = Postgres::create() else { return };
    server.start().await;
    let admin = server.connect().await.unwrap();
    for _ in 0..10 {
        admin.batch_execute("DROP TABLE IF EXISTS pictures").await.unwrap();
        let store = Arc::new(Postgresql::new(&server.address(), PATIENCE).unwrap());
        let calls: Vec<_> = (0..16)
            .map(|number: u8| {
                let store = Arc::clone(&store);
                let stored = Stored { original: vec![number], thumbnail: Vec::new() };
                spawn_blocking(move || store.put(&Name::of(&stored.original), &stored))
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
    }
}

/// Since PostgreSQL 15 only its owner makes tables in the usual schema.
#[tokio::test]
async fn who_may_make_no_table_uses_the_one_that_is_there() {
    let Some((server, _, path)) = with_a_picture(PATIENCE).await else { return };
    let admin = server.connect().await.unwrap();
    let grant = "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE guest LOGIN; \
                 GRANT SELECT, INSERT ON pictures TO guest";
    admin.batch_execute(grant).await.unwrap();
    let address = server.address().replace("user=thumbs", "user=guest");
    let store = Postgresql::new(&address, PATIENCE).unwrap();
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), Arc::new(store)).await;
    assert_eq!(client.get(&path).await, (StatusCode::OK, picture(1).into()));
    assert_eq!(client.post(picture(2)).await.0, StatusCode::CREATED);
}
