//! How a hub is set up: plain data, from the environment variables that other tools read.
//!
//! The variables and their order are those of `huggingface_hub`, after the two with which llama.cpp overrides them, so
//! that what one of them has fetched is found here, and the other way round.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::url::{Url, shown};

/// Where the hub is unless something else is said.
pub(crate) const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

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
    /// For advice that helps.
    origin: Origin,
}

/// What the environment said of options, so that messages name what decides.
#[derive(Debug, Clone, Default)]
struct Origin {
    /// The folder for files of repositories.
    cache: Option<ChosenFolder>,
    /// The folder for files from plain URLs.
    url_cache: Option<ChosenFolder>,
    /// Why there is no token though one was set.
    token_fault: Option<String>,
}

/// A folder that the environment chose.
#[derive(Debug, Clone)]
struct ChosenFolder {
    path: PathBuf,
    /// What to set for another.
    variable: &'static str,
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

/// An access token. Its value is not displayed, nor logged by this crate.
///
/// The libraries below have logs of their own, and at their lowest levels those show requests as they are sent, the
/// `Authorization` header among them: whoever sets up logging keeps `ureq` and `ureq_proto` below `DEBUG` to itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A token, without the white space around it.
    ///
    /// # Errors
    /// If nothing is left, or something that cannot stand in a header. The message does not repeat it.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        let fault = if text.is_empty() {
            "it is empty".to_owned()
        } else if text.len() > MAX_TOKEN_BYTES {
            format!("it has {} bytes, the limit is {MAX_TOKEN_BYTES}", text.len())
        } else if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            "it holds a character that no token has, such as a space".to_owned()
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(Error::new(ErrorKind::InvalidRequest, format_args!("what was given as a token is not one: {fault}")))
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
            origin: Origin::default(),
        }
    }

    /// The options that environment variables say, for a `lookup` such as `std::env::var_os`.
    ///
    /// Of each, the first that is set and not empty:
    ///
    /// - cache: `LLAMA_CACHE`, `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `$HF_HOME/hub`,
    ///   `$XDG_CACHE_HOME/huggingface/hub`, `~/.cache/huggingface/hub`
    /// - cache of URLs: `$XDG_CACHE_HOME/clef-server/models`, `~/.cache/clef-server/models`
    /// - endpoint: `MODEL_ENDPOINT`, `HF_ENDPOINT`
    /// - token: `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, the file `HF_TOKEN_PATH`, the file `token` in `HF_HOME`; none
    ///   with `HF_HUB_DISABLE_IMPLICIT_TOKEN`
    /// - offline: `HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`: `1`, `on`, `yes` or `true`
    /// - proxies: `https_proxy`, `HTTPS_PROXY` or `http_proxy`, `HTTP_PROXY`; `all_proxy`, `ALL_PROXY`; `no_proxy`,
    ///   `NO_PROXY`
    ///
    /// A token that is not one is as good as none, for most runs need none: [`Hub::new`](crate::Hub::new) warns of it,
    /// unless it is offline or another was put in its place.
    ///
    /// Certificates for TLS are those of the system; `SSL_CERT_FILE` and `SSL_CERT_DIR` are read from the environment
    /// of the process when the first connection is made. Where there are none, Mozilla's are used.
    ///
    /// # Errors
    /// If no folder for caches can be found.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let environment = Environment { lookup };
        let (cache, url_cache) = environment.cache_dirs()?;
        let defaults = Self::new(cache.path.clone(), url_cache.path.clone());
        let (token, token_fault) = match environment.token() {
            Ok(token) => (token, None),
            Err(fault) => (None, Some(fault)),
        };
        Ok(Self {
            endpoint: environment.text(&["MODEL_ENDPOINT", "HF_ENDPOINT"]).unwrap_or(defaults.endpoint),
            token,
            origin: Origin { cache: Some(cache), url_cache: Some(url_cache), token_fault },
            offline: environment.is_true(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]),
            proxies: environment.proxies(),
            ..defaults
        })
    }

    /// The endpoint, without the slash that it may end with.
    pub(crate) fn endpoint_url(&self) -> Result<Url> {
        Url::parse(self.endpoint.trim_end_matches('/'))
            .map_err(|error| error.with_advice("the hub's address is set by HF_ENDPOINT"))
    }

    /// The variable to set for another [`cache_dir`](Self::cache_dir), if the environment chose this one.
    pub(crate) fn cache_variable(&self) -> Option<&'static str> {
        variable_of(&self.cache_dir, self.origin.cache.as_ref())
    }

    /// The variable to set for another [`url_cache_dir`](Self::url_cache_dir), if the environment chose this one.
    pub(crate) fn url_cache_variable(&self) -> Option<&'static str> {
        variable_of(&self.url_cache_dir, self.origin.url_cache.as_ref())
    }

    /// Why there is no token though one was set, if one may be wanted.
    pub(crate) fn token_fault(&self) -> Option<&str> {
        self.origin.token_fault.as_deref().filter(|_| self.token.is_none() && !self.offline)
    }
}

fn variable_of(folder: &Path, origin: Option<&ChosenFolder>) -> Option<&'static str> {
    origin.filter(|chosen| chosen.path == folder).map(|chosen| chosen.variable)
}

/// The environment, by way of a function.
struct Environment<F> {
    lookup: F,
}

