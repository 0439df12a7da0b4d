//! The end of a connection whose client may still be sending.
//!
//! Who is refused before his picture is read may go on sending before he looks for an answer. Where
//! a connection is closed with something unread the kernel resets it, and then the client may lose
//! the answer. So, after the answer, what still comes is read and dropped, within limits.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::body::MAX_BODY_BYTES;

/// Whether the last request of a connection had a body that was not read to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread(Arc<AtomicBool>);

/// A request's body, which notes that when it is dropped.
#[derive(Debug)]
pub(crate) struct Noted {
    body: Incoming,
    is_at_end: bool,
    unread: Unread,
}

impl Noted {
    pub(crate) fn new(body: Incoming, unread: Unread) -> Self {
        Self { is_at_end: body.is_end_stream(), body, unread }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.unread.0.store(!self.is_at_end, Ordering::Relaxed);
    }
}

impl HttpBody for Noted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.is_at_end = frame.is_none() || self.body.is_end_stream();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that, when it is shut down, first says so to the other side, and then reads and drops
/// what still comes: until the other side has ended, too, for so long, and as much as a body.
#[derive(Debug)]
pub(crate) struct Linger<S> {
    stream: S,
    unread: Unread,
    limit: Duration,
    /// Since it was shut down.
    until: Option<Pin<Box<Sleep>>>,
    dropped: usize,
}

impl<S> Linger<S> {
    /// Lingers only where `unread` tells that something may come.
    pub(crate) fn new(stream: S, unread: Unread, limit: Duration) -> Self {
        Self { stream, unread, limit, until: None, dropped: 0 }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Linger<S> {
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let until = match &mut this.until {
            Some(until) => until,
            None => {
                ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
                if !this.unread.0.load(Ordering::Relaxed) {
                    return Poll::Ready(Ok(()));
                }
                this.until.insert(Box::pin(tokio::time::sleep(this.limit)))
            }
        };
        let mut buffer = [0; 8 << 10];
        while this.dropped < MAX_BODY_BYTES && until.as_mut().poll(context).is_pending() {
            let mut part = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut part))?;
            if part.filled().is_empty() {
                break;
            }
            this.dropped += part.filled().len();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Linger<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(120);

    /// Two ends, one of which lingers so long where a body was left unread.
    fn ends(unread: bool, limit: Duration) -> (Linger<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(4096);
        (Linger::new(server, Unread(Arc::new(AtomicBool::new(unread))), limit), client)
    }

    #[tokio::test]
    async fn what_still_comes_is_dropped_until_the_client_ends() {
        let (mut server, mut client) = ends(true, LONG);
        let client = async move {
            let mut answer = Vec::new();
            client.write_all(&[0; 10_000]).await.unwrap();
            client.read_to_end(&mut answer).await.unwrap();
            answer
        };
        let server = async {
            server.write_all(b"no").await.unwrap();
            server.shutdown().await.unwrap();
            server.dropped
        };
        assert_eq!(tokio::join!(server, client), (10_000, b"no".to_vec()));
    }

    #[tokio::test]
    async fn who_sends_without_an_end_is_left() {
        let (mut server, mut client) = ends(true, LONG);
        let sends = async move { while client.write_all(&[0; 4096]).await.is_ok() {} };
        let sends = tokio::spawn(sends);
        server.shutdown().await.unwrap();
        assert!((MAX_BODY_BYTES..MAX_BODY_BYTES + 8192).contains(&server.dropped));
        drop(server);
        sends.await.unwrap();
    }

    #[tokio::test]
    async fn who_sends_nothing_is_left_in_time() {
        let (mut server, _client) = ends(true, SHORT);
        let start = Instant::now();
        server.shutdown().await.unwrap();
        assert!(start.elapsed() >= SHORT);
    }

    #[tokio::test]
    async fn nobody_lingers_for_one_who_has_sent_all() {
        let (mut server, _client) = ends(false, Duration::MAX);
        server.shutdown().await.unwrap();
        assert!(server.until.is_none());
    }
}
