//! The body of a request, taken into memory.

use axum::BoxError;
use axum::body::{Body, HttpBody as _};
use http_body_util::{BodyExt as _, Limited};

/// The largest body, in bytes.
pub(crate) const MAX_BODY_BYTES: usize = 20 << 20;

/// Reads it to its end. The error of one that is too large is a `LengthLimitError`.
///
/// It is copied frame by frame. A frame is a part of the buffer that it was read into, 8 KiB or
/// more, and keeps all of it: of a client that sends byte by byte, 20 MiB of frames would keep
/// gigabytes.
pub(crate) async fn read(body: Body) -> Result<Vec<u8>, BoxError> {
    let told = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
    // If the length is not told, the most: the kernel gives no memory before it is written to.
    let mut bytes = Vec::with_capacity(told.unwrap_or(MAX_BODY_BYTES).min(MAX_BODY_BYTES));
    let mut body = Limited::new(body, MAX_BODY_BYTES);
    while let Some(frame) = body.frame().await {
        // Others are trailers.
        if let Some(data) = frame?.data_ref() {
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use axum::body::{Bytes, HttpBody};
    use http_body_util::LengthLimitError;
    use hyper::body::Frame;

    use super::*;

    /// How many frames are kept, and how many were at once, at most.
    #[derive(Debug, Default)]
    struct Kept {
        now: AtomicUsize,
        most: AtomicUsize,
    }

    /// What a frame keeps.
    struct Buffer {
        bytes: Vec<u8>,
        kept: Arc<Kept>,
    }

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            self.kept.now.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A body that comes in frames of that length, and does not tell its own.
    struct Frames {
        length: usize,
        bytes: Vec<u8>,
        kept: Arc<Kept>,
    }

    impl HttpBody for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.bytes.is_empty() {
                return Poll::Ready(None);
            }
            let length = self.length.min(self.bytes.len());
            let bytes = self.bytes.drain(..length).collect();
            let now = 1 + self.kept.now.fetch_add(1, Ordering::Relaxed);
            self.kept.most.fetch_max(now, Ordering::Relaxed);
            let buffer = Buffer { bytes, kept: Arc::clone(&self.kept) };
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(buffer)))))
        }
    }

    /// What is kept is what was sent, however it came.
    #[tokio::test]
    async fn no_frame_is_kept() {
        let sent: Vec<u8> = (0..5000_u32).map(|number| number as u8).collect();
        for length in [1, 7, 5000] {
            let kept = Arc::new(Kept::default());
            let frames = Frames { length, bytes: sent.clone(), kept: Arc::clone(&kept) };
            assert_eq!(read(Body::new(frames)).await.unwrap(), sent);
            assert_eq!(kept.most.load(Ordering::Relaxed), 1, "frames of {length} bytes");
        }
    }

    #[tokio::test]
    async fn one_that_is_too_large_is_not_kept() {
        for (length, is_taken) in [(MAX_BODY_BYTES, true), (MAX_BODY_BYTES + 1, false)] {
            let kept = Arc::new(Kept::default());
            let frames = Frames { length: 1 << 20, bytes: vec![1; length], kept };
            match read(Body::new(frames)).await {
                Ok(bytes) => assert!(is_taken && bytes.len() == length),
                Err(error) => assert!(!is_taken && error.is::<LengthLimitError>(), "{error}"),
            }
        }
    }
}
