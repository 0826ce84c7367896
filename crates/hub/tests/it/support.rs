//! A repository to fetch from, and a folder to fetch into.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clef_hub::{Error, FetchedModel, Hub, HubOptions, ModelRequest, Patience, Progress, Result, Timeouts, Token};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::server::{Reply, Seen, Server, file_reply};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const TOKEN: &str = "hf_secret";

/// Bytes that differ from place to place and from seed to seed.
pub(crate) fn contents(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What to answer instead of what a hub would; none: as a hub would.
type Instead = dyn Fn(&Seen) -> Option<Reply> + Send + Sync;

/// `user/repo` at [`COMMIT`]: a hub that lists it and a host that keeps its files.
pub(crate) struct FakeHub {
    pub(crate) hub: Server,
    pub(crate) cdn: Server,
    files: Arc<Files>,
    instead: Arc<Mutex<Overrides>>,
}

type Files = BTreeMap<String, Vec<u8>>;

#[derive(Default)]
struct Overrides {
    hub: Option<Arc<Instead>>,
    cdn: Option<Arc<Instead>>,
}

impl FakeHub {
    pub(crate) fn start(files: &[(&str, Vec<u8>)]) -> Self {
        let files: Files = files.iter().map(|(path, contents)| ((*path).to_owned(), contents.clone())).collect();
        let files = Arc::new(files);
        let instead = Arc::new(Mutex::new(Overrides::default()));
        let cdn = Server::start({
            let (files, instead) = (Arc::clone(&files), Arc::clone(&instead));
            move |seen| {
                let own = instead.lock().unwrap().cdn.clone();
                own.and_then(|own| own(seen)).unwrap_or_else(|| cdn_reply(&files, seen))
            }
        });
        let hub = Server::start({
            let (files, instead, cdn) = (Arc::clone(&files), Arc::clone(&instead), cdn.url(""));
            move |seen| {
                let own = instead.lock().unwrap().hub.clone();
                own.and_then(|own| own(seen)).unwrap_or_else(|| hub_reply(&files, &cdn, seen))
            }
        });
        Self { hub, cdn, files, instead }
    }

    /// One model of 300 kB, of a size that no buffer divides.
    pub(crate) fn with_one_model() -> Self {
        Self::start(&[("model-Q4_K_M.gguf", contents(1, 300_001))])
    }

    pub(crate) fn on_hub(&self, instead: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) {
        self.instead.lock().unwrap().hub = Some(Arc::new(instead));
    }

    pub(crate) fn on_cdn(&self, instead: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) {
        self.instead.lock().unwrap().cdn = Some(Arc::new(instead));
    }

    pub(crate) fn behave(&self) {
        *self.instead.lock().unwrap() = Overrides::default();
    }

    /// The model of [`with_one_model`](Self::with_one_model).
    pub(crate) fn model(&self) -> Vec<u8> {
        self.files["model-Q4_K_M.gguf"].clone()
    }

    /// The first bytes that were asked for of files, in order.
    pub(crate) fn range_starts(&self) -> Vec<Option<usize>> {
        self.cdn.seen().iter().map(Seen::range_start).collect()
    }
}

/// What the real hub's `GET /api/models/{repo}/revision/{revision}?blobs=true` says, as far as it matters.
pub(crate) fn listing(files: &Files) -> Value {
    let siblings: Vec<Value> = files
        .iter()
        .map(|(path, contents)| {
            let lfs = json!({ "sha256": sha256(contents), "size": contents.len(), "pointerSize": 135 });
            json!({ "rfilename": path, "size": contents.len(), "blobId": "c".repeat(40), "lfs": lfs })
        })
        .collect();
    json!({ "id": "user/repo", "sha": COMMIT, "gated": false, "private": false, "siblings": siblings })
}

pub(crate) fn listing_of(files: &[(&str, &[u8])]) -> Value {
    listing(&files.iter().map(|(path, contents)| ((*path).to_owned(), contents.to_vec())).collect())
}

fn hub_reply(files: &Files, cdn: &str, seen: &Seen) -> Reply {
    let missing = |code: &str| Reply::new(404, "").header("X-Error-Code", code).header("X-Error-Message", "Not found");
    let path = seen.path();
    if let Some(revision) = path.strip_prefix("/api/models/user/repo/revision/") {
        return match revision {
            "main" | "refs%2Fpr%2F1" | COMMIT => Reply::new(200, listing(files).to_string()),
            _ => missing("RevisionNotFound"),
        };
    }
    let Some(file) = path.strip_prefix(&format!("/user/repo/resolve/{COMMIT}/")) else {
        return missing("RepoNotFound");
    };
    let Some(contents) = files.get(file) else {
        return missing("EntryNotFound");
    };
    Reply::new(302, "Found. Redirecting")
        .header("X-Repo-Commit", COMMIT)
        .header("X-Linked-Etag", format!("\"{}\"", sha256(contents)))
        .header("X-Linked-Size", contents.len())
        .header("ETag", "\"not-the-file's\"")
        .header("Location", format!("{cdn}/blob/{}?X-Signature=signature", sha256(contents)))
}

fn cdn_reply(files: &Files, seen: &Seen) -> Reply {
    let wanted = files.values().find(|contents| seen.path() == format!("/blob/{}", sha256(contents)));
    wanted.map_or_else(|| Reply::new(403, "AccessDenied"), |contents| file_reply(seen, contents))
}

/// A folder for caches, gone with the value.
pub(crate) struct Disk(TempDir);

impl Disk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.0.path().join("hub")
    }

    pub(crate) fn repo(&self) -> PathBuf {
        self.cache().join("models--user--repo")
    }

    pub(crate) fn blob(&self, contents: &[u8]) -> PathBuf {
        self.repo().join("blobs").join(sha256(contents))
    }

    pub(crate) fn incomplete(&self, contents: &[u8]) -> PathBuf {
        self.repo().join("blobs").join(format!("{}.incomplete", sha256(contents)))
    }

    pub(crate) fn urls(&self) -> PathBuf {
        self.0.path().join("urls")
    }

    /// Tries again at once; waits long enough for a machine that is busy.
    pub(crate) fn options(&self, endpoint: &str) -> HubOptions {
        let mut options = HubOptions::new(self.cache(), self.urls());
        options.endpoint = endpoint.to_owned();
        options.timeouts = Timeouts {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(5),
            stall: Duration::from_secs(5),
        };
        options.patience = Patience {
            tries: 4,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(4),
            longest_retry_after: Duration::from_secs(1),
        };
        options
    }

    pub(crate) fn hub(&self, fake: &FakeHub) -> Hub {
        Hub::new(self.options(&fake.hub.url(""))).unwrap()
    }

    /// A hub for tests that wait for it to lose patience.
    pub(crate) fn impatient_hub(&self, fake: &FakeHub) -> Hub {
        let mut options = self.options(&fake.hub.url(""));
        options.timeouts.response = Duration::from_millis(200);
        options.timeouts.stall = Duration::from_millis(200);
        Hub::new(options).unwrap()
    }

    pub(crate) fn hub_with_token(&self, fake: &FakeHub) -> Hub {
        let mut options = self.options(&fake.hub.url(""));
        options.token = Some(Token::new(TOKEN).unwrap());
        Hub::new(options).unwrap()
    }

    pub(crate) fn offline_hub(&self) -> Hub {
        let mut options = self.options("http://127.0.0.1:1");
        options.offline = true;
        Hub::new(options).unwrap()
    }

    /// Every file and link below a folder, as paths with slashes, sorted.
    pub(crate) fn files_below(folder: &Path) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(next).into_iter().flatten() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    let path = entry.path().strip_prefix(folder).unwrap().to_owned();
                    files.push(path.to_str().unwrap().replace('\\', "/"));
                }
            }
        }
        files.sort();
        files
    }
}

