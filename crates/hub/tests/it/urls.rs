//! Files of plain URLs.

use clef_hub::{ErrorKind, FetchedModel, Hub, Result};

use crate::server::{End, Reply, Seen, Server, file_reply};
use crate::support::{COMMIT, Disk, FakeHub, TOKEN, contents, go_on, read};

fn fetch(hub: &Hub, url: &str) -> Result<FetchedModel> {
    hub.fetch_url(url, &mut go_on)
}

fn hub(disk: &Disk) -> Hub {
    Hub::new(disk.options("http://127.0.0.1:1")).unwrap()
}

/// One file with an entity tag, as any web server has it.
fn with_etag(seen: &Seen, contents: &[u8], etag: &str) -> Reply {
    if seen.header("if-none-match") == Some(etag) {
        return Reply::new(304, "").header("ETag", etag);
    }
    let is_other = seen.header("if-range").is_some_and(|range| range != etag);
    let reply = if is_other { Reply::new(200, contents) } else { file_reply(seen, contents) };
    reply.header("ETag", etag)
}

/// `model.gguf` and nothing else.
fn server(contents: Vec<u8>) -> Server {
    Server::start(move |seen| with_etag(seen, &contents, "\"v1\""))
}

fn methods(server: &Server) -> Vec<String> {
    server.seen().iter().map(|seen| seen.method.clone()).collect()
}

#[test]
fn a_url_is_fetched_once_and_asked_about_afterwards() {
    let model = contents(1, 300_001);
    let server = server(model.clone());
    let disk = Disk::new();
    let url = server.url("/folder/model.gguf?key=secret");
    let fetched = fetch(&hub(&disk), &url).unwrap();
    assert_eq!(read(fetched.path()), model);
    assert_eq!(fetched.path().file_name().unwrap(), "model.gguf");
    assert!(fetched.path().starts_with(disk.urls()) && fetched.commit.is_none() && fetched.projector.is_none());
    let folder = fetched.path().parent().unwrap();
    assert!(folder.file_name().unwrap().to_str().unwrap().starts_with("127.0.0.1-"));
    assert_eq!(Disk::files_below(folder), ["model.gguf", "model.gguf.json", "model.gguf.lock"]);
    let note = std::fs::read_to_string(folder.join("model.gguf.json")).unwrap();
    assert!(note.contains("\\\"v1\\\"") && !note.contains("secret"), "{note}");
    server.forget();
    let again = fetch(&hub(&disk), &url).unwrap();
    assert_eq!(again.parts, fetched.parts);
    assert_eq!(methods(&server), ["HEAD"]);
    assert_eq!(server.seen()[0].header("if-none-match"), Some("\"v1\""));
}

