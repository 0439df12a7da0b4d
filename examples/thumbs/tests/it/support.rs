//! A service on a port of its own, its clients, and stores that can be held up.

mod postgresql;
mod program;
mod raw;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tempfile::TempDir;
use thumbs::limits::Limits;
use thumbs::picture;
use thumbs::pool::{Kind, Pool};
use thumbs::server::Server;
use thumbs::service::Service;
use thumbs::store::{Name, Sqlite, Store, Stored, Unavailable};

pub(crate) use postgresql::Postgres;
pub(crate) use program::{Program, thumbs};
pub(crate) use raw::Raw;

/// How long anything may take before a test gives up. Only failing tests ever wait that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An answer: its status and its body.
pub(crate) type Answer = (StatusCode, Bytes);

/// A client that keeps connections.
#[derive(Clone)]
pub(crate) struct Client {
    client: HttpClient<HttpConnector, Full<Bytes>>,
    pub(crate) address: String,
}

impl Client {
    pub(crate) fn new(address: String) -> Self {
        Self { client: HttpClient::builder(TokioExecutor::new()).build_http(), address }
    }

    async fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .body(Full::new(body.into()))
            .unwrap();
        let answer = async {
            let answer = self.client.request(request).await.unwrap();
            let status = answer.status();
            (status, answer.into_body().collect().await.unwrap().to_bytes())
        };
        tokio::time::timeout(PATIENCE, answer).await.expect("no answer came")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, Vec::new()).await
    }

    pub(crate) async fn post(&self, picture: Vec<u8>) -> Answer {
        self.ask("POST", "/pictures", picture).await
    }

    /// What the queue does, when it has come to that: answers overtake the ends of their items.
    pub(crate) async fn queue_when(&self, condition: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let (_, body) = self.get("/queues").await;
            let queue = serde_json::from_slice(&body).unwrap();
            if condition(&queue) {
                return queue;
            }
            assert!(start.elapsed() < PATIENCE, "it never came to that: {queue}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stores a picture; its address.
    pub(crate) async fn store(&self, picture: Vec<u8>) -> String {
        let (status, body) = self.post(picture).await;
        assert_eq!(status, StatusCode::CREATED, "{}", String::from_utf8_lossy(&body));
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["picture"].as_str().unwrap().to_owned()
    }
}

/// For tests that are not about them.
pub(crate) const LIMITS: Limits = Limits {
    head_timeout: PATIENCE,
    body_timeout: PATIENCE,
    bodies: 1000,
    answer_timeout: PATIENCE,
    connections: 1000,
    database_timeout: PATIENCE,
    shutdown_timeout: PATIENCE,
};

/// Serves on a port of its own, for as long as the test's runtime is there.
pub(crate) async fn serve(pool: Pool, store: Arc<dyn Store>) -> Client {
    serve_within(&LIMITS, pool, store).await
}

/// The same, with other limits for clients.
pub(crate) async fn serve_within(limits: &Limits, pool: Pool, store: Arc<dyn Store>) -> Client {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = Service::new(pool, store, limits).router();
    let mut server = Server::new(listener, router, limits);
    tokio::spawn(async move { server.run().await });
    Client::new(address)
}

/// Serves from a file, on a managed queue with so many places.
pub(crate) async fn serve_file(places: u32) -> (Client, TempDir) {
    serve_file_within(&LIMITS, places).await
}

/// The same, with other limits for clients.
pub(crate) async fn serve_file_within(limits: &Limits, places: u32) -> (Client, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("thumbs.db")).unwrap();
    let pool = Pool::new(Kind::Cmwq, places).unwrap();
    (serve_within(limits, pool, Arc::new(store)).await, folder)
}

/// A small picture; another one for each seed.
pub(crate) fn picture(seed: u64) -> Vec<u8> {
    picture::synthetic(200, 100, seed).unwrap()
}

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "this never came about: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A store of nothing, in which every call waits until so many calls have come.
#[derive(Debug)]
pub(crate) struct Waiting {
    until: Mutex<usize>,
    has_come: Condvar,
    calls: AtomicUsize,
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Waiting {
    /// Every call waits until `until` have come, or [`open`](Self::open) was called.
    pub(crate) fn new(until: usize) -> Arc<Self> {
        let (until, has_come) = (Mutex::new(until), Condvar::new());
        let none = || AtomicUsize::new(0);
        Arc::new(Self { until, has_come, calls: none(), inside: none(), most: none() })
    }

    /// How many calls have come.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// How many calls there have been at once, at most.
    pub(crate) fn most_at_once(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Nobody waits any more.
    pub(crate) fn open(&self) {
        *self.until.lock().unwrap() = 0;
        self.has_come.notify_all();
    }

    fn wait(&self) {
        let until = self.until.lock().unwrap();
        self.calls.fetch_add(1, Ordering::SeqCst);
        let inside = 1 + self.inside.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.has_come.notify_all();
        let waits = |until: &mut usize| self.calls() < *until;
        let waited = self.has_come.wait_timeout_while(until, PATIENCE, waits).unwrap();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        assert!(!waited.1.timed_out(), "the others never came");
    }
}

impl Store for Waiting {
    fn put(&self, _: &Name, _: &Stored) -> Result<(), Unavailable> {
        self.wait();
        Ok(())
    }

    fn original(&self, _: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.wait();
        Ok(None)
    }

    fn thumbnail(&self, _: &Name) -> Result<Option<Vec<u8>>, Unavailable> {
        self.wait();
        Ok(None)
    }
}
