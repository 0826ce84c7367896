//! No network, on purpose or not.

use std::net::TcpListener;

use clef_hub::{ErrorKind, Hub};

use crate::server::Reply;
use crate::support::{Disk, FakeHub, assert_said_once, contents, fetch, go_on, read, request};

/// A hub where nobody listens.
fn unreachable_hub(disk: &Disk) -> Hub {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    Hub::new(disk.options(&format!("http://{address}"))).unwrap()
}

#[test]
fn offline_finds_what_is_there_and_asks_nobody() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let online = fetch(&disk.hub(&fake), "user/repo").unwrap();
    let mut options = disk.options(&fake.hub.url(""));
    options.offline = true;
    fake.hub.forget();
    let offline = fetch(&Hub::new(options).unwrap(), "user/repo:Q4_K_M").unwrap();
    assert_eq!((offline.parts, offline.commit), (online.parts, online.commit));
    assert!(offline.unchecked.is_none());
    assert_eq!(fake.hub.asked(), [""; 0]);
}

#[test]
fn offline_says_what_is_missing_and_how_to_get_it() {
    let disk = Disk::new();
    let error = fetch(&disk.offline_hub(), "user/repo:Q8_0").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline);
    let message = error.message();
    assert!(message.starts_with("user/repo:Q8_0 at main is not in the cache ("), "{message}");
    assert!(message.contains("HF_HUB_OFFLINE") && message.contains("hf download user/repo"), "{message}");
    let fake = FakeHub::with_one_model();
    fetch(&disk.hub(&fake), "user/repo").unwrap();
    let error = fetch(&disk.offline_hub(), "user/repo:Q8_0").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline);
    assert!(error.message().contains("no model of quantization Q8_0; there are Q4_K_M"), "{error}");
    assert!(disk.offline_hub().fetch_model(&request("user/repo").with_revision("v1").unwrap(), &mut go_on).is_err());
}

#[test]
fn an_incomplete_set_of_parts_is_not_a_model() {
    let files: Vec<(String, Vec<u8>)> =
        (1..=2).map(|part| (format!("m-Q8_0-0000{part}-of-00002.gguf"), contents(part, 100))).collect();
    let fake = FakeHub::start(&[(&files[0].0, files[0].1.clone()), (&files[1].0, files[1].1.clone())]);
    let disk = Disk::new();
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    std::fs::remove_file(&fetched.parts[1].path).unwrap();
    let error = fetch(&disk.offline_hub(), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Offline);
    assert!(error.message().contains("no file \"m-Q8_0-00002-of-00002.gguf\""), "{error}");
}

#[test]
fn without_a_network_the_cache_is_used_and_says_why() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let online = fetch(&disk.hub(&fake), "user/repo").unwrap();
    let fetched = fetch(&unreachable_hub(&disk), "user/repo").unwrap();
    assert_eq!(fetched.parts, online.parts);
    assert_eq!(fetched.unchecked.unwrap().kind(), ErrorKind::Unreachable);
}

#[test]
fn a_hub_that_is_no_help_is_asked_once_if_the_cache_is() {
    let replies = [
        (Reply::new(503, ""), ErrorKind::Server),
        (Reply::new(401, ""), ErrorKind::RepoNotFound),
        (Reply::new(200, "<html>pay first</html>"), ErrorKind::Protocol),
        (Reply::raw("nonsense"), ErrorKind::Protocol),
    ];
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo").unwrap();
    for (reply, kind) in replies {
        fake.hub.forget();
        fake.on_hub(move |_| Some(reply.clone()));
        let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
        assert_eq!(read(fetched.path()), fake.model());
        let unchecked = fetched.unchecked.unwrap();
        assert_eq!(unchecked.kind(), kind, "{unchecked}");
        assert_eq!(fake.hub.asked().len(), 1);
    }
}

#[test]
fn without_a_network_and_a_cache_the_network_is_the_error() {
    let disk = Disk::new();
    let error = fetch(&unreachable_hub(&disk), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let message = error.message();
    assert!(message.starts_with("127.0.0.1 cannot be reached: "), "{message}");
    assert!(message.ends_with("; check the network (and set https_proxy if it has a proxy)"), "{message}");
    assert_eq!(message.matches("refused").count(), 1, "{message}");
    assert_said_once(&error);
    let mut options = disk.options("https://clef-hub-test.invalid");
    options.timeouts.connect = std::time::Duration::from_secs(2);
    let error = fetch(&Hub::new(options).unwrap(), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(error.message().contains("clef-hub-test.invalid cannot be reached"), "{error}");
}