#[test]
fn a_file_that_has_changed_is_fetched_again_and_replaced_when_the_new_one_is_whole() {
    for (first, second) in [(("ETag", "\"v1\""), ("ETag", "\"v2\"")), {
        let changed = "Last-Modified";
        ((changed, "Mon, 01 Jan 2024 00:00:00 GMT"), (changed, "Tue, 02 Jan 2024 00:00:00 GMT"))
    }] {
        let disk = Disk::new();
        let (old, new) = (contents(1, 1_000), contents(2, 1_000));
        let version = std::sync::Arc::new(std::sync::Mutex::new((old.clone(), first, None)));
        let server = Server::start({
            let version = std::sync::Arc::clone(&version);
            move |seen| {
                let (contents, (name, value), cut) = version.lock().unwrap().clone();
                let reply = file_reply(seen, &contents).header(name, value);
                if let Some(after) = cut { reply.ending(after, End::Cut) } else { reply }
            }
        });
        let url = server.url("/model.gguf");
        let path = fetch(&hub(&disk), &url).unwrap().path().to_owned();
        *version.lock().unwrap() = (new.clone(), second, Some(10));
        assert_eq!(fetch(&hub(&disk), &url).unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(read(&path), old, "what is there stays until there is better");
        *version.lock().unwrap() = (new.clone(), second, None);
        assert_eq!(read(fetch(&hub(&disk), &url).unwrap().path()), new);
        server.forget();
        fetch(&hub(&disk), &url).unwrap();
        assert_eq!(methods(&server), ["HEAD"]);
    }
}

#[test]
fn a_transfer_goes_on_only_where_nothing_has_changed() {
    let model = contents(1, 300_001);
    let server = Server::start({
        let model = model.clone();
        move |seen| {
            let reply = with_etag(seen, &model, "\"v1\"");
            if seen.method == "GET" && seen.earlier == 0 { reply.ending(100_000, End::Cut) } else { reply }
        }
    });
    let disk = Disk::new();
    assert_eq!(read(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap().path()), model);
    let last = server.seen().pop().unwrap();
    assert_eq!((last.range_start(), last.header("if-range")), (Some(100_000), Some("\"v1\"")));

    // Another file at the same address, between one connection and the next.
    let (old, new) = (contents(1, 300_001), contents(2, 200_000));
    let server = Server::start({
        let new = new.clone();
        move |seen| match (seen.method.as_str(), seen.earlier) {
            ("HEAD", _) => with_etag(seen, &old, "\"v1\""),
            (_, 0) => with_etag(seen, &old, "\"v1\"").ending(100_000, End::Cut),
            _ => with_etag(seen, &new, "\"v2\""),
        }
    });
    assert_eq!(read(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap().path()), new);

    // A server that does not look at `If-Range`.
    let (old, new) = (contents(1, 300_001), contents(2, 300_001));
    let server = Server::start({
        let new = new.clone();
        move |seen| match (seen.method.as_str(), seen.earlier) {
            ("HEAD", _) => with_etag(seen, &old, "\"v1\""),
            (_, 0) => with_etag(seen, &old, "\"v1\"").ending(100_000, End::Cut),
            _ => file_reply(seen, &new).header("ETag", "\"v2\""),
        }
    });
    assert_eq!(read(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap().path()), new);
}

#[test]
fn the_next_run_goes_on_only_with_what_it_knows_to_be_the_same() {
    for (etag, starts) in [("\"v1\"", [Some(40_000)]), ("\"v2\"", [None])] {
        let model = contents(1, 300_001);
        let disk = Disk::new();
        let is_broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let server = Server::start({
            let (model, is_broken) = (model.clone(), std::sync::Arc::clone(&is_broken));
            move |seen| {
                if is_broken.load(std::sync::atomic::Ordering::SeqCst) {
                    with_etag(seen, &model, "\"v1\"").ending(10_000, End::Cut)
                } else {
                    with_etag(seen, &model, etag)
                }
            }
        });
        let url = server.url("/m.gguf");
        assert_eq!(fetch(&hub(&disk), &url).unwrap_err().kind(), ErrorKind::Interrupted);
        is_broken.store(false, std::sync::atomic::Ordering::SeqCst);
        server.forget();
        assert_eq!(read(fetch(&hub(&disk), &url).unwrap().path()), model);
        let gets = server.seen().into_iter().filter(|seen| seen.method == "GET");
        assert_eq!(gets.map(|seen| seen.range_start()).collect::<Vec<_>>(), starts);
    }
}

#[test]
fn a_server_that_says_nothing_of_changes_is_asked_for_the_size() {
    let server = Server::start(|seen| match seen.path() {
        "/sized" => Reply::new(200, contents(1, 1_000)),
        _ => Reply::new(200, contents(1, 1_000)).chunked(),
    });
    let disk = Disk::new();
    for path in ["/sized", "/chunked"] {
        fetch(&hub(&disk), &server.url(path)).unwrap();
        server.forget();
        fetch(&hub(&disk), &server.url(path)).unwrap();
        assert_eq!(methods(&server), ["HEAD"], "{path}");
    }
}

#[test]
fn a_body_whose_end_cannot_be_told_is_an_error() {
    let server = Server::start(|_| Reply::new(200, contents(1, 1_000)).without_length());
    let disk = Disk::new();
    let error = fetch(&hub(&disk), &server.url("/m.gguf")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("without its length"), "{error}");
    let server = Server::start(|_| Reply::new(200, contents(1, 1_000)).chunked().ending(500, End::Cut));
    assert_eq!(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap_err().kind(), ErrorKind::Interrupted);
}

#[test]
fn a_server_that_answers_no_head_is_asked_for_the_file() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "HEAD" => Reply::new(403, ""),
        _ => with_etag(seen, &contents(1, 300_001), "\"v1\""),
    });
    let disk = Disk::new();
    let url = server.url("/m.gguf");
    assert_eq!(read(fetch(&hub(&disk), &url).unwrap().path()), contents(1, 300_001));
    server.forget();
    fetch(&hub(&disk), &url).unwrap();
    assert_eq!(methods(&server), ["HEAD", "GET"]);
}

#[test]
fn a_head_without_a_length_says_nothing_of_the_file() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "HEAD" => Reply::new(200, ""),
        _ => Reply::new(200, contents(1, 1_000)),
    });
    let disk = Disk::new();
    assert_eq!(read(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap().path()), contents(1, 1_000));
}

