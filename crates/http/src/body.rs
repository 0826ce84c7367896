//! A request's body, from the connection into memory: bounded in size, in time, and together with all others.
//!
//! Limits come before work. A declared length over the limit is refused before a byte is read; a body that does not say
//! its length, or is compressed, is refused at the first byte over it.

use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes};
use futures_util::StreamExt as _;
use http_body_util::{BodyDataStream, BodyExt as _};
use hyper::HeaderMap;
use hyper::body::{Body as _, Incoming};
use hyper::header::EXPECT;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;

use crate::budget::{NoRoom, Share};
use crate::context::Context;
use crate::encoding::Encoding;
use crate::error::{Failure, FailureKind};

/// The slowest a long body may come, in bytes a second.
const SLOWEST_BYTES_A_SECOND: usize = 64 << 10;

/// How much a decoder hands out at a time.
const STEP_BYTES: usize = 64 << 10;

/// How much of what is left of a refused body is read.
const MAX_DRAIN_BYTES: usize = 256 << 20;

/// How long what is left of a refused body may take, beyond the time that its bytes need.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// The body of a request that may not have been read yet.
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Incoming,
    /// What is left of it is not worth reading: the client waits for `100 Continue`, which is sent when the body is
    /// first read, or was too slow already.
    is_settled: bool,
}

/// A body in memory, with its share of the budget.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) share: Share,
}

impl RequestBody {
    pub(crate) fn new(headers: &HeaderMap, incoming: Incoming) -> Self {
        Self { is_settled: headers.contains_key(EXPECT), incoming }
    }

    /// Reads and decompresses the body, at most `limit` bytes.
    pub(crate) async fn read(&mut self, context: &Context, headers: &HeaderMap, limit: usize) -> Result<Body, Failure> {
        let encoding = Encoding::of(headers)?;
        let limit = limit.min(context.config.max_body_bytes);
        if self.incoming.size_hint().lower() > limit as u64 {
            return Err(too_large(limit));
        }
        self.is_settled = false;
        let clock = Clock {
            start: Instant::now(),
            grace: context.config.body_timeout,
            draining: &context.life.draining,
            received: AtomicUsize::new(0),
        };
        let share = context.budget.share();
        let read = match encoding {
            Encoding::Identity => self.plain(&clock, limit, share).await,
            encoding => self.decoded(encoding, &clock, limit, share).await,
        };
        self.is_settled = read.as_ref().is_err_and(Failure::ends_connection);
        read
    }

    async fn plain(&mut self, clock: &Clock<'_>, limit: usize, mut share: Share) -> Result<Body, Failure> {
        // A small body comes in one piece, which is kept as it is.
        let mut first = Bytes::new();
        let mut joined = Vec::new();
        while let Some(frame) = clock.wait(self.incoming.frame()).await? {
            let Ok(data) = frame.map_err(|_| broken())?.into_data() else { continue };
            let received = clock.count(data.len());
            if received > limit {
                return Err(too_large(limit));
            }
            share.grow_to(received).map_err(no_room)?;
            if first.is_empty() {
                first = data;
            } else {
                if joined.is_empty() {
                    joined.extend_from_slice(&first);
                }
                joined.extend_from_slice(&data);
            }
        }
        if joined.is_empty() {
            return Ok(Body { bytes: first, share });
        }
        joined.shrink_to_fit();
        Ok(Body { bytes: joined.into(), share })
    }

