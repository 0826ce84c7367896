//! Asking a server.
//!
//! A measuring client fills a server's queue on purpose, so being told to come back later is no failure: it waits as
//! long as it is told, a bounded number of times. A server that is still loading its model is waited for, too.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::{HeaderValue, StatusCode, Uri};

use crate::answerer::{AnswerError, AnswerErrorKind, Answerer};
use crate::cancel::Cancel;
use crate::case::RequestDigest;
use crate::error::{Error, ErrorKind, Result};
use crate::table::counted;
use crate::transport::{Request, Transport};

/// Where requests go on every System One server.
const PATH: &str = "/v1/systemone";

/// Where such a server says which models it has.
const MODELS_PATH: &str = "/v1/models";

/// The first wait for a busy server that does not say how long; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// The longest wait for a server that loads its model and does not say how long.
const LOADING_WAIT: Duration = Duration::from_secs(5);

/// The longest list of models that is written out, in bytes.
const MODELS_BYTES: usize = 512;

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
    /// How often a busy server (429) is asked again for one record. 8 by default.
    pub retries: u32,
    /// How long a server that is not ready (503, as while it loads its model) is waited for, from when it first said so
    /// and until it says anything else. 10 minutes by default.
    pub loading_timeout: Duration,
    /// The longest wait for a busy server, whatever it says. 30 seconds by default.
    pub max_wait: Duration,
    /// The longest response, in bytes. 64 MiB by default.
    pub max_response_bytes: u64,
    /// How many idle connections are kept. 16 by default; the number of threads that ask is best.
    pub idle_connections: usize,
    /// Ends waits; the run's own switch.
    pub cancel: Cancel,
    /// How much longer an answer is waited for once the switch is thrown. 5 seconds by default.
    pub cancel_grace: Duration,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            api_key: None,
            timeout: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(10),
            retries: 8,
            loading_timeout: Duration::from_secs(600),
            max_wait: Duration::from_secs(30),
            max_response_bytes: 64 << 20,
            idle_connections: 16,
            cancel: Cancel::new(),
            cancel_grace: Duration::from_secs(5),
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
            .field("loading_timeout", &self.loading_timeout)
            .field("max_wait", &self.max_wait)
            .field("max_response_bytes", &self.max_response_bytes)
            .field("idle_connections", &self.idle_connections)
            .field("cancel", &self.cancel)
            .field("cancel_grace", &self.cancel_grace)
            .finish()
    }
}