#[test]
fn what_nothing_can_go_on_from_is_not_left_behind() {
    let server = Server::start(|_| Reply::new(200, contents(1, 1_000)).ending(500, End::Cut));
    let disk = Disk::new();
    assert_eq!(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(Disk::files_below(&disk.urls()).iter().all(|file| file.ends_with(".lock")));
    // Nor what could be gone on from, if nothing came.
    let server = Server::start(|seen| with_etag(seen, &contents(1, 1_000), "\"v1\"").ending(0, End::Cut));
    let disk = Disk::new();
    assert_eq!(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(Disk::files_below(&disk.urls()).iter().all(|file| file.ends_with(".lock")));
}

#[test]
fn a_link_where_a_download_begins_is_not_followed() {
    let server = server(contents(1, 1_000));
    let disk = Disk::new();
    let path = fetch(&hub(&disk), &server.url("/m.gguf")).unwrap().path().to_owned();
    let outside = disk.cache().with_file_name("outside");
    std::fs::write(&outside, "precious").unwrap();
    std::fs::remove_file(&path).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&outside, path.with_file_name("m.gguf.incomplete")).unwrap();
    assert_eq!(read(fetch(&hub(&disk), &server.url("/m.gguf")).unwrap().path()), contents(1, 1_000));
    assert_eq!(read(&outside), b"precious");
}

#[test]
fn all_parts_of_a_split_model_are_fetched_into_one_folder() {
    let part = |seen: &Seen| seen.path().as_bytes()["/m-0000".len()];
    let server = Server::start(move |seen| with_etag(seen, &contents(part(seen).into(), 1_000), "\"v1\""));
    let disk = Disk::new();
    let fetched = fetch(&hub(&disk), &server.url("/m-00002-of-00003.gguf?key=1")).unwrap();
    let names: Vec<&str> = fetched.parts.iter().map(|part| part.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"]);
    for (file, part) in fetched.parts.iter().zip(b'1'..) {
        assert_eq!(read(&file.path), contents(part.into(), 1_000));
        assert_eq!(file.path.parent(), fetched.path().parent());
    }
    let again = fetch(&hub(&disk), &server.url("/m-00001-of-00003.gguf?key=1")).unwrap();
    assert_eq!(again.parts, fetched.parts);
}

#[test]
fn an_address_of_the_hub_gets_its_token_and_its_checksum() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let hub = disk.hub_with_token(&fake);
    let url = fake.hub.url(&format!("/user/repo/resolve/{COMMIT}/model-Q4_K_M.gguf"));
    assert_eq!(read(fetch(&hub, &url).unwrap().path()), fake.model());
    assert!(fake.hub.seen().iter().all(|seen| seen.header("authorization") == Some(&format!("Bearer {TOKEN}"))));
    assert!(fake.cdn.seen().iter().all(|seen| seen.header("authorization").is_none()));
    fake.cdn.forget();
    fetch(&hub, &url).unwrap();
    assert_eq!(fake.cdn.asked(), [""; 0], "the checksum is known to be the same");

    let disk = Disk::new();
    fake.on_cdn(|seen| Some(file_reply(seen, &contents(9, 300_001))));
    let error = fetch(&disk.hub_with_token(&fake), &url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(Disk::files_below(&disk.urls()).iter().all(|file| !file.ends_with(".gguf")));
}

#[test]
fn a_web_page_is_not_a_model() {
    let server = Server::start(|_| Reply::new(200, "<html>").header("Content-Type", "text/html; charset=utf-8"));
    let error = fetch(&hub(&Disk::new()), &server.url("/user/repo/blob/main/m.gguf")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileNotFound);
    assert!(error.message().contains("is a web page, not a file"), "{error}");
}

#[test]
fn what_cannot_be_fetched_is_said_without_secrets() {
    let disk = Disk::new();
    for (status, kind) in [
        (404, ErrorKind::FileNotFound),
        (410, ErrorKind::FileNotFound),
        (401, ErrorKind::Unauthorized),
        (403, ErrorKind::Unauthorized),
        (418, ErrorKind::Protocol),
        (500, ErrorKind::Server),
    ] {
        let server = Server::start(move |_| Reply::new(status, ""));
        let url = server.url("/m.gguf?signature=secret").replace("http://", "http://user:secret@");
        let error = fetch(&hub(&disk), &url).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains("127.0.0.1") && !error.message().contains("secret"), "{error}");
    }
    for url in ["", "m.gguf", "ftp://host/m.gguf"] {
        assert_eq!(fetch(&hub(&disk), url).unwrap_err().kind(), ErrorKind::InvalidRequest);
    }
}

#[test]
fn without_a_network_what_is_there_is_used() {
    let disk = Disk::new();
    let model = contents(1, 1_000);
    let server = server(model.clone());
    let url = server.url("/m.gguf");
    let error = fetch(&disk.offline_hub(), &url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline);
    assert!(error.message().contains(&url) && error.message().contains("HF_HUB_OFFLINE"), "{error}");
    fetch(&hub(&disk), &url).unwrap();
    server.forget();
    assert_eq!(read(fetch(&disk.offline_hub(), &url).unwrap().path()), model);
    assert_eq!(methods(&server), [""; 0]);
    drop(server);
    let fetched = fetch(&hub(&disk), &url).unwrap();
    assert_eq!(read(fetched.path()), model);
    assert_eq!(fetched.unchecked.unwrap().kind(), ErrorKind::Unreachable);
}
