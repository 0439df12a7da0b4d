//! A client that does not wait for its answer.

use std::time::Duration;

use axum::http::StatusCode;
use cmwq::Workqueue;
use cmwq_tokio::Spawner;
use thumbs::pool::Pool;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{Waiting, eventually, picture, serve};

#[tokio::test]
async fn its_item_is_taken_off_the_queue() {
    let queue = Workqueue::builder("one by one").ordered().max_queued(8).build().unwrap();
    let store = Waiting::new(usize::MAX);
    let client = serve(Pool::Cmwq(Spawner::new(queue.clone())), store.clone()).await;
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.post(picture(1)).await.0 }
    });
    eventually("the first one is in the store", || store.calls() == 1).await;
    let mut impatient = TcpStream::connect(&client.address).await.unwrap();
    let body = picture(2);
    let head =
        format!("POST /pictures HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    impatient.write_all(head.as_bytes()).await.unwrap();
    impatient.write_all(&body).await.unwrap();
    eventually("the second one waits", || queue.stats().queued == 1).await;
    let third = tokio::spawn({
        let client = client.clone();
        async move { client.post(picture(3)).await.0 }
    });
    eventually("the third one waits", || queue.stats().queued == 2).await;
    drop(impatient);
    eventually("the second one is taken back", || queue.stats().cancelled == 1).await;
    assert_eq!(queue.stats().queued, 1);
    store.open();
    for answer in [first, third] {
        let status = tokio::time::timeout(Duration::from_secs(60), answer).await;
        assert_eq!(status.unwrap().unwrap(), StatusCode::CREATED);
    }
    assert_eq!(store.calls(), 2, "nothing was done for nobody");
}
