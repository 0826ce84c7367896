//! Asking a server.
//!
//! A measuring client fills a server's queue on purpose, so being told to come back later is no failure: it waits as
//! long as it is told, a bounded number of times.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use ureq::{Agent, Body};

use crate::answerer::{AnswerError, AnswerErrorKind, Answerer};
use crate::cancel::Cancel;
use crate::error::{Error, ErrorKind, Result};

/// Where requests go on every System One server.
const PATH: &str = "/v1/systemone";

/// The first wait for a busy server that does not say how long; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// How much of a server's own words an error repeats, in characters.
const SHOWN_CHARACTERS: usize = 300;

/// How a server is asked.
#[derive(Clone)]
pub struct RemoteOptions {
    /// Sent as `Authorization: Bearer`. Never shown.
    pub api_key: Option<String>,
    /// For one try, from the first byte sent to the last received. 10 minutes by default.
    pub timeout: Duration,
    /// For the connection. 10 seconds by default.
    pub connect_timeout: Duration,
    /// How often a busy server (429, 503) is asked again for one record. 8 by default.
    pub retries: u32,
    /// The longest wait for a busy server, whatever it says. 30 seconds by default.
    pub max_wait: Duration,
    /// The longest response, in bytes. 64 MiB by default.
    pub max_response_bytes: u64,
    /// How many idle connections are kept. 16 by default; the number of threads that ask is best.
    pub idle_connections: usize,
    /// Ends waits.
    pub cancel: Cancel,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            api_key: None,
            timeout: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(10),
            retries: 8,
            max_wait: Duration::from_secs(30),
            max_response_bytes: 64 << 20,
            idle_connections: 16,
            cancel: Cancel::new(),
        }
    }
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("api_key", &self.api_key.as_ref().map(|_| "hidden"))
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("retries", &self.retries)
            .field("max_wait", &self.max_wait)
            .field("max_response_bytes", &self.max_response_bytes)
            .field("idle_connections", &self.idle_connections)
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// A System One server, asked over HTTP. Redirects are not followed.
#[derive(Debug)]
pub struct Remote {
    url: String,
    agent: Agent,
    options: RemoteOptions,
}

