//! Connections: they are taken until the program is to end, and then finished.
//!
//! What `axum::serve` does, with a limit for clients that send half of a request's head.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    router: Router,
    connections: Builder,
    open: GracefulShutdown,
}

impl Server {
    /// Answers there, by the router, whoever sends the head of a request in that time.
    #[must_use]
    pub fn new(listener: TcpListener, router: Router, head_timeout: Duration) -> Self {
        let mut connections = Builder::new();
        connections.timer(TokioTimer::new()).header_read_timeout(head_timeout);
        Self { listener, router, connections, open: GracefulShutdown::new() }
    }

    /// Takes connections, for as long as this future is polled. Each has a task.
    pub async fn run(&mut self) -> Infallible {
        loop {
            let (stream, _) = Listener::accept(&mut self.listener).await;
            let service = TowerToHyperService::new(self.router.clone());
            let builder = self.connections.clone();
            let watcher = self.open.watcher();
            tokio::spawn(async move {
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                // That a client went away, or was too slow, is its affair.
                let _ = watcher.watch(connection).await;
            });
        }
    }

    /// Takes no more connections, and waits until the requests that have begun are answered. A
    /// client may take its time; see [`Limits`](crate::limits::Limits).
    pub async fn finish(self) {
        let Self { listener, open, .. } = self;
        drop(listener);
        open.shutdown().await;
    }
}
