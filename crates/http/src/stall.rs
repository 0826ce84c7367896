//! A connection's bytes, with an eye on a client that does not read.
//!
//! hyper limits how long a client may take to send a head, not how long it may take to accept an answer. Here the next
//! bytes must be taken in time, else the connection fails. What is seen on the way is noted for the connection's task.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How a client that wants HTTP/2 without asking begins.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// The answer to it, which a person can read.
const NOT_HTTP2: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\
    content-length: 94\r\n\r\n\
    {\"error\":{\"code\":400,\"message\":\"only HTTP/1.1 is spoken here\",\"type\":\"invalid_request_error\"}}";

/// What is known of a connection while it is served.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Requests being answered.
    pub(crate) requests: AtomicUsize,
    /// The client has not taken all of an answer.
    pub(crate) is_writing: AtomicBool,
}

impl Activity {
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.load(Relaxed) == 0 && !self.is_writing.load(Relaxed)
    }
}

/// A stream whose writes fail when they make no progress for too long.
#[derive(Debug)]
pub(crate) struct Stall<S> {
    inner: S,
    timeout: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    activity: Arc<Activity>,
    has_read: bool,
}

impl<S> Stall<S> {
    pub(crate) fn new(inner: S, timeout: Duration, activity: Arc<Activity>) -> Self {
        Self { inner, timeout, sleep: None, activity, has_read: false }
    }

    /// Passes a result on; while there is none, time runs.
    fn watch<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.sleep = None;
            self.activity.is_writing.store(false, Relaxed);
            return result;
        }
        self.activity.is_writing.store(true, Relaxed);
        let timeout = self.timeout;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stall<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        if !self.has_read {
            self.has_read = true;
            if buffer.filled()[before..].starts_with(HTTP2_PREFACE) {
                // Nothing was written yet, so there is room for this; if not, closing is answer enough.
                let _ = Pin::new(&mut self.inner).poll_write(cx, NOT_HTTP2);
                buffer.set_filled(before);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.watch(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, result)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn the_answer_to_http2_states_its_length() {
        let text = std::str::from_utf8(NOT_HTTP2).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (server, mut client) = tokio::io::duplex(8);
        let activity = Arc::new(Activity::default());
        let mut stalling = Stall::new(server, Duration::from_secs(20), Arc::clone(&activity));
        stalling.write_all(b"12345678").await.unwrap();
        assert!(activity.is_idle());
        let start = tokio::time::Instant::now();
        let error = stalling.write_all(b"9").await.unwrap_err();
        assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::TimedOut, Duration::from_secs(20)));
        assert!(!activity.is_idle());
        client.read_exact(&mut [0; 8]).await.unwrap();
        stalling.write_all(b"9").await.unwrap();
        assert!(activity.is_idle());
    }
}
