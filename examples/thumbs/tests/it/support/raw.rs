//! A client that sends what it likes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::PATIENCE;

/// A connection on which requests are written by hand.
pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) async fn connect(address: &str) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Sends what comes before a picture of so many bytes.
    pub(crate) async fn send_head(&mut self, length: usize) {
        self.send_head_with(length, "").await;
    }

    async fn send_head_with(&mut self, length: usize, more: &str) {
        let head =
            format!("POST /pictures HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{more}\r\n");
        self.send(head.as_bytes()).await;
    }

    /// Sends it, and waits until the body is asked for.
    pub(crate) async fn has_leave_to_send(&mut self, length: usize) {
        self.send_head_with(length, "expect: 100-continue\r\n").await;
        let answer = self.until("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
    }

    /// All that comes until the other side ends the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await;
        read.expect("the connection was not ended").unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What has come when `end` has.
    pub(crate) async fn until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.contains(end) {
            let mut part = [0; 1024];
            let read = tokio::time::timeout(PATIENCE, self.0.read(&mut part)).await;
            let length = read.expect("no answer came").unwrap();
            assert_ne!(length, 0, "the connection was ended after {text}");
            text += &String::from_utf8_lossy(&part[..length]);
        }
        text
    }
}
