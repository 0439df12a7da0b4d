//! Calls of the database that take long hold up nobody else.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use thumbs::pool::{Kind, Pool};
use thumbs::store::{Slow, Sqlite};

use crate::support::{Waiting, picture, serve};

/// More calls are in the store at once than there are CPUs: each waits for all of them.
#[tokio::test]
async fn whoever_waits_for_the_disk_makes_room() {
    let calls = 4 * std::thread::available_parallelism().unwrap().get().min(8);
    let store = Waiting::new(calls);
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), store.clone()).await;
    let clients: Vec<_> = (0..calls as u64)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.post(picture(number)).await.0 })
        })
        .collect();
    for client in clients {
        assert_eq!(client.await.unwrap(), StatusCode::CREATED);
    }
    assert_eq!(store.calls(), calls);
}

#[tokio::test]
async fn a_slow_disk_is_only_slow() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Sqlite::open(&folder.path().join("thumbs.db")).unwrap());
    let slow = Slow::new(store, Duration::from_millis(50));
    let client = serve(Pool::new(Kind::Cmwq, 64).unwrap(), Arc::new(slow)).await;
    let clients: Vec<_> = (0..40)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let path = client.store(picture(number)).await;
                assert_eq!(client.get(&path).await.1, picture(number));
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
}