    async fn decoded(
        &mut self,
        encoding: Encoding,
        clock: &Clock<'_>,
        limit: usize,
        mut share: Share,
    ) -> Result<Body, Failure> {
        // What comes in is bounded as well: a compressed body may hold any amount of nothing.
        let pieces = BodyDataStream::new(&mut self.incoming).map(|piece| match piece {
            Ok(piece) if clock.count(piece.len()) > limit => Err(io::Error::other(Interrupted::TooLarge)),
            Ok(piece) => Ok(piece),
            Err(_) => Err(io::Error::other(Interrupted::Broken)),
        });
        let mut pieces = pin!(pieces);
        let source = StreamReader::new(pieces.as_mut());
        let failed = |error: &io::Error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(Interrupted::TooLarge) => too_large(limit),
            Some(Interrupted::Broken) => broken(),
            None => Failure::invalid(
                vec!["body".into(), 0.into()],
                "json_invalid",
                format!("body is not valid {encoding:?} data: {error}"),
            ),
        };
        let mut decoder = clock.wait(encoding.decode(source)).await?.map_err(|error| failed(&error))?;
        let mut decoded = Vec::new();
        loop {
            if decoded.capacity() - decoded.len() < STEP_BYTES {
                // Twice as much, but never more than is allowed.
                let room = limit.saturating_add(STEP_BYTES).saturating_sub(decoded.len());
                decoded.reserve_exact(decoded.len().clamp(STEP_BYTES, room.max(STEP_BYTES)));
            }
            let read = clock.wait(decoder.read_buf(&mut (&mut decoded).limit(STEP_BYTES))).await?;
            if read.map_err(|error| failed(&error))? == 0 {
                break;
            }
            if decoded.len() > limit {
                return Err(too_large(limit));
            }
            share.grow_to(decoded.len()).map_err(no_room)?;
            // Others have work to do, and a decoder is never short of input once it has all of it.
            tokio::task::yield_now().await;
        }
        drop(decoder);
        decoded.shrink_to_fit();
        Ok(Body { bytes: decoded.into(), share })
    }

    /// Whether the client may still be sending.
    pub(crate) fn is_unread(&self) -> bool {
        !self.is_settled && !self.incoming.is_end_stream()
    }

    /// Throws away what still comes, so that a client that sends before it listens gets to read its answer. Bounded in
    /// bytes and time.
    pub(crate) async fn drain(mut self, draining: CancellationToken) {
        let clock =
            Clock { start: Instant::now(), grace: DRAIN_TIME, draining: &draining, received: AtomicUsize::new(0) };
        while let Ok(Some(Ok(frame))) = clock.wait(self.incoming.frame()).await {
            if clock.count(frame.data_ref().map_or(0, Bytes::len)) > MAX_DRAIN_BYTES {
                return;
            }
        }
    }
}

/// How long a body may take, given how much of it has come.
struct Clock<'c> {
    start: Instant,
    grace: Duration,
    draining: &'c CancellationToken,
    received: AtomicUsize,
}

impl Clock<'_> {
    /// Counts bytes that came; returns how many there are now.
    fn count(&self, bytes: usize) -> usize {
        self.received.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }

    async fn wait<F: Future>(&self, next: F) -> Result<F::Output, Failure> {
        let received = self.received.load(Ordering::Relaxed);
        let earned = Duration::from_secs((received / SLOWEST_BYTES_A_SECOND) as u64);
        tokio::select! {
            biased;
            next = tokio::time::timeout_at(self.start + self.grace + earned, next) => next.map_err(|_| {
                let message = format!("the body did not arrive in time: {received} bytes came");
                Failure::new(FailureKind::BodyTimeout, message)
            }),
            () = self.draining.cancelled() => Err(Failure::shutting_down()),
        }
    }
}

/// Why a decoder got no more input.
#[derive(Debug, thiserror::Error)]
enum Interrupted {
    #[error("the body is too large")]
    TooLarge,
    #[error("the connection broke")]
    Broken,
}

fn too_large(limit: usize) -> Failure {
    Failure::new(FailureKind::TooLarge, format!("the body is over the limit of {limit} bytes"))
}

fn no_room(NoRoom { limit }: NoRoom) -> Failure {
    let message = format!("the bodies being read are over the limit of {limit} bytes together");
    Failure::new(FailureKind::Busy { wait: Duration::from_secs(1) }, message)
}

fn broken() -> Failure {
    Failure::invalid(vec!["body".into(), 0.into()], "json_invalid", "the body ended before it was complete")
}
