//! How a hub is set up: plain data, from the environment variables that other tools read.
//!
//! The variables and their order are those of `huggingface_hub`, after the two with which llama.cpp overrides them, so
//! that what one of them has fetched is found here, and the other way round.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::url::{Url, shown};

/// Where the hub is unless something else is said.
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// A token file is one short line; what is longer is something else.
const MAX_TOKEN_BYTES: usize = 4_096;

/// Everything a [`Hub`](crate::Hub) is told before it starts. Debugged, it shows no secrets.
#[derive(Clone)]
pub struct HubOptions {
    /// Where the hub is, as `https://huggingface.co`.
    pub endpoint: String,
    /// Shown to the endpoint, and to nobody else.
    pub token: Option<Token>,
    /// The folder of `models--user--repo` folders that tools share.
    pub cache_dir: PathBuf,
    /// The folder for files from plain URLs.
    pub url_cache_dir: PathBuf,
    /// No request is made; only what the caches hold is found.
    pub offline: bool,
    /// The `User-Agent` of every request, visible ASCII.
    pub user_agent: String,
    /// Through whom requests go.
    pub proxies: Proxies,
    /// How long to wait for the other side.
    pub timeouts: Timeouts,
    /// How often to try again.
    pub patience: Patience,
}

/// Through whom requests go: addresses as `http://user:password@host:port`. Debugged, they show no password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For addresses that begin with `http:`.
    pub http: Option<String>,
    /// For addresses that begin with `https:`.
    pub https: Option<String>,
    /// Hosts that are asked directly: `host`, `.domain` (and what is below), `*`.
    pub exceptions: Vec<String>,
}

/// How long to wait for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, TLS included. 15 seconds by default.
    pub connect: Duration,
    /// For the status and the headers of a response; twice that for a list of files. 30 seconds by default.
    pub response: Duration,
    /// For the next bytes of a file; a transfer that brings less than 4 KiB in twice that time is given up too. 30
    /// seconds by default. A callback that says to stop is heard no later than after this time.
    pub stall: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(15), response: Duration::from_secs(30), stall: Duration::from_secs(30) }
    }
}

/// How often to try again what may succeed a moment later: broken transfers, and responses that say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Tries in a row that bring nothing new; a try that brings 1 MiB begins the count anew. 6 by default.
    pub tries: u32,
    /// The pause after the first; each is twice as long as the one before. Half a second by default.
    pub first_pause: Duration,
    /// The longest pause that is chosen here. 15 seconds by default.
    pub longest_pause: Duration,
    /// The longest pause that the other side may ask for (`Retry-After`); more is an error at once. 5 minutes by
    /// default.
    pub longest_retry_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            tries: 6,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(15),
            longest_retry_after: Duration::from_secs(300),
        }
    }
}

/// An access token. Its value is not displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token, without the white space around it.
    ///
    /// # Errors
    /// If nothing is left, or something that cannot stand in a header.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        let is_sound = !text.is_empty() && text.len() <= MAX_TOKEN_BYTES && text.bytes().all(|b| b.is_ascii_graphic());
        if !is_sound {
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                "the token is empty, too long, or holds characters that no token has; check HF_TOKEN or -hft",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    pub(crate) fn header_value(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies")
            .field("http", &self.http.as_deref().map(shown))
            .field("https", &self.https.as_deref().map(shown))
            .field("exceptions", &self.exceptions)
            .finish()
    }
}

impl fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubOptions")
            .field("endpoint", &shown(&self.endpoint))
            .field("token", &self.token)
            .field("cache_dir", &self.cache_dir)
            .field("url_cache_dir", &self.url_cache_dir)
            .field("offline", &self.offline)
            .field("user_agent", &self.user_agent)
            .field("proxies", &self.proxies)
            .field("timeouts", &self.timeouts)
            .field("patience", &self.patience)
            .finish()
    }
}

impl HubOptions {
    /// The defaults, with two folders for caches; no environment variable and no file is read.
    pub fn new(cache_dir: impl Into<PathBuf>, url_cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: DEFAULT_ENDPOINT.to_owned(),
            token: None,
            cache_dir: cache_dir.into(),
            url_cache_dir: url_cache_dir.into(),
            offline: false,
            user_agent: concat!("clef-hub/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxies: Proxies::default(),
            timeouts: Timeouts::default(),
            patience: Patience::default(),
        }
    }