/// A System One server, asked over HTTP. Redirects are not followed; over HTTPS it is trusted if the system trusts it.
#[derive(Debug)]
pub struct Remote {
    url: String,
    transport: Transport,
    options: RemoteOptions,
    /// Since when it says that it is not ready.
    loading_since: Mutex<Option<Instant>>,
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
        let transport = Transport::new(url.starts_with("https://"), &options);
        Ok(Self { url, transport, options, loading_since: Mutex::new(None) })
    }

    /// Where requests go.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Which models the server has, as a text that stays the same while they do: their names, and their sizes and numbers
    /// of parameters where it says them. `None` if it does not tell (`GET /v1/models`).
    ///
    /// An address alone does not say whose answers it gives: what is there today may be another model tomorrow.
    ///
    /// # Errors
    /// Of kind [`GaveUp`](ErrorKind::GaveUp) if nobody is there, the key is refused, or the server fails or does not get
    /// ready in time.
    pub fn model(&self) -> Result<Option<String>> {
        let base = self.url.strip_suffix(PATH).expect("an endpoint ends with its path");
        let request = Request { url: format!("{base}{MODELS_PATH}"), body: None };
        match self.said(&request) {
            Ok(body) => Ok(models(&body)),
            Err(Refusal { status: Some(status), .. }) if is_nothing_there(status) => Ok(None),
            Err(Refusal { error, .. }) => Err(Error::new(ErrorKind::GaveUp, &error).with_source(error)),
        }
    }

    /// What the server answers; it is waited for while it is busy or loads.
    fn said(&self, request: &Request) -> std::result::Result<Vec<u8>, Refusal> {
        let mut own_wait = FIRST_WAIT;
        let mut retries_left = self.options.retries;
        loop {
            let refusal = match self.ask(request) {
                Ok(body) => return Ok(body),
                Err(refusal) => refusal,
            };
            let Some(status) = refusal.status.filter(|&status| is_busy(status)) else { return Err(refusal) };
            let longest = if status == StatusCode::SERVICE_UNAVAILABLE {
                let Some(left) = self.loading_left() else { return Err(refusal) };
                refusal.wait.unwrap_or(own_wait.min(LOADING_WAIT)).min(left)
            } else {
                let Some(left) = retries_left.checked_sub(1) else { return Err(refusal) };
                retries_left = left;
                refusal.wait.unwrap_or(own_wait)
            };
            if self.options.cancel.wait(longest.min(self.options.max_wait)) {
                let error = AnswerError::new(AnswerErrorKind::Cancelled, "cancelled while the server was busy");
                return Err(Refusal { error, status: None, wait: None });
            }
            own_wait = own_wait.saturating_mul(2).min(self.options.max_wait);
        }
    }

    /// How much longer a server that is not ready is waited for.
    fn loading_left(&self) -> Option<Duration> {
        let mut since = self.loading_since.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = since
            .get_or_insert_with(|| {
                let most = self.options.loading_timeout.as_secs();
                tracing::warn!("{} says 503, as while a model loads; it is waited for up to {most} s", self.url);
                Instant::now()
            })
            .elapsed();
        self.options.loading_timeout.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// One try.
    fn ask(&self, request: &Request) -> std::result::Result<Vec<u8>, Refusal> {
        let response = self.transport.ask(request);
        let response = response.map_err(|error| Refusal { error, status: None, wait: None })?;
        if response.status != StatusCode::SERVICE_UNAVAILABLE {
            *self.loading_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let Some(kind) = kind_of(response.status) else { return Ok(response.body) };
        let (number, words) = (response.status.as_u16(), words(&response.body));
        let error = AnswerError::new(kind, format_args!("{} says {number}{words}", request.url));
        Err(Refusal { error, status: Some(response.status), wait: response.wait })
    }
}

/// Why one try brought no answer.
struct Refusal {
    error: AnswerError,
    /// What the server said, if it said anything.
    status: Option<StatusCode>,
    /// How long it wants to be left alone.
    wait: Option<Duration>,
}

impl Answerer for Remote {
    fn answer(&self, body: &[u8]) -> std::result::Result<Vec<u8>, AnswerError> {
        let request = Request { url: self.url.clone(), body: Some(body.into()) };
        self.said(&request).map_err(|refusal| refusal.error)
    }
}

fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

/// Whether a server says that it does not know such a path.
fn is_nothing_there(status: StatusCode) -> bool {
    match kind_of(status) {
        Some(AnswerErrorKind::Refused | AnswerErrorKind::Unreachable) => true,
        Some(_) | None => false,
    }
}

/// The names in a list of models, as OpenAI has it (`data`), or else as ollama has it (`models`).
fn models(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let listed = |list: &str| body.get(list)?.as_array().filter(|list| !list.is_empty());
    let name = |model: &Value, key: &str| model.get(key)?.as_str().map(str::to_owned);
    let with_size = |model: &Value| {
        let facts = ["size", "n_params"].into_iter().filter_map(|fact| {
            let value = model.get("meta")?.get(fact)?;
            value.is_number().then(|| format!(" {fact}={value}"))
        });
        Some(name(model, "id")? + &facts.collect::<String>())
    };
    let names: Option<Vec<String>> = match listed("data") {
        Some(data) => data.iter().map(with_size).collect(),
        None => listed("models")?.iter().map(|model| name(model, "name")).collect(),
    };
    let mut names = names?;
    // Their order means nothing.
    names.sort();
    let text = names.join(", ");
    Some(match text.len() {
        ..=MODELS_BYTES => text,
        _ => format!("{} {}", counted(names.len() as u64, "model"), RequestDigest::of(text.as_bytes())),
    })
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
