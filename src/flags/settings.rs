//! What the command line comes to.

use std::path::PathBuf;
use std::time::Duration;

use clef_http::{Cors, Listen, ServerConfig};

use super::ModelFlags;

/// Everything that flags and environment say.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Something to print instead of serving.
    pub action: Option<Action>,
    /// How the model is opened.
    pub model: ModelFlags,
    /// The service, but for what the fields below complete.
    pub(super) http: ServerConfig,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) reuse_port: bool,
    pub(super) tls_key: Option<PathBuf>,
    pub(super) tls_certificates: Option<PathBuf>,
    pub(super) cors: Cors,
    pub(super) cors_origins: Vec<String>,
    /// Threads for connections; none: chosen by the number of cores.
    pub threads_http: Option<usize>,
    /// Requests admitted and unanswered at once.
    pub queue_size: usize,
    /// Answers kept, for requests that ask the same again; 0 for none.
    pub answer_cache: usize,
    /// Whether a small request is answered before the first one comes; none: where the first one would be slow.
    pub warmup: Option<bool>,
    /// The log.
    pub log: LogFlags,
    /// Faults on purpose.
    pub hooks: Hooks,
    /// Flags that were given and do nothing here, because no text is generated.
    pub ignored: Vec<String>,
    /// Flags that were given and do nothing in this version.
    pub without_effect: Vec<String>,
}

/// Something to print instead of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `--help`
    Help,
    /// `--version`
    Version,
    /// `--list-devices`
    ListDevices,
    /// `--completions`
    Completions(clap_complete::Shell),
    /// `--man`
    Man,
    /// `--help-markdown`
    HelpMarkdown,
}

/// How the log looks and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFlags {
    /// llama.cpp's number: 1 errors, 2 warnings, 3 information, 4 debugging, more: everything.
    pub verbosity: u32,
    /// Whether there is no log at all.
    pub disabled: bool,
    /// A file that is written as well.
    pub file: Option<PathBuf>,
    /// Whether lines are JSON objects.
    pub jsonl: bool,
    /// Whether lines are coloured.
    pub colors: Colors,
    /// Whether lines name level and origin.
    pub prefix: bool,
    /// Whether lines name the time.
    pub timestamps: bool,
}

/// Whether the log is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colors {
    /// Always.
    On,
    /// Never.
    Off,
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
}

/// Faults on purpose, so that tests can see what becomes of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hooks {
    /// `load-delay=MILLISECONDS`: loading takes that much longer.
    pub load_delay: Duration,
    /// `request-delay=MILLISECONDS`: each request takes that much longer on the engine thread.
    pub request_delay: Duration,
    /// `die-after=N`: the engine thread panics in the request after N.
    pub die_after: Option<u64>,
}

impl Hooks {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut hooks = Self::default();
        for hook in super::values::list(text) {
            let number = |text: &str| text.parse::<u64>().map_err(|_| format!("{hook} is no hook"));
            match hook.split_once('=') {
                Some(("load-delay", value)) => hooks.load_delay = Duration::from_millis(number(value)?),
                Some(("request-delay", value)) => hooks.request_delay = Duration::from_millis(number(value)?),
                Some(("die-after", value)) => hooks.die_after = Some(number(value)?),
                _ => return Err(format!("{hook} is no hook")),
            }
        }
        Ok(hooks)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            action: None,
            model: ModelFlags::default(),
            http: ServerConfig::default(),
            host: "127.0.0.1".to_owned(),
            port: 8080,
            reuse_port: false,
            tls_key: None,
            tls_certificates: None,
            cors: Cors::for_origins([]),
            cors_origins: Vec::new(),
            threads_http: None,
            queue_size: clef_api::EngineConfig::default().queue_capacity,
            answer_cache: 0,
            warmup: None,
            log: LogFlags {
                verbosity: 3,
                disabled: false,
                file: None,
                jsonl: false,
                colors: Colors::Auto,
                prefix: true,
                timestamps: true,
            },
            hooks: Hooks::default(),
            ignored: Vec::new(),
            without_effect: Vec::new(),
        }
    }
}

impl Settings {
    /// How the service is set up.
    ///
    /// # Errors
    /// If flags contradict each other.
    pub fn server_config(&self) -> Result<ServerConfig, String> {
        let mut config = self.http.clone();
        config.listen = match Listen::new(&self.host, self.port) {
            Listen::Tcp { host, port, .. } => Listen::Tcp { host, port, reuse_port: self.reuse_port },
            unix @ Listen::Unix(_) => unix,
        };
        config.tls = super::table::tls(self)?;
        if !self.cors_origins.is_empty() {
            config.cors = Some(Cors { origins: self.cors_origins.clone(), ..self.cors.clone() });
        }
        // One longest body must always find room.
        config.max_bodies_bytes_in_flight =
            config.max_bodies_bytes_in_flight.max(config.max_body_bytes.saturating_mul(2));
        Ok(config)
    }

    /// Whether the address is to be printed: whoever leaves the port to the operating system has to be told which it
    /// is. (A log of JSON on standard output says so itself.)
    pub fn prints_address(&self) -> bool {
        let logged_there = self.log.jsonl && !self.log.disabled && self.log.verbosity >= 3;
        self.port == 0 && !self.host.ends_with(".sock") && !logged_there
    }
}