impl Remote {
    /// A server by its address: `http://host:port`, the same with a prefix, or the whole `.../v1/systemone`.
    ///
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// Of kind [`Address`](ErrorKind::Address) if it is no address of HTTP or HTTPS, or holds a password or a query, or
    /// if the key cannot be sent.
    pub fn new(address: &str, options: RemoteOptions) -> Result<Self> {
        let url = endpoint(address)?;
        if options.api_key.as_ref().is_some_and(|key| HeaderValue::from_str(key).is_err()) {
            return Err(Error::new(ErrorKind::Address, "the API key holds characters that cannot be sent in a header"));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .timeout_connect(Some(options.connect_timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(options.idle_connections)
            .max_idle_connections_per_host(options.idle_connections)
            .user_agent(concat!("clef-eval/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Ok(Self { url, agent, options })
    }

    /// Where requests go.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// One try: the answer, or what a busy server said and for how long it wants to be left alone.
    fn ask(&self, body: &[u8]) -> std::result::Result<Vec<u8>, Refusal> {
        let mut request = self.agent.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.options.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body).map_err(|error| Refusal::Final(self.transport(error)))?;
        let status = response.status();
        let wait = wait_asked_for(response.headers());
        let body = self.body(&mut response).map_err(Refusal::Final)?;
        let Some(kind) = kind_of(status) else { return Ok(body) };
        let error = AnswerError::new(kind, format_args!("{} says {}{}", self.url, status.as_u16(), words(&body)));
        match kind {
            AnswerErrorKind::Busy => Err(Refusal::Busy(error, wait)),
            _ => Err(Refusal::Final(error)),
        }
    }

    fn body(&self, response: &mut Response<Body>) -> std::result::Result<Vec<u8>, AnswerError> {
        let body = response.body_mut().with_config().limit(self.options.max_response_bytes).read_to_vec();
        body.map_err(|error| self.transport(error))
    }

    fn transport(&self, error: ureq::Error) -> AnswerError {
        let kind = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => AnswerErrorKind::Unreachable,
            ureq::Error::Timeout(_) => AnswerErrorKind::TimedOut,
            ureq::Error::BodyExceedsLimit(_) => AnswerErrorKind::Unreadable,
            _ => AnswerErrorKind::Unreachable,
        };
        AnswerError::new(kind, format_args!("{}: {error}", self.url)).with_source(error)
    }
}

/// Why one try brought no answer.
enum Refusal {
    Busy(AnswerError, Option<Duration>),
    Final(AnswerError),
}

impl Answerer for Remote {
    fn answer(&self, body: &[u8]) -> std::result::Result<Vec<u8>, AnswerError> {
        let mut own_wait = FIRST_WAIT;
        let mut retries_left = self.options.retries;
        loop {
            let (error, wait) = match self.ask(body) {
                Ok(response) => return Ok(response),
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Busy(error, wait)) => (error, wait),
            };
            retries_left = match retries_left.checked_sub(1) {
                Some(left) => left,
                None => return Err(error),
            };
            if self.options.cancel.wait(wait.unwrap_or(own_wait).min(self.options.max_wait)) {
                return Err(AnswerError::new(AnswerErrorKind::Cancelled, "cancelled while the server was busy"));
            }
            own_wait *= 2;
        }
    }
}

/// The address that requests go to.
fn endpoint(address: &str) -> Result<String> {
    let fault = |what: &str| Error::new(ErrorKind::Address, format_args!("the address of the server {what}"));
    let uri: Uri = address.trim().parse().map_err(|error| fault(&format!("is not one: {error}")))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(fault("must start with http:// or https://"));
    };
    if scheme != "http" && scheme != "https" {
        return Err(fault(&format!("starts with {scheme}://, it must be http:// or https://")));
    }
    if authority.as_str().contains('@') {
        return Err(fault("holds a user name or a password; give an API key instead"));
    }
    if uri.query().is_some() {
        return Err(fault("holds a query"));
    }
    let prefix = uri.path().trim_end_matches('/');
    let prefix = prefix.strip_suffix(PATH).or_else(|| prefix.strip_suffix("/v1")).unwrap_or(prefix);
    Ok(format!("{scheme}://{authority}{prefix}{PATH}"))
}

/// What a status means for a record; `None` for an answer.
fn kind_of(status: StatusCode) -> Option<AnswerErrorKind> {
    match status.as_u16() {
        200..=299 => None,
        401 | 403 => Some(AnswerErrorKind::Unauthorized),
        408 => Some(AnswerErrorKind::TimedOut),
        429 | 503 => Some(AnswerErrorKind::Busy),
        // Neither a redirect nor a wrong path is a System One server.
        300..=399 | 404 | 405 => Some(AnswerErrorKind::Unreachable),
        // 501: a picture for a server that has no eyes.
        400..=499 | 501 => Some(AnswerErrorKind::Refused),
        _ => Some(AnswerErrorKind::Failed),
    }
}

/// `retry-after-ms` before `Retry-After`; a date there is not read.
fn wait_asked_for(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    number("retry-after-ms").map(Duration::from_millis).or_else(|| number("retry-after").map(Duration::from_secs))
}

/// What an error body says, on one line: its message, or else its first words.
fn words(body: &[u8]) -> String {
    let message = serde_json::from_slice::<Value>(body).ok().and_then(|body| {
        let places = ["/error/message", "/detail/message", "/message"];
        places.into_iter().find_map(|place| body.pointer(place)?.as_str().map(str::to_owned))
    });
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(2_048)]).into_owned());
    let mut line: String = message.split_whitespace().collect::<Vec<_>>().join(" ");
    line.retain(|character| !character.is_control());
    if let Some((cut, _)) = line.char_indices().nth(SHOWN_CHARACTERS) {
        line.truncate(cut);
        line.push('…');
    }
    if line.is_empty() { line } else { format!(": {line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_written_in_several_ways() {
        for (address, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/systemone"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/systemone"),
            (" https://host/v1/ ", "https://host/v1/systemone"),
            ("http://[::1]:1/api/v1/systemone", "http://[::1]:1/api/v1/systemone"),
            ("https://host/prefix", "https://host/prefix/v1/systemone"),
        ] {
            assert_eq!(endpoint(address).expect(address), expected);
        }
        for (address, expected) in [
            ("127.0.0.1:8080", "must start with http://"),
            ("host/path", "the address of the server"),
            ("ftp://host", "starts with ftp://"),
            ("http://user:word@host", "holds a user name"),
            ("http://host?x=1", "holds a query"),
            ("", "is not one"),
        ] {
            let error = endpoint(address).expect_err(address);
            assert_eq!(error.kind(), ErrorKind::Address);
            assert!(error.message().contains(expected) && !error.message().contains("word@"), "{error}");
        }
    }

    #[test]
    fn an_error_body_is_repeated_on_one_short_line() {
        assert_eq!(words(br#"{"error":{"message":"a\nb"},"detail":[]}"#), ": a b");
        assert_eq!(words(b"<html>\r\n\x1b[31m502</html>"), ": <html> [31m502</html>");
        assert_eq!(words(b""), "");
        assert_eq!(words("é".repeat(5_000).as_bytes()).chars().count(), 303);
    }

    #[test]
    fn options_do_not_show_the_key() {
        let options = RemoteOptions { api_key: Some("sesame".to_owned()), ..RemoteOptions::default() };
        let remote = Remote::new("http://host", options).expect("an address");
        assert!(!format!("{remote:?}").contains("sesame"));
    }
}
