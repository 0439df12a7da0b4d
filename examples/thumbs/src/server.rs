//! Connections: they are taken until the program is to end, and then finished.
//!
//! What `axum::serve` does, with limits: for clients that send half of a request's head, or take
//! nothing of their answers, and for how many there are. And those that are refused while they send
//! can read why.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutWriter;

use crate::limits::Limits;
use crate::linger::{Linger, Noted, Unread};

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    router: Router,
    connections: Builder,
    open: GracefulShutdown,
    /// For connections.
    places: Arc<Semaphore>,
    /// For a head, and for what is left of a body that was refused.
    head_timeout: Duration,
    answer_timeout: Duration,
}

impl Server {
    /// Answers there, by the router, whoever keeps to these limits.
    #[must_use]
    pub fn new(listener: TcpListener, router: Router, limits: &Limits) -> Self {
        let mut connections = Builder::new();
        connections.timer(TokioTimer::new()).header_read_timeout(limits.head_timeout);
        let places = Arc::new(Semaphore::new(limits.connections as usize));
        let open = GracefulShutdown::new();
        let Limits { head_timeout, answer_timeout, .. } = *limits;
        Self { listener, router, connections, open, places, head_timeout, answer_timeout }
    }

    /// Takes connections, for as long as this future is polled. Each has a task.
    pub async fn run(&mut self) -> Infallible {
        loop {
            // First a place: who waits for one waits in the kernel, and has no memory of ours.
            let place = Arc::clone(&self.places).acquire_owned().await;
            let place = place.expect("it is never closed");
            let (stream, _) = Listener::accept(&mut self.listener).await;
            // The end of an answer does not wait until its beginning is acknowledged. It is no
            // matter if the other side has gone already.
            let _ = stream.set_nodelay(true);
            let unread = Unread::default();
            let stream = Linger::new(stream, unread.clone(), self.head_timeout);
            let mut stream = TimeoutWriter::new(stream);
            stream.set_timeout(Some(self.answer_timeout));
            let router = TowerToHyperService::new(self.router.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                router.call(request.map(|body| Noted::new(body, unread.clone())))
            });
            let builder = self.connections.clone();
            let watcher = self.open.watcher();
            tokio::spawn(async move {
                let stream = TokioIo::new(Box::pin(stream));
                let connection = builder.serve_connection(stream, service);
                // That a client went away, or was too slow, is its affair.
                let _ = watcher.watch(connection).await;
                drop(place);
            });
        }
    }

    /// Takes no more connections, and waits until the requests that have begun are answered. A
    /// client may take its time; see [`Limits`].
    pub async fn finish(self) {
        let Self { listener, open, .. } = self;
        drop(listener);
        open.shutdown().await;
    }
}
