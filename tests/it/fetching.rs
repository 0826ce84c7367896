//! Models that are elsewhere, from a server that imitates the hub's endpoints. What can go wrong on the way is tested in
//! `crates/hub`; here it is that commands and server open what came.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use clef_testkit::{Tiny, bitmap, fixture, tiny};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::command::{Run, in_clean_environment};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const REQUEST: &str = r#"{"state": "x", "questions": {"ok": {"type": "noul"}}}"#;

/// A hub with one repository, `user/tiny`, on a free port.
struct FakeHub {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeHub {
    fn start(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (files, seen) = (Arc::new(files), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (files, seen) = (Arc::clone(&files), Arc::clone(&seen));
                std::thread::spawn(move || serve(&stream.unwrap(), &files, &seen));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn serve(stream: &TcpStream, files: &[(&str, Vec<u8>)], seen: &Mutex<Vec<String>>) {
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
    let first = decide(&hub, cache.path(), &["-mu", &url, "-mmu", &projector]);
    assert!(first.succeeds().contains("answers"), "{}", first.stderr);
    let asked = hub.asked();
    let again = decide(&hub, cache.path(), &["-mu", &url, "--offline"]);
    assert_eq!(again.succeeds(), first.stdout);
    assert_eq!(hub.asked(), asked);
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
        (&["-hf", "not a name"], &["not a name"]),
        (&["-hf", "user/tiny", "-m", "x.gguf"], &["give one of --model, --hf-repo and --model-url"]),
        (&["-hff", "x.gguf"], &["--hf-repo, which is not given"]),
        (&["-mu", "ftp://x/y.gguf"], &["ftp://x/y.gguf"]),
    ] {
        let run = decide(&hub, cache.path(), flags);
        assert_eq!(run.code, Some(1), "{flags:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{flags:?}: {}", run.stderr);
        assert!(words.iter().all(|word| run.stderr.contains(word)), "{flags:?}: {}", run.stderr);
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
    let server = crate::serving::serving_in(&environment, &["-hf", "user/tiny:Q8_0", "-t", "1", "--port", "0"]);
    let answer = server.post("/v1/systemone", REQUEST);
    assert_eq!((answer.status, &answer.json()["model"]), (200, &"user/tiny:Q8_0".into()), "{answer:?}");
    assert_eq!(server.get("/props").json()["modalities"]["vision"], true);
}
