//! A server to talk to, and a client that says exactly what it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clef_engine::{Engine, EngineConfig};
use clef_http::{
    Ended, Listen, Model, ModelCard, ModelMeta, Phase, ServeError, Server, ServerConfig, ServerHandle, Text,
    TokenizeOptions,
};
use clef_record::TokenId;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::fake::{FakeEncoder, FakeModel, Gate};

/// A small valid request.
pub(crate) const BODY: &str = r#"{"state":"x","questions":{"q":{"type":"noul"}}}"#;

/// Every route there is, with a method that it takes.
pub(crate) const ROUTES: [(&str, &str); 11] = [
    ("GET", "/health"),
    ("GET", "/v1/health"),
    ("GET", "/v1/models"),
    ("GET", "/models"),
    ("GET", "/props"),
    ("POST", "/props"),
    ("GET", "/slots"),
    ("GET", "/metrics"),
    ("POST", "/v1/systemone"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
];

/// Defaults, on a free port.
pub(crate) fn config() -> ServerConfig {
    ServerConfig {
        listen: Listen::new("127.0.0.1", 0),
        shutdown_timeout: Duration::from_secs(10),
        ..ServerConfig::default()
    }
}

/// One token per byte.
#[derive(Debug)]
struct Bytes;

impl Text for Bytes {
    fn tokenize(&self, text: &str, options: TokenizeOptions) -> Result<Vec<TokenId>, String> {
        let around = options.add_special.then_some(TokenId(256));
        Ok(around.into_iter().chain(text.bytes().map(|byte| TokenId(byte.into()))).collect())
    }

    fn piece(&self, token: TokenId) -> Option<Vec<u8>> {
        match token.0 {
            256 => Some(Vec::new()),
            byte => Some(vec![u8::try_from(byte).ok()?]),
        }
    }
}

/// A model that answers what [`FakeModel`] answers.
pub(crate) fn model(queue_capacity: usize, gate: Option<Gate>) -> Model {
    let fake = FakeModel::default();
    let fake = if let Some(gate) = gate { fake.gated(&gate) } else { fake };
    serving(fake, &EngineConfig { queue_capacity, ..EngineConfig::default() })
}

/// A fake model behind an engine.
pub(crate) fn serving(fake: FakeModel, config: &EngineConfig) -> Model {
    Model {
        engine: Engine::start(FakeEncoder { limit: 50_000_000 }, fake, config).unwrap(),
        card: ModelCard {
            name: "fake".to_owned(),
            path: "/models/fake.gguf".to_owned(),
            description: "A model without a model.".to_owned(),
            release_date: "2026-11-30".to_owned(),
            created: 1_700_000_000,
            input_modalities: vec!["text".to_owned()],
            family: "clef".to_owned(),
            parameter_size: "0B".to_owned(),
            quantization: "F32".to_owned(),
            meta: ModelMeta {
                vocab_type: 2,
                n_vocab: 257,
                n_ctx: 16_384,
                n_ctx_train: 1,
                n_embd: 2,
                n_params: 3,
                size: 4,
            },
            build_info: "b11434-fake".to_owned(),
        },
        text: Some(Arc::new(Bytes)),
    }
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) handle: ServerHandle,
    pub(crate) task: JoinHandle<Result<Ended, ServeError>>,
}

impl Running {
    /// Starts a server that loads.
    pub(crate) async fn loading(config: ServerConfig) -> Self {
        let server = Server::bind(config).await.unwrap();
        let (address, handle) = (server.local_addr().unwrap(), server.handle());
        Self { address, handle, task: tokio::spawn(server.run()) }
    }

    pub(crate) async fn with(config: ServerConfig, model: Model) -> Self {
        let running = Self::loading(config).await;
        assert!(running.handle.set_model(model));
        running
    }

    pub(crate) async fn start(config: ServerConfig) -> Self {
        Self::with(config, model(256, None)).await
    }

    /// One request on its own connection.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.connect().await;
        client.send(request).await;
        client.answer().await
    }

    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Asks for a decision with a body and headers of the test's choice.
    pub(crate) async fn decide(&self, body: impl AsRef<[u8]>, headers: &[(&str, &str)]) -> Answer {
        self.ask(request("POST", "/v1/systemone", headers, body)).await
    }

    /// Whether the server still answers as it should.
    pub(crate) async fn assert_fine(&self) {
        let answer = self.decide(BODY, &[]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(self.ask(get("/health")).await.status, 200);
    }

    /// Ends the server in good order.
    pub(crate) async fn stop(self) {
        self.handle.shutdown();
        assert_eq!(self.task.await.unwrap().unwrap(), Ended::Shutdown);
        assert_eq!(*self.handle.phase().borrow(), Phase::Stopped);
    }
}

/// A connection that keeps what it has read beyond an answer.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    read: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The next answer, which must come.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer(false).await.expect("the connection was closed without an answer")
    }

    /// The next answer, to a HEAD request.
    pub(crate) async fn answer_to_head(&mut self) -> Answer {
        self.try_answer(true).await.expect("the connection was closed without an answer")
    }

    /// The next answer; none if the server closes the connection first.
    pub(crate) async fn try_answer(&mut self, is_head: bool) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        if !is_head {
            while self.read.len() < length {
                self.more().await?;
            }
            answer.body = self.read.drain(..length).collect();
        }
        Some(answer)
    }

    async fn more(&mut self) -> Option<()> {
        let mut buffer = vec![0; 64 << 10];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => None,
            Ok(count) => {
                self.read.extend_from_slice(&buffer[..count]);
                Some(())
            }
        }
    }

    /// Waits until the server closes the connection, which must say nothing more.
    pub(crate) async fn closed(&mut self) {
        assert!(self.read.is_empty());
        assert!(self.more().await.is_none(), "more came: {}", String::from_utf8_lossy(&self.read));
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error as every client reads it: checked in full, then the type of `error` is returned.
    pub(crate) fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        assert!(self.body.len() <= 2_048, "an error of {} bytes", self.body.len());
        assert_eq!(self.header("content-type"), Some("application/json; charset=utf-8"));
        assert!(self.header("x-typesafe-request-id").is_some_and(|id| !id.is_empty()));
        let json = self.json();
        let error = &json["error"];
        assert_eq!(error["code"], status, "{json}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty(), "{json}");
        let kind = error["type"].as_str().unwrap();
        match &json["detail"] {
            Value::Array(problems) => {
                assert_eq!(problems.len(), 1, "{json}");
                assert_eq!(problems[0]["msg"], message, "{json}");
                assert_eq!(problems[0]["loc"][0], "body", "{json}");
                assert!(problems[0]["type"].is_string(), "{json}");
            }
            detail => {
                assert_eq!(detail["message"], message, "{json}");
                assert_eq!(detail["error_type"], kind, "{json}");
            }
        }
        assert_eq!(json["detail"].is_array(), matches!(status, 400 | 422), "{json}");
        kind.to_owned()
    }

    /// The slug of a validation error.
    pub(crate) fn slug(&self, status: u16) -> String {
        self.error(status);
        self.json()["detail"][0]["type"].as_str().unwrap().to_owned()
    }
}

/// A request with a body and its length, if there is one.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        bytes.extend_from_slice(b"Host: localhost\r\n");
    }
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if method == "POST" || !body.is_empty() {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    request("GET", path, &[], "")
}

pub(crate) fn decision(body: impl AsRef<[u8]>) -> Vec<u8> {
    request("POST", "/v1/systemone", &[], body)
}

/// Waits for something that another thread is about to do; fails after ten seconds.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{what} did not happen");
}