    /// The options that environment variables say, for a `lookup` such as `std::env::var_os`.
    ///
    /// | What | Variables, the first that is set and not empty |
    /// |---|---|
    /// | cache | `LLAMA_CACHE`, `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `$HF_HOME/hub`, `$XDG_CACHE_HOME/huggingface/hub`, `~/.cache/huggingface/hub` |
    /// | cache of URLs | `$XDG_CACHE_HOME/clef-server/models`, `~/.cache/clef-server/models` |
    /// | endpoint | `MODEL_ENDPOINT`, `HF_ENDPOINT` |
    /// | token | `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, the file `HF_TOKEN_PATH`, the file `token` in `HF_HOME`; none with `HF_HUB_DISABLE_IMPLICIT_TOKEN` |
    /// | offline | `HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`: `1`, `on`, `yes` or `true` |
    /// | proxies | `https_proxy`, `HTTPS_PROXY` or `http_proxy`, `HTTP_PROXY`; `all_proxy`, `ALL_PROXY`; `no_proxy`, `NO_PROXY` |
    ///
    /// Certificates for TLS are those of the system; `SSL_CERT_FILE` and `SSL_CERT_DIR` are read from the environment
    /// of the process when the first connection is made. Where there are none, Mozilla's are used.
    ///
    /// # Errors
    /// If no folder for caches can be found, or a token is none, or its file cannot be read.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let environment = Environment { lookup };
        let (cache_dir, url_cache_dir) = environment.cache_dirs()?;
        let defaults = Self::new(cache_dir, url_cache_dir);
        Ok(Self {
            endpoint: environment.text(&["MODEL_ENDPOINT", "HF_ENDPOINT"]).unwrap_or(defaults.endpoint),
            token: environment.token()?,
            offline: environment.is_true(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]),
            proxies: environment.proxies(),
            ..defaults
        })
    }

    /// The endpoint, without the slash that it may end with.
    pub(crate) fn endpoint_url(&self) -> Result<Url> {
        Url::parse(self.endpoint.trim_end_matches('/')).map_err(|error| {
            let message = format!("{}; the hub's address is set by HF_ENDPOINT", error.message());
            error.with_message(message)
        })
    }
}

/// The environment, by way of a function.
struct Environment<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<OsString>> Environment<F> {
    /// The first of some variables that is set and not empty.
    fn value(&self, names: &[&str]) -> Option<OsString> {
        names.iter().filter_map(|name| (self.lookup)(name)).find(|value| !value.is_empty())
    }

