//! Servers that mean harm, or are nothing of the kind: no panic, no endless loop, no memory without bound, and nothing
//! outside the cache.

use std::time::{Duration, Instant};

use clef_hub::{ErrorKind, Hub};
use serde_json::{Value, json};

use crate::server::{End, Reply, Server};
use crate::support::{COMMIT, Disk, FakeHub, contents, fetch, go_on, listing_of, read, sha256};

/// A hub that lists this.
fn listing(value: &Value) -> FakeHub {
    let fake = FakeHub::with_one_model();
    let text = value.to_string();
    fake.on_hub(move |seen| seen.path().starts_with("/api/").then(|| Reply::new(200, text.clone())));
    fake
}

#[test]
fn names_that_lead_out_of_the_cache_are_left_out() {
    let evil =
        ["../../../evil.gguf", "/tmp/evil.gguf", "a/../../evil.gguf", "..\\evil.gguf", "evil\u{0}.gguf", "a//b.gguf"];
    let mut files: Vec<(&str, &[u8])> = evil.iter().map(|name| (*name, &b"evil"[..])).collect();
    let error = fetch(&Disk::new().hub(&listing(&listing_of(&files))), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileNotFound);
    assert!(error.message().starts_with("user/repo has no GGUF file that is a model"), "{error}");
    let good = contents(1, 300_001);
    files.push(("model-Q4_K_M.gguf", &good));
    let fake = listing(&listing_of(&files));
    let disk = Disk::new();
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), good);
    assert!(Disk::files_below(&disk.cache()).iter().all(|file| !file.contains("evil")));
}

#[test]
fn checksums_that_are_paths_are_not_names_of_blobs() {
    for etag in ["../../evil", "/tmp/evil", "", ".", "a\\b"] {
        let lfs = json!({ "sha256": etag, "size": 300_001 });
        let fake = listing(&json!({ "sha": COMMIT, "siblings": [{ "rfilename": "model-Q4_K_M.gguf", "lfs": lfs }] }));
        let disk = Disk::new();
        // As if none were listed: the file itself is asked about, and named by that.
        fetch(&disk.hub(&fake), "user/repo").unwrap();
        assert_eq!(Disk::files_below(&disk.repo().join("blobs")), [sha256(&fake.model())], "{etag}");
    }
}

#[test]
fn what_is_not_a_list_is_an_error() {
    let bare = json!({ "sha": COMMIT });
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "\"\"",
        "{\"sha\":",
        &bare.to_string(),
        &nested,
        &json!({ "sha": "../../evil", "siblings": [] }).to_string(),
        &json!({ "sha": 7, "siblings": [] }).to_string(),
        &json!({ "sha": COMMIT, "siblings": [{}] }).to_string(),
        &json!({ "sha": COMMIT, "siblings": [{ "rfilename": "m.gguf", "size": -1 }] }).to_string(),
        &json!({ "sha": COMMIT, "siblings": [{ "rfilename": "m.gguf", "size": 1e30 }] }).to_string(),
    ] {
        let fake = FakeHub::with_one_model();
        let body = text.to_owned();
        fake.on_hub(move |_| Some(Reply::new(200, body.clone())));
        let disk = Disk::new();
        let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        let start = "127.0.0.1 sent something that is not the list of files of user/repo: ";
        assert!(error.message().starts_with(start), "{error}");
        assert_eq!(Disk::files_below(&disk.cache()), [""; 0]);
    }
}

#[test]
fn sizes_that_add_up_to_more_than_there_is_are_a_full_disk() {
    let file = |name: &str| json!({ "rfilename": name, "lfs": { "sha256": "a".repeat(64), "size": u64::MAX } });
    let names = ["m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"];
    let fake = listing(&json!({ "sha": COMMIT, "siblings": [file(names[0]), file(names[1])] }));
    let error = fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
}

#[test]
fn an_endless_list_ends() {
    let fake = FakeHub::with_one_model();
    fake.on_hub(|_| Some(Reply::new(200, "{\"sha\":\"").chunked().ending(8, End::Repeat)));
    let error = fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("is over 32.00 MiB"), "{error}");
}

#[test]
fn redirects_that_lead_in_circles_or_nowhere_end() {
    for (location, kind) in [
        ("/again", ErrorKind::Protocol),
        ("", ErrorKind::Protocol),
        ("?a=1", ErrorKind::Protocol),
        ("ftp://host/file", ErrorKind::Protocol),
        ("http://", ErrorKind::Protocol),
        ("file:///etc/passwd", ErrorKind::Protocol),
        ("http://[::1", ErrorKind::Protocol),
        ("http://127.0.0.1:1/", ErrorKind::Unreachable),
    ] {
        let fake = FakeHub::with_one_model();
        fake.on_hub(move |_| Some(Reply::new(302, "").header("Location", location)));
        let error = fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err();
        assert_eq!(error.kind(), kind, "{location}: {error}");
        assert!(fake.hub.asked().len() <= 11, "{location}");
    }
    let fake = FakeHub::with_one_model();
    fake.on_hub(|_| Some(Reply::new(302, "")));
    assert_eq!(fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn what_is_not_http_is_an_error_and_not_a_panic() {
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    const HEADS: [&str; 10] = [
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 999 What\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-18446744073709551615/18446744073709551615\r\n\r\nx",
    ];
    for round in 0..60 {
        let head = HEADS.get(round).copied().unwrap_or(HEADS[round % HEADS.len()]);
        let mut bytes = head.as_bytes().to_vec();
        if round >= HEADS.len() {
            for _ in 0..=next() % 8 {
                let place = next() as usize % bytes.len();
                bytes[place] = next() as u8;
            }
        }
        let fake = FakeHub::with_one_model();
        let reply = Reply::raw(bytes);
        let is_listing = round % 2 == 0;
        fake.on_hub(move |seen| (is_listing == seen.path().starts_with("/api/")).then(|| reply.clone()));
        let disk = Disk::new();
        let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
        assert!(!error.message().contains('\n'), "{error}");
        // Some of it is HTTP after all, and then it is a file.
        let _ = disk.hub(&fake).fetch_url(&fake.hub.url("/api/x"), &mut go_on);
    }
}

#[test]
fn an_endless_head_ends() {
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    for index in 0..20_000 {
        head.extend_from_slice(format!("X-Header-{index}: {index}\r\n").as_bytes());
    }
    let server = Server::start(move |_| Reply::raw(head.clone()));
    let disk = Disk::new();
    let error = fetch(&Hub::new(disk.options(&server.url(""))).unwrap(), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
}

#[test]
fn a_server_that_speaks_no_tls_is_not_spoken_to() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let hub = Hub::new(disk.options(&fake.hub.url("").replace("http:", "https:"))).unwrap();
    let start = Instant::now();
    let error = fetch(&hub, "user/repo").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Protocol), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}
