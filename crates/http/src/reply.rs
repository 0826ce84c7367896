//! An answer before it is bytes on a connection.
//!
//! Handlers return one of these, with what they learned beside it; the middleware in `observe` turns that into headers,
//! counts and a line in the log.

use std::time::Duration;

use bytes::Bytes;
use clef_engine::Timings;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: HeaderValue,
    pub(crate) body: Bytes,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) facts: Option<Facts>,
}

/// What a decision cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) timings: Timings,
    pub(crate) input_tokens: usize,
    /// Tokens of the prompt that did not have to be computed for it.
    pub(crate) cached_tokens: usize,
    pub(crate) truncated_tokens: usize,
}

impl Facts {
    /// Tokens of the prompt that were computed for it.
    pub(crate) fn computed_tokens(&self) -> usize {
        self.input_tokens.saturating_sub(self.cached_tokens)
    }
}

impl Reply {
    pub(crate) fn new(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, body: body.into(), headers: Vec::new(), facts: None }
    }

    /// A JSON body.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        // The wire types hold strings, numbers, lists and maps with string keys, which cannot fail.
        let body = serde_json::to_vec(value).expect("wire types are serializable");
        Self::new(status, JSON, body)
    }

    #[must_use]
    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Says when to come again, in whole seconds for everybody and in milliseconds for the SDKs.
    #[must_use]
    pub(crate) fn with_retry_after(self, wait: Duration) -> Self {
        let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.with_header(hyper::header::RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)))
            .with_header(HeaderName::from_static("retry-after-ms"), HeaderValue::from(milliseconds))
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.content_type);
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}