    fn text(&self, names: &[&str]) -> Option<String> {
        let text = self.value(names)?.into_string().ok()?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    fn is_true(&self, names: &[&str]) -> bool {
        self.text(names).is_some_and(|text| ["1", "on", "yes", "true"].contains(&text.to_ascii_lowercase().as_str()))
    }

    fn home(&self) -> Option<PathBuf> {
        let names: &[&str] = if cfg!(windows) { &["USERPROFILE", "HOME"] } else { &["HOME"] };
        self.value(names).map(PathBuf::from)
    }

    /// A path that may begin with `~/`, as shells write it and Python expands it.
    fn path(&self, names: &[&str]) -> Option<PathBuf> {
        let path = PathBuf::from(self.value(names)?);
        match (path.strip_prefix("~"), self.home()) {
            (Ok(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(path),
        }
    }

    /// What other tools call the cache of a user.
    fn user_cache(&self) -> Option<PathBuf> {
        self.path(&["XDG_CACHE_HOME"]).or_else(|| Some(self.home()?.join(".cache")))
    }

    fn hub_home(&self) -> Option<PathBuf> {
        self.path(&["HF_HOME"]).or_else(|| Some(self.user_cache()?.join("huggingface")))
    }

    fn cache_dirs(&self) -> Result<(PathBuf, PathBuf)> {
        let cache = self
            .path(&["LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"])
            .or_else(|| Some(self.hub_home()?.join("hub")));
        // Whoever names one folder for models and has no home means that one for all of them.
        let url_cache = self
            .user_cache()
            .map(|cache| cache.join("clef-server").join("models"))
            .or_else(|| Some(cache.as_ref()?.join("clef-server")));
        match (cache, url_cache) {
            (Some(cache), Some(url_cache)) => Ok((cache, url_cache)),
            _ => Err(Error::new(
                ErrorKind::InvalidRequest,
                "no folder to keep models in: neither HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME nor HOME is set",
            )),
        }
    }

    fn token(&self) -> Result<Option<Token>> {
        if self.is_true(&["HF_HUB_DISABLE_IMPLICIT_TOKEN"]) {
            return Ok(None);
        }
        if let Some(text) = self.text(&["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]) {
            return Token::new(&text).map(Some);
        }
        let file = self.path(&["HF_TOKEN_PATH"]).or_else(|| Some(self.hub_home()?.join("token")));
        file.map_or(Ok(None), |file| token_from_file(&file))
    }

    fn proxies(&self) -> Proxies {
        let all = ["all_proxy", "ALL_PROXY"];
        let either = |own: [&str; 2]| self.text(&[own[0], own[1], all[0], all[1]]);
        let exceptions = self.text(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
        let exceptions = exceptions.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        Proxies {
            http: either(["http_proxy", "HTTP_PROXY"]),
            https: either(["https_proxy", "HTTPS_PROXY"]),
            exceptions: exceptions.map(str::to_owned).collect(),
        }
    }
}

/// The token that a login has left; no such file, no token.
fn token_from_file(file: &Path) -> Result<Option<Token>> {
    match std::fs::read_to_string(file) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Token::new(&text).map(Some).map_err(|error| {
            let message = format!("{} (read from {})", error.message(), file.display());
            error.with_message(message)
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read the token in", file, error)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "in a test a failed expectation is the message")]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> Result<HubOptions> {
        HubOptions::from_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn cache_dir(variables: &[(&str, &str)]) -> String {
        options(variables).unwrap().cache_dir.display().to_string().replace('\\', "/")
    }

    #[test]
    fn the_cache_is_where_other_tools_look_for_it() {
        let mut variables = vec![("HOME", "/none/home"), ("USERPROFILE", "/none/home")];
        assert_eq!(cache_dir(&variables), "/none/home/.cache/huggingface/hub");
        for (name, value, expected) in [
            ("XDG_CACHE_HOME", "/none/xdg", "/none/xdg/huggingface/hub"),
            ("HF_HOME", "~/hf", "/none/home/hf/hub"),
            ("HUGGINGFACE_HUB_CACHE", "/none/old", "/none/old"),
            ("HF_HUB_CACHE", "/none/new", "/none/new"),
            ("LLAMA_CACHE", "/none/llama", "/none/llama"),
        ] {
            variables.push((name, ""));
            let before = cache_dir(&variables);
            variables.pop();
            variables.push((name, value));
            assert_eq!(cache_dir(&variables), expected);
            assert_ne!(before, expected, "an empty {name} is not set");
        }
    }

    #[test]
    fn without_a_home_there_must_be_a_cache() {
        assert_eq!(options(&[]).unwrap_err().kind(), ErrorKind::InvalidRequest);
        let options = options(&[("HF_HUB_CACHE", "/none")]).unwrap();
        assert!(options.url_cache_dir.starts_with("/none"), "{}", options.url_cache_dir.display());
    }

    #[test]
    fn a_token_comes_from_a_variable_or_from_the_file_of_a_login() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        assert_eq!(options(&[("HF_HOME", home)]).unwrap().token, None);
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        let token = |variables: &[(&str, &str)]| options(variables).unwrap().token.map(|token| token.0);
        assert_eq!(token(&[("HF_HOME", home)]).as_deref(), Some("hf_file"));
        assert_eq!(token(&[("HF_HOME", home), ("HF_TOKEN", " hf_variable\n")]).as_deref(), Some("hf_variable"));
        assert_eq!(token(&[("HF_HOME", home), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "Yes")]), None);
        let elsewhere = folder.path().join("other");
        std::fs::write(&elsewhere, "hf_other").unwrap();
        let elsewhere = elsewhere.to_str().unwrap();
        assert_eq!(token(&[("HF_HOME", home), ("HF_TOKEN_PATH", elsewhere)]).as_deref(), Some("hf_other"));
    }

    #[test]
    fn a_token_that_is_none_is_refused_and_no_token_is_displayed() {
        for text in ["", "  ", "a b", "a\r\nX-Other: 1", "é", &"a".repeat(5_000)] {
            assert_eq!(Token::new(text).unwrap_err().kind(), ErrorKind::InvalidRequest, "{text:?}");
        }
        let mut options = HubOptions::new("/none", "/none");
        options.token = Some(Token::new("hf_secret").unwrap());
        options.endpoint = "https://user:secret@host".to_owned();
        options.proxies.https = Some("http://user:secret@proxy:1".to_owned());
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn proxies_and_offline_are_read_as_other_tools_read_them() {
        let options = options(&[
            ("HOME", "/none"),
            ("USERPROFILE", "/none"),
            ("HF_HOME", "/none"),
            ("HF_ENDPOINT", "https://mirror.example/"),
            ("HF_HUB_OFFLINE", "TRUE"),
            ("HTTPS_PROXY", "http://secure:1"),
            ("ALL_PROXY", "http://all:2"),
            ("no_proxy", "localhost, .internal"),
        ])
        .unwrap();
        assert!(options.offline);
        assert_eq!(options.endpoint_url().unwrap().to_string(), "https://mirror.example/");
        let proxies = Proxies {
            http: Some("http://all:2".to_owned()),
            https: Some("http://secure:1".to_owned()),
            exceptions: vec!["localhost".to_owned(), ".internal".to_owned()],
        };
        assert_eq!(options.proxies, proxies);
    }
}
