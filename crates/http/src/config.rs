//! How a server is set up: plain data, made by the binary and handed down.
//!
//! Nothing here reads flags or the environment. Every field says its unit; the defaults are the ones in the contract.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clef_record::Rules;

/// Everything a server is told before it starts.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where to listen.
    pub listen: Listen,
    /// Keys of which a client must show one; empty: no key is needed.
    pub api_keys: Vec<ApiKey>,
    /// What stands before every path, as `/clef`; empty: nothing.
    pub api_prefix: String,
    /// The longest body, in bytes, both as sent and after decompression.
    pub max_body_bytes: usize,
    /// Bytes of all bodies together that are being read, parsed or answered. The first 64 KiB of each are not counted:
    /// they are bounded by `max_connections`.
    pub max_bodies_bytes_in_flight: usize,
    /// What a record may hold: how many questions, pictures, videos.
    pub rules: Rules,
    /// Connections held at once; more wait in the operating system's queue. Bounded by the limit on open files too.
    pub max_connections: usize,
    /// How long a connection may take until a request's head is complete, from its start or from the end of the answer
    /// before it; so also how long an idle connection is kept. A TLS handshake may take half of it.
    pub header_timeout: Duration,
    /// How long a body may take beyond the time that its bytes need at 64 KiB a second.
    pub body_timeout: Duration,
    /// How long a client may take to accept the next bytes of an answer.
    pub write_timeout: Duration,
    /// How long running requests may go on after the server was told to end.
    pub shutdown_timeout: Duration,
    /// Who may call from a browser; none: no CORS header is ever sent.
    pub cors: Option<Cors>,
    /// The status of a body that is not valid: 422, or 400 as llama-server.
    pub validation_status: ValidationStatus,
    /// Whether `GET /metrics` answers.
    pub metrics: bool,
    /// Whether `GET /slots` answers.
    pub slots: bool,
    /// Whether `POST /props` answers.
    pub props: bool,
    /// Certificate and key, to serve TLS.
    pub tls: Option<TlsFiles>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: Listen::Tcp { host: "127.0.0.1".to_owned(), port: 8080, reuse_port: false },
            api_keys: Vec::new(),
            api_prefix: String::new(),
            max_body_bytes: 100 << 20,
            max_bodies_bytes_in_flight: 400 << 20,
            rules: Rules::default(),
            max_connections: 16_384,
            header_timeout: Duration::from_secs(20),
            body_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(20),
            shutdown_timeout: Duration::from_secs(30),
            cors: None,
            validation_status: ValidationStatus::Unprocessable,
            metrics: false,
            slots: true,
            props: false,
            tls: None,
        }
    }
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// On a network address.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port; 0 takes a free one.
        port: u16,
        /// Whether other processes may listen on the same port (`SO_REUSEPORT`).
        reuse_port: bool,
    },
    /// On a Unix socket. A socket that a dead server left there is replaced; the file goes when the server ends.
    Unix(PathBuf),
}

impl Listen {
    /// As llama-server reads `--host` and `--port`: a host that ends in `.sock` is the path of a Unix socket.
    pub fn new(host: &str, port: u16) -> Self {
        if host.ends_with(".sock") {
            return Self::Unix(host.into());
        }
        Self::Tcp { host: host.to_owned(), port, reuse_port: false }
    }
}

/// A key that lets a client in. Never shown, not even by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Box<[u8]>);

impl ApiKey {
    /// A key; surrounding white space is not part of it. None if nothing is left.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.as_bytes().into()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// What browsers are told about who may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins as `https://example.org`; `*` is any, `localhost` is any origin on this machine.
    pub origins: Vec<String>,
    /// The value of `Access-Control-Allow-Methods`.
    pub methods: String,
    /// The value of `Access-Control-Allow-Headers`; `*` echoes what the browser asks for, since a browser does not take
    /// `*` for `Authorization`.
    pub headers: String,
    /// Whether credentials may be sent.
    pub credentials: bool,
}

impl Cors {
    /// llama-server's defaults for the given origins.
    pub fn for_origins(origins: impl IntoIterator<Item = String>) -> Self {
        Self {
            origins: origins.into_iter().collect(),
            methods: "GET, POST, DELETE, OPTIONS".to_owned(),
            headers: "*".to_owned(),
            credentials: true,
        }
    }
}

/// The status of a body that is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValidationStatus {
    /// 422 `unprocessable_entity_error`, as the hosted API.
    #[default]
    Unprocessable,
    /// 400 `invalid_request_error`, as llama-server.
    BadRequest,
}

/// PEM files for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, then those it is signed by.
    pub certificates: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}