/// What `huggingface_hub` leaves of one file at `main`.
pub(crate) fn put_as_huggingface_hub_does(disk: &Disk, path: &str, contents: &[u8]) {
    let repo = disk.repo();
    let pointer = repo.join("snapshots").join(COMMIT).join(path);
    for folder in [&repo.join("blobs"), &repo.join("refs"), pointer.parent().unwrap()] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(disk.blob(contents), contents).unwrap();
    std::fs::write(repo.join("refs/main"), COMMIT).unwrap();
    let up = "../".repeat(path.split('/').count() + 1);
    #[cfg(unix)]
    std::os::unix::fs::symlink(format!("{up}blobs/{}", sha256(contents)), pointer).unwrap();
    #[cfg(not(unix))]
    std::fs::copy(disk.blob(contents), pointer).map(|_| drop(up)).unwrap();
}

pub(crate) fn request(text: &str) -> ModelRequest {
    ModelRequest::parse(text).unwrap()
}

/// Fetches without anybody listening.
pub(crate) fn fetch(hub: &Hub, text: &str) -> Result<FetchedModel> {
    hub.fetch_model(&request(text), &mut go_on)
}

pub(crate) fn go_on(_: &Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// What is logged in this thread meanwhile, one event a line, as `WARN words`.
pub(crate) fn logged<T>(act: impl FnOnce() -> T) -> (T, Vec<String>) {
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let sink = Sink::default();
    let writer = sink.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    let result = tracing::subscriber::with_default(subscriber, act);
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    (result, text.lines().map(|line| line.trim().to_owned()).collect())
}

/// The warnings of [`logged`].
pub(crate) fn warnings<T>(act: impl FnOnce() -> T) -> (T, Vec<String>) {
    let (result, mut lines) = logged(act);
    lines.retain(|line| line.starts_with("WARN"));
    (result, lines)
}

/// Holds an error against how errors are printed: with causes that the message does not name, each once.
pub(crate) fn assert_said_once(error: &Error) {
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        assert!(error.message().contains(&one.to_string()), "{error}: {one}");
        cause = one.source();
    }
}

pub(crate) fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
