//! One request over HTTP, and giving up on it when the run is cancelled.
//!
//! A blocking read knows no switch. So a request is made on a thread of its own, and whoever waits for it looks at the
//! switch between times; a request that is given up on ends with its time limit, or with the process.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use clef_record::Grouped;
use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::answerer::{AnswerError, AnswerErrorKind};
use crate::remote::RemoteOptions;

/// How often whoever waits looks at the switch.
const LOOK: Duration = Duration::from_millis(50);

/// The longest limit that clocks are set to; one beyond their range would panic.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What to ask for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) url: String,
    /// Posted as JSON; none is a GET. Shared, as it may hold megabytes of pictures.
    pub(crate) body: Option<Arc<[u8]>>,
}

/// What a server said.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    /// How long it wants to be left alone, if it says so.
    pub(crate) wait: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

/// Makes requests.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    agent: Agent,
    options: RemoteOptions,
}

impl Transport {
    pub(crate) fn new(is_secure: bool, options: &RemoteOptions) -> Self {
        // The system's certificates take a while to read.
        let roots = if is_secure { root_certificates() } else { RootCerts::WebPki };
        let agent = Agent::config_builder()
            .timeout_global(Some(options.timeout.min(LONGEST)))
            .timeout_resolve(Some(options.connect_timeout.min(LONGEST)))
            .timeout_connect(Some(options.connect_timeout.min(LONGEST)))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(options.idle_connections)
            .max_idle_connections_per_host(options.idle_connections)
            .user_agent(concat!("clef-eval/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build()
            .into();
        Self { agent, options: options.clone() }
    }

    /// What the server says, whatever it is. Once the run is cancelled, it is waited for only a little longer.
    pub(crate) fn ask(&self, request: &Request) -> Result<Response, AnswerError> {
        let (sender, receiver) = sync_channel(1);
        let (transport, owned) = (self.clone(), request.clone());
        // It is not joined: a thread in a read that blocks ends when the read does.
        let asking = std::thread::Builder::new().spawn(move || sender.send(transport.exchange(owned)));
        if let Err(error) = asking {
            let message = format!("no thread to ask {} with: {error}", request.url);
            return Err(AnswerError::new(AnswerErrorKind::Failed, message).with_source(error));
        }
        let mut cancelled_at = None;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(response) => return response,
                Err(RecvTimeoutError::Disconnected) => {
                    let message = format!("asking {} panicked", request.url);
                    return Err(AnswerError::new(AnswerErrorKind::Failed, message));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.options.cancel.is_cancelled() {
                let since = *cancelled_at.get_or_insert_with(Instant::now);
                if since.elapsed() >= self.options.cancel_grace {
                    let message = "cancelled while the server was answering";
                    return Err(AnswerError::new(AnswerErrorKind::Cancelled, message));
                }
            }
        }
    }

    fn exchange(&self, request: Request) -> Result<Response, AnswerError> {
        let Request { url, body } = request;
        let key = self.options.api_key.as_ref().map(|key| format!("Bearer {key}"));
        let sent = match body {
            Some(body) => {
                let post = self.agent.post(&url).header("content-type", "application/json");
                match key {
                    Some(key) => post.header("authorization", key).send(&body[..]),
                    None => post.send(&body[..]),
                }
            }
            None => match key {
                Some(key) => self.agent.get(&url).header("authorization", key).call(),
                None => self.agent.get(&url).call(),
            },
        };
        let mut response = sent.map_err(|error| self.no_answer(&url, error))?;
        let (status, wait) = (response.status(), wait_asked_for(response.headers()));
        let body = response.body_mut().with_config().limit(self.options.max_response_bytes).read_to_vec();
        Ok(Response { status, wait, body: body.map_err(|error| self.no_answer(&url, error))? })
    }

    fn no_answer(&self, url: &str, error: ureq::Error) -> AnswerError {
        let seconds = |limit: Duration| limit.as_secs_f64();
        let (kind, message) = match &error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                let limit = seconds(self.options.connect_timeout);
                (AnswerErrorKind::Unreachable, format!("{url}: no connection within {limit} s"))
            }
            ureq::Error::Timeout(_) => {
                let limit = seconds(self.options.timeout);
                (AnswerErrorKind::TimedOut, format!("{url}: no answer within {limit} s"))
            }
            ureq::Error::BodyExceedsLimit(limit) => {
                let limit = Grouped(usize::try_from(*limit).unwrap_or(usize::MAX));
                (AnswerErrorKind::Unreadable, format!("{url}: the answer has more than {limit} bytes"))
            }
            ureq::Error::HostNotFound => (AnswerErrorKind::Unreachable, format!("{url}: no such host, or no network")),
            ureq::Error::Io(error) if is_about_certificates(error) => {
                let help = "name the certificates to trust with SSL_CERT_FILE";
                (AnswerErrorKind::Unreachable, format!("{url} is not trusted: {error}; {help}"))
            }
            // Without the library's word before it.
            ureq::Error::Io(error) => (AnswerErrorKind::Unreachable, format!("{url}: {error}")),
            other => (AnswerErrorKind::Unreachable, format!("{url}: {other}")),
        };
        let answer_error = AnswerError::new(kind, message);
        match error {
            ureq::Error::Io(error) => answer_error.with_source(error),
            // The message has all that it says.
            _ => answer_error,
        }
    }
}

/// The system's certificates, among them those of a company's own proxy; Mozilla's where there are none, as in a bare
/// container.
fn root_certificates() -> RootCerts {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        return RootCerts::WebPki;
    }
    found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect::<Vec<_>>().into()
}

/// Whether TLS is spoken and the other side is not who it should be.
fn is_about_certificates(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidData && error.to_string().to_ascii_lowercase().contains("certificate")
}

/// `retry-after-ms` before `Retry-After`; a date there is not read.
fn wait_asked_for(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    number("retry-after-ms").map(Duration::from_millis).or_else(|| number("retry-after").map(Duration::from_secs))
}
