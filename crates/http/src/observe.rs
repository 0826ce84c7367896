//! What happens around every request: an id, a count, times, a line in the log, and a net under panics.
//!
//! No handler does any of this by hand. A request whose client goes away is dropped wherever it stands; it is counted and
//! logged all the same, with nginx's status 499.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clef_engine::Timings;
use futures_util::FutureExt as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response};

use crate::body::RequestBody;
use crate::context::Context;
use crate::counters::{Counters, Gauge, add};
use crate::error::Failure;
use crate::reply::{Facts, Reply};
use crate::router::{self, Head, Route};
use crate::shutdown::Phase;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-typesafe-request-id");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// nginx's number for a client that closed the connection.
const CLIENT_GONE: u16 = 499;

/// Answers a request and tells everyone who wants to know.
pub(crate) async fn observe(
    context: Arc<Context>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, incoming) = request.into_parts();
    let head = Head { method: parts.method, uri: parts.uri, headers: parts.headers };
    let mut body = RequestBody::new(&head.headers, incoming);
    let route = head.route(&context);
    let mut record = Record::begin(&context, route, &head);
    let _running = Gauge::enter(&context.counters.running);

    let result = caught(&context.counters, router::answer(&context, route, &head, &mut body)).await;
    let reply = result.unwrap_or_else(|failure| failure.into_reply(context.config.validation_status));
    if body.is_unread() {
        context.life.tasks.spawn(body.drain(context.life.draining.clone()));
    }
    record.finish(&reply);
    Ok(respond(&context, route, &head.headers, &record.id, reply))
}

/// A handler that panics costs its own request. What it borrowed is not looked at again but for the body, which is only
/// read to its end.
async fn caught(counters: &Counters, handler: impl Future<Output = Result<Reply, Failure>>) -> Result<Reply, Failure> {
    AssertUnwindSafe(handler).catch_unwind().await.unwrap_or_else(|_| {
        // The panic hook has printed what and where.
        add(&counters.panics, 1);
        Err(Failure::fault("the request failed in the server"))
    })
}

fn respond(context: &Context, route: Route, request: &HeaderMap, id: &str, reply: Reply) -> Response<Full<Bytes>> {
    let facts = reply.facts;
    let mut response = reply.into_response();
    let headers = response.headers_mut();
    // Ids are hexadecimal digits, timings are numbers and words of ours.
    headers.insert(REQUEST_ID, HeaderValue::from_str(id).expect("an id is a header value"));
    if let Some(facts) = facts {
        let value = HeaderValue::from_str(&server_timing(&facts.timings)).expect("timings are a header value");
        headers.insert(SERVER_TIMING, value);
    }
    context.origins.label(request, headers);
    if route == Route::Preflight {
        context.origins.label_preflight(request, headers);
    }
    if context.life.phase() >= Phase::Draining {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn server_timing(timings: &Timings) -> String {
    let parts = [
        ("queue", timings.queue),
        ("encode", timings.encode),
        ("media", timings.media),
        ("backbone", timings.backbone),
        ("head", timings.head),
    ];
    let mut text = String::with_capacity(96);
    for (name, time) in parts {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{name};dur={:.3}", milliseconds(time));
    }
    text
}

fn milliseconds(time: Duration) -> f64 {
    // To the microsecond, which is as much as a log can use.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// One request's entry in counters and log, written when it ends, however it ends.
struct Record<'c> {
    context: &'c Context,
    route: Route,
    method: &'static str,
    id: String,
    start: Instant,
    is_finished: bool,
}

impl<'c> Record<'c> {
    fn begin(context: &'c Context, route: Route, head: &Head) -> Self {
        let method = match head.method.as_str() {
            "GET" => "GET",
            "HEAD" => "HEAD",
            "POST" => "POST",
            "OPTIONS" => "OPTIONS",
            // A method may be any word.
            _ => "other",
        };
        Self { context, route, method, id: context.request_ids.next(), start: Instant::now(), is_finished: false }
    }

    fn finish(&mut self, reply: &Reply) {
        self.write(reply.status.as_u16(), reply.facts.as_ref());
    }

    fn write(&mut self, status: u16, facts: Option<&Facts>) {
        self.is_finished = true;
        let total = self.start.elapsed();
        let counters = &self.context.counters;
        counters.request(self.route, status);
        let (method, path, request_id) = (self.method, self.route.name(), self.id.as_str());
        let ms = milliseconds(total);
        if self.route == Route::Health {
            // Supervisors ask every few seconds.
            tracing::debug!(method, path, status, ms, request_id, "request");
            return;
        }
        let Some(facts) = facts else {
            tracing::info!(method, path, status, ms, request_id, "request");
            return;
        };
        counters.decision(facts, total);
        let Timings { queue, encode, media, backbone, head } = facts.timings;
        tracing::info!(
            method,
            path,
            status,
            ms,
            queue_ms = milliseconds(queue),
            encode_ms = milliseconds(encode),
            media_ms = milliseconds(media),
            backbone_ms = milliseconds(backbone),
            head_ms = milliseconds(head),
            http_ms = milliseconds(total.saturating_sub(queue + encode + media + backbone + head)),
            tokens = facts.input_tokens,
            cached_tokens = facts.cached_tokens,
            truncated_tokens = facts.truncated_tokens,
            request_id,
            "request"
        );
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.write(CLIENT_GONE, None);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use hyper::{Method, Uri};
    use tracing::{Event, Level, Metadata, Subscriber, span};

    use super::*;
    use crate::config::ServerConfig;
    use crate::origin::Origins;

    /// Passes the level of each event on.
    struct Levels(std::sync::mpsc::Sender<Level>);

    impl Subscriber for Levels {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            self.0.send(*event.metadata().level()).unwrap();
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn requests_are_logged_and_polls_of_health_only_for_who_debugs() {
        let context = Context::new(ServerConfig::default(), Origins::new(None, None));
        for (path, level) in [("/health", Level::DEBUG), ("/v1/health", Level::DEBUG), ("/slots", Level::INFO)] {
            let head = Head { method: Method::GET, uri: Uri::from_static(path), headers: HeaderMap::new() };
            let (sender, levels) = std::sync::mpsc::channel();
            tracing::subscriber::with_default(Levels(sender), || {
                Record::begin(&context, head.route(&context), &head)
                    .finish(&Failure::loading().into_reply(Default::default()));
                drop(Record::begin(&context, head.route(&context), &head));
            });
            assert_eq!(levels.iter().collect::<Vec<_>>(), [level, level], "{path}");
        }
    }

    #[tokio::test]
    async fn a_handler_that_panics_costs_its_own_request() {
        let counters = Counters::default();
        let failure = caught(&counters, async { panic!("told to") }).await.unwrap_err();
        assert_eq!(failure.into_reply(Default::default()).status, 500);
        assert_eq!(counters.panics.load(Relaxed), 1);
    }

    #[test]
    fn times_are_printed_to_the_microsecond() {
        let timings =
            Timings { queue: Duration::from_nanos(1_499), head: Duration::from_secs(2), ..Timings::default() };
        let expected = "queue;dur=0.001, encode;dur=0.000, media;dur=0.000, backbone;dur=0.000, head;dur=2000.000";
        assert_eq!(server_timing(&timings), expected);
    }
}
