//! What is answered, on every pool, and under load.

use std::sync::Arc;

use axum::http::StatusCode;
use thumbs::pool::{Kind, Pool};
use thumbs::store::Sqlite;

use crate::support::{Raw, picture, serve, serve_file};

#[tokio::test]
async fn a_picture_is_stored_and_comes_back_in_any_size() {
    for kind in [Kind::Cmwq, Kind::Blocking(512), Kind::Semaphore(2), Kind::Rayon(2)] {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("thumbs.db")).unwrap();
        let client = serve(Pool::new(kind, 16).unwrap(), Arc::new(store)).await;
        let original = picture(1);
        let path = client.store(original.clone()).await;
        assert_eq!(client.store(original.clone()).await, path, "stored twice is stored once");
        assert_eq!(client.get(&path).await, (StatusCode::OK, original.into()));
        for (end, expected) in [("/thumbnail", (160, 80)), ("?side=50", (50, 25))] {
            let (status, bytes) = client.get(&format!("{path}{end}")).await;
            assert_eq!(status, StatusCode::OK);
            let small = image::load_from_memory(&bytes).unwrap();
            assert_eq!((small.width(), small.height()), expected, "{kind}");
        }
    }
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let (client, _folder) = serve_file(16).await;
    let (status, body) = client.post(b"text".to_vec()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.starts_with(b"this is no JPEG or PNG"));
    let absent = format!("/pictures/{}", "0".repeat(64));
    for path in [absent.as_str(), "/pictures/name", &format!("{absent}/thumbnail")] {
        assert_eq!(client.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

/// At once where the length is told, and else when it is seen.
#[tokio::test]
async fn what_is_too_large_is_not_waited_for() {
    const LARGEST: usize = 20 << 20;
    let (client, _folder) = serve_file(16).await;
    let mut tells = Raw::connect(&client.address).await;
    tells.send_head(LARGEST + 1).await;
    let mut does_not = Raw::connect(&client.address).await;
    let head = "POST /pictures HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    does_not.send(format!("{head}{:x}\r\n", LARGEST + 1).as_bytes()).await;
    does_not.send(&vec![0; LARGEST + 1]).await;
    for client in [&mut tells, &mut does_not] {
        let answer = client.until("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    }
}

#[tokio::test]
async fn many_clients_are_all_served() {
    let (client, _folder) = serve_file(1000).await;
    let clients: Vec<_> = (0..20)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                for turn in 0..5 {
                    let original = picture(number * 100 + turn);
                    let path = client.store(original.clone()).await;
                    assert_eq!(client.get(&path).await.1, original);
                    let small = client.get(&format!("{path}?side=40")).await;
                    assert_eq!(small.0, StatusCode::OK);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let queue = client.queue_when(|queue| queue["completed"] == 300).await;
    assert_eq!((&queue["waiting"], &queue["refused"]), (&0.into(), &0.into()), "{queue}");
}

#[tokio::test]
async fn the_queue_is_shown() {
    let (client, _folder) = serve_file(16).await;
    assert_eq!(client.get("/health").await.0, StatusCode::OK);
    let (status, page) = client.get("/").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.starts_with(b"<!doctype html>"));
    client.store(picture(1)).await;
    let queue = client.queue_when(|queue| queue["ran_p99_ms"].is_f64()).await;
    assert_eq!((&queue["name"], &queue["places"]), (&"pictures".into(), &16.into()));
}