impl<F: Fn(&str) -> Option<OsString>> Environment<F> {
    /// The first of some variables that is set and not empty.
    fn value(&self, names: &[&str]) -> Option<OsString> {
        names.iter().filter_map(|name| (self.lookup)(name)).find(|value| !value.to_string_lossy().trim().is_empty())
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

    /// The folder for files of repositories, and the one for files from plain URLs.
    fn cache_dirs(&self) -> Result<(ChosenFolder, ChosenFolder)> {
        let cache = ["LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"]
            .into_iter()
            .find_map(|name| Some(ChosenFolder { path: self.path(&[name])?, variable: name }))
            .or_else(|| Some(ChosenFolder { path: self.hub_home()?.join("hub"), variable: "HF_HOME" }));
        // Whoever names one folder for models and has no home means that one for all of them.
        let url_cache = self
            .user_cache()
            .map(|cache| cache.join("clef-server").join("models"))
            .or_else(|| Some(cache.as_ref()?.path.join("clef-server")));
        match (cache, url_cache) {
            (Some(cache), Some(path)) => Ok((cache, ChosenFolder { path, variable: "XDG_CACHE_HOME" })),
            _ => Err(Error::new(
                ErrorKind::InvalidRequest,
                "no folder to keep models in: neither HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME nor HOME is set",
            )),
        }
    }

    /// The token, if there is one; or why what is there is not one, without what it is.
    fn token(&self) -> Result<Option<Token>, String> {
        if self.is_true(&["HF_HUB_DISABLE_IMPLICIT_TOKEN"]) {
            return Ok(None);
        }
        for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
            if let Some(value) = self.value(&[name]) {
                let token = Token::new(&value.to_string_lossy());
                return token.map(Some).map_err(|error| format!("{error} (it is the value of {name})"));
            }
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
fn token_from_file(file: &Path) -> Result<Option<Token>, String> {
    let mut text = String::new();
    // A little more than a token has is enough to tell that it is not one.
    let limit = 2 * MAX_TOKEN_BYTES as u64;
    match File::open(file).and_then(|opened| opened.take(limit).read_to_string(&mut text)) {
        Ok(_) if text.trim().is_empty() => Ok(None),
        Ok(_) => Token::new(&text).map(Some).map_err(|error| format!("{error} (it was read from {})", file.display())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(format!("the token in {} cannot be read: {error}", file.display())),
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
    fn what_is_not_a_token_is_refused_and_no_token_is_displayed() {
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
    fn what_is_not_a_token_is_no_token_and_is_named_without_its_value() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let file = folder.path().join("token");
        let set = |variables: &[(&str, &str)]| options(&[&[("HF_HOME", home)], variables].concat()).unwrap();
        for bad in ["bad secret", "sécret", &"secret".repeat(1_000)] {
            let options = set(&[("HF_TOKEN", bad)]);
            assert_eq!(options.token, None);
            let fault = options.token_fault().unwrap();
            assert!(fault.contains("HF_TOKEN") && !fault.contains("cret"), "{fault}");
            std::fs::write(&file, bad).unwrap();
            let fault = set(&[]).token_fault().unwrap().to_owned();
            assert!(fault.contains(file.to_str().unwrap()) && !fault.contains("cret"), "{fault}");
        }
        std::fs::write(&file, b"\xff\xfe").unwrap();
        assert!(set(&[]).token_fault().unwrap().contains("cannot be read: "));
        assert!(set(&[("HF_HUB_OFFLINE", "1")]).token_fault().is_none(), "nobody is shown it");
        let mut with_another = set(&[]);
        with_another.token = Some(Token::new("hf_other").unwrap());
        assert!(with_another.token_fault().is_none());
        assert!(set(&[("HF_TOKEN_PATH", home)]).token_fault().is_some(), "a folder");
    }

    #[test]
    fn an_empty_token_is_not_set() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("token"), " \n").unwrap();
        for empty in ["", " ", "\n"] {
            let options = options(&[("HF_HOME", home), ("HF_TOKEN", empty)]).unwrap();
            assert_eq!((options.token.as_ref(), options.token_fault()), (None, None));
            let other = self::options(&[("HF_HOME", home), ("HF_TOKEN", empty), ("HUGGING_FACE_HUB_TOKEN", "hf_old")]);
            assert_eq!(other.unwrap().token.unwrap().0, "hf_old");
        }
    }

    #[test]
    fn the_variable_that_moves_a_cache_is_known() {
        let home = [("HOME", "/none/home"), ("USERPROFILE", "/none/home")];
        for (variables, expected) in [
            (&[][..], "HF_HOME"),
            (&[("XDG_CACHE_HOME", "/none/xdg")], "HF_HOME"),
            (&[("HF_HOME", "/none/hf")], "HF_HOME"),
            (&[("HF_HOME", "/none/hf"), ("HF_HUB_CACHE", "/none/hub")], "HF_HUB_CACHE"),
            (&[("HF_HUB_CACHE", "/none/hub"), ("LLAMA_CACHE", "/none/llama")], "LLAMA_CACHE"),
        ] {
            let mut options = options(&[&home, variables].concat()).unwrap();
            assert_eq!(options.cache_variable(), Some(expected));
            assert_eq!(options.url_cache_variable(), Some("XDG_CACHE_HOME"));
            (options.cache_dir, options.url_cache_dir) = ("/none/other".into(), "/none/other".into());
            assert_eq!((options.cache_variable(), options.url_cache_variable()), (None, None));
        }
        assert_eq!(HubOptions::new("/none", "/none").cache_variable(), None);
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
