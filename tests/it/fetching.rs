//! Models that are elsewhere, from a server that imitates the hub's endpoints. What can go wrong on the way is tested in
//! `crates/hub`; here it is that commands and server open what came.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use clef_testkit::{Tiny, bitmap, fixture, tiny};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::command::{Run, in_clean_environment};
use crate::serving::{READY, Running, clef_server};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const REQUEST: &str = r#"{"state": "x", "questions": {"ok": {"type": "noul"}}}"#;

/// A hub with one repository, `user/tiny`, on a free port.
struct FakeHub {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
    gate: Arc<Gate>,
}

/// Holds files back, but not the list of them.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        drop(self.changed.wait_while(self.is_shut.lock().unwrap(), |is_shut| *is_shut).unwrap());
    }
}

impl FakeHub {
    fn start(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (asked, gate) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Gate::default()));
        let (files, seen, passed) = (Arc::new(files), Arc::clone(&asked), Arc::clone(&gate));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (files, seen, gate) = (Arc::clone(&files), Arc::clone(&seen), Arc::clone(&passed));
                std::thread::spawn(move || serve(&stream.unwrap(), &files, &seen, &gate));
            }
        });
        Self { address, asked, gate }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn serve(stream: &TcpStream, files: &[(&str, Vec<u8>)], seen: &Mutex<Vec<String>>, gate: &Gate) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let target = first.split(' ').nth(1).unwrap().to_owned();
    seen.lock().unwrap().push(target.clone());
    let sha256 = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (status, headers, body) = if target.starts_with("/api/models/user/tiny/revision/main") {
        let sibling = |(name, bytes): &(&str, Vec<u8>)| {
            let lfs = json!({"sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 135});
            json!({"rfilename": name, "size": bytes.len(), "blobId": "c".repeat(40), "lfs": lfs})
        };
        let siblings: Vec<Value> = files.iter().map(sibling).collect();
        let listing = json!({"id": "user/tiny", "sha": COMMIT, "gated": false, "siblings": siblings});
        (200, String::new(), listing.to_string().into_bytes())
    } else if target.starts_with("/api/models/user/gated/") {
        (401, "X-Error-Code: GatedRepo\r\n".to_owned(), Vec::new())
    } else {
        gate.pass();
        let name = target.rsplit('/').next().unwrap();
        match files.iter().find(|(known, _)| *known == name) {
            Some((_, bytes)) => {
                let etag = sha256(bytes);
                (200, format!("ETag: \"{etag}\"\r\nX-Repo-Commit: {COMMIT}\r\n"), bytes.clone())
            }
            None => (404, "X-Error-Code: RepoNotFound\r\n".to_owned(), Vec::new()),
        }
    };
    let head = format!("HTTP/1.1 {status} -\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}

fn tiny_hub() -> FakeHub {
    FakeHub::start(vec![
        ("clef-tiny-Q4_K_M.gguf", std::fs::read(tiny(Tiny::Q4_K_M)).unwrap()),
        ("clef-tiny-Q8_0.gguf", std::fs::read(tiny(Tiny::Q8_0)).unwrap()),
        ("mmproj-clef-tiny-F16.gguf", std::fs::read(fixture("clef-tiny/mmproj-clef-tiny-f16.gguf")).unwrap()),
    ])
}

/// Runs `clef decide` with a cache of its own.
fn decide(hub: &FakeHub, cache: &std::path::Path, flags: &[&str]) -> Run {
    let mut command = in_clean_environment(env!("CARGO_BIN_EXE_clef"));
    command.arg("decide").args(["-t", "1"]).args(flags);
    command.env("HF_ENDPOINT", &hub.address).env("HF_HUB_CACHE", cache.join("hub")).env("XDG_CACHE_HOME", cache);
    command.env("NO_PROXY", "127.0.0.1");
    let request = cache.join("request.json");
    std::fs::write(&request, REQUEST).unwrap();
    let output = command.arg(request).output().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_model_of_the_hub_is_fetched_once_and_opened_with_its_projector() {
    let (hub, cache) = (tiny_hub(), tempfile::tempdir().unwrap());
    let first = decide(&hub, cache.path(), &["-hf", "user/tiny"]);
    let reply: Value = serde_json::from_str(first.succeeds()).unwrap();
    assert_eq!(reply["model"], "user/tiny");
    let local = decide(&hub, cache.path(), &["-m", tiny(Tiny::Q4_K_M).to_str().unwrap()]);
    let local: Value = serde_json::from_str(local.succeeds()).unwrap();
    assert_eq!(reply["answers"], local["answers"]);
    let asked = hub.asked();
    // Model, projector, and the list of files.
    assert_eq!(asked, 3, "{:?}", hub.asked.lock().unwrap());

    let again = decide(&hub, cache.path(), &["-hf", "user/tiny", "--offline"]);
    assert_eq!(again.succeeds(), first.stdout);
    assert_eq!(hub.asked(), asked, "nobody is asked offline");
    let picture = cache.path().join("picture.bmp");
    std::fs::write(&picture, bitmap(64, 64, |x, _| [x as u8, 0, 0])).unwrap();
    let seen = decide(&hub, cache.path(), &["-hf", "user/tiny", "--image", picture.to_str().unwrap()]);
    assert!(seen.succeeds().contains("answers"), "{}", seen.stderr);

    let other = decide(&hub, cache.path(), &["-hf", "user/tiny:q8_0", "-a", "mine"]);
    let other: Value = serde_json::from_str(other.succeeds()).unwrap();
    assert_eq!(other["model"], "mine");
    assert_ne!(other["answers"], reply["answers"]);
}

#[test]
fn a_model_at_a_url_is_fetched_once() {
    let (hub, cache) = (tiny_hub(), tempfile::tempdir().unwrap());
    let url = format!("{}/files/clef-tiny-Q8_0.gguf", hub.address);
    let projector = format!("{}/files/mmproj-clef-tiny-F16.gguf", hub.address);
    let picture = cache.path().join("picture.bmp");
    std::fs::write(&picture, bitmap(64, 64, |x, _| [x as u8, 0, 0])).unwrap();
    let fetched = ["-a", "x", "--image", picture.to_str().unwrap(), "-mu", &url, "-mmu", &projector];
    let first = decide(&hub, cache.path(), &fetched);
    let (model, projector) = (tiny(Tiny::Q8_0), fixture("clef-tiny/mmproj-clef-tiny-f16.gguf"));
    let mut local = fetched;
    (local[4], local[5], local[6], local[7]) = ("-m", model.to_str().unwrap(), "-mm", projector.to_str().unwrap());
    assert_eq!(first.succeeds(), decide(&hub, cache.path(), &local).succeeds());
    let asked: Vec<String> = hub.asked.lock().unwrap().clone();
    for name in ["/files/clef-tiny-Q8_0.gguf", "/files/mmproj-clef-tiny-F16.gguf"] {
        assert!(asked.iter().any(|target| target == name), "{asked:?}");
    }
    let again = decide(&hub, cache.path(), &[&fetched[..], &["--offline"]].concat());
    assert_eq!(again.succeeds(), first.stdout);
    assert_eq!(hub.asked(), asked.len());
}

#[test]
fn what_is_not_to_be_had_is_one_line_of_error() {
    let (hub, cache) = (tiny_hub(), tempfile::tempdir().unwrap());
    for (flags, words) in [
        (&["-hf", "user/tiny:Q5_K_M"][..], &["Q5_K_M", "Q4_K_M", "Q8_0"][..]),
        (&["-hf", "user/gated"], &["user/gated", "HF_TOKEN"]),
        (&["-hf", "user/nothing"], &["user/nothing"]),
        (&["-hf", "user/tiny", "-hff", "no.gguf"], &["no.gguf"]),
        (&["-hf", "user/tiny", "--offline"], &["user/tiny"]),
        (&["-m", "no-such.gguf", "-mmu", &hub.address], &["cannot open no-such.gguf"]),
    ] {
        let run = decide(&hub, cache.path(), flags);
        assert_eq!(run.code, Some(1), "{flags:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{flags:?}: {}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{flags:?}: {}", run.stderr);
    }
}

#[test]
fn names_that_cannot_be_are_refused_before_anybody_is_asked() {
    let (hub, cache) = (tiny_hub(), tempfile::tempdir().unwrap());
    for (flags, words) in [
        (&["-hf", "not a name"][..], "not a name"),
        (&["-hf", "user/tiny", "-m", "x.gguf"], "give one of --model, --hf-repo and --model-url"),
        (&["-hff", "x.gguf"], "--hf-repo, which is not given"),
        (&["-hf", "user/tiny", "-hff", "../../x.gguf"], "../../x.gguf"),
        (&["-mu", "ftp://x/y.gguf?sig=secret"], "--model-url: expected a URL"),
        (&["-mu", "https://"], "https://"),
        (&["-hf", "user/tiny", "-hft", "not a token"], "--hf-token"),
    ] {
        let run = decide(&hub, cache.path(), flags);
        assert_eq!(run.code, Some(2), "{flags:?}: {}", run.stderr);
        assert!(
            run.stderr.contains(words) && !run.stderr.contains("not a token") && !run.stderr.contains("secret"),
            "{flags:?}: {}",
            run.stderr
        );
        let server = clef_server(flags);
        assert_eq!(server.code, Some(1), "{flags:?}: {}", server.stderr);
        assert_eq!(server.stderr.lines().count(), 1, "{flags:?}: {}", server.stderr);
    }
    assert_eq!(hub.asked(), 0);
}

#[test]
fn a_token_is_in_no_log() {
    let (hub, cache) = (tiny_hub(), tempfile::tempdir().unwrap());
    let flags = ["-hf", "user/tiny:Q8_0", "--no-mmproj", "-hft", "hf_abcdefghijklmnop", "-vvv"];
    let run = decide(&hub, cache.path(), &flags);
    run.succeeds();
    // The log is there, and has not even a part of it.
    assert!(run.stderr.contains("TRACE") || run.stderr.contains("DEBUG"), "{}", run.stderr);
    for part in ["hf_abcd", "efghijkl", "mnop", "earer"] {
        assert!(!run.stderr.contains(part), "{part}");
    }
}

#[test]
fn the_server_fetches_while_its_port_answers() {
    let (hub, cache) = (tiny_hub(), tempfile::tempdir().unwrap());
    let environment = [
        ("HF_ENDPOINT", hub.address.as_str()),
        ("HF_HUB_CACHE", cache.path().to_str().unwrap()),
        ("NO_PROXY", "127.0.0.1"),
    ];
    hub.gate.shut(true);
    let flags = ["-hf", "user/tiny:Q8_0", "-t", "1", "--port", "0"];
    let mut server = Running::in_environment(&environment, &flags);
    server.wait_for("fetching");
    let early = server.get("/health");
    assert_eq!(early.status, 503, "{early:?}");
    assert_eq!(server.post("/v1/systemone", REQUEST).status, 503);
    hub.gate.shut(false);
    server.wait_for(READY);
    let answer = server.post("/v1/systemone", REQUEST);
    assert_eq!((answer.status, &answer.json()["model"]), (200, &"user/tiny:Q8_0".into()), "{answer:?}");
    assert_eq!(server.get("/props").json()["modalities"]["vision"], true);
    assert_eq!(server.get("/health").status, 200);
}

#[test]
fn a_server_that_fetches_ends_when_told_to() {
    let (hub, cache) = (tiny_hub(), tempfile::tempdir().unwrap());
    hub.gate.shut(true);
    let environment = [
        ("HF_ENDPOINT", hub.address.as_str()),
        ("HF_HUB_CACHE", cache.path().to_str().unwrap()),
        ("NO_PROXY", "127.0.0.1"),
    ];
    let server = Running::in_environment(&environment, &["-hf", "user/tiny:Q8_0", "-t", "1", "--port", "0"]);
    let (code, log) = server.terminate();
    assert_eq!(code, Some(0), "{log}");
}
