//! No network, on purpose or not.

use std::net::TcpListener;

use clef_hub::{ErrorKind, Hub};

use crate::server::Reply;
use crate::support::{
    COMMIT, Disk, FakeHub, assert_said_once, contents, fetch, go_on, put_as_huggingface_hub_does, read, request,
    warnings,
};

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

/// The one model that the cache of another tool holds, without the network, and what is warned of.
fn found_offline(path: &str, text: &str) -> (Vec<String>, Vec<String>) {
    let disk = Disk::new();
    put_as_huggingface_hub_does(&disk, path, &contents(1, 9));
    let (model, warnings) = warnings(|| fetch(&disk.offline_hub(), text).unwrap());
    (model.parts.into_iter().map(|part| part.name).collect(), warnings)
}

#[test]
fn another_quantization_than_the_default_is_not_used_in_silence() {
    let no_projector = "WARN no projector of user/repo is in the cache, and the hub was not asked: there may be one";
    let (parts, warnings) = found_offline("m-BF16.gguf", "user/repo");
    assert_eq!(parts, ["m-BF16.gguf"]);
    let expected = "WARN m-BF16.gguf (BF16) is used for user/repo: no quantization was named, the hub was not asked, \
                    and of what is in the cache this is the nearest to Q4_K_M";
    assert_eq!(warnings, [expected, no_projector]);
    // Named, or what would be taken anyway.
    for (path, text) in [("m-BF16.gguf", "user/repo:bf16"), ("m-Q4_K_M.gguf", "user/repo")] {
        assert_eq!(found_offline(path, text), (vec![path.to_owned()], vec![no_projector.to_owned()]));
    }
}

#[test]
fn what_the_hub_listed_last_decides_while_it_is_not_asked() {
    let files = ["m-Q4_K_M.gguf", "m-Q5_K_M.gguf", "m-BF16.gguf", "mmproj-F16.gguf", "mmproj-Q8_0.gguf"];
    let start = |files: &[&str]| {
        let files: Vec<_> = files.iter().zip(1..).map(|(path, seed)| (*path, contents(seed, 9))).collect();
        FakeHub::start(&files)
    };
    // Nothing is left to guess: it is what an online run would take.
    for files in [&files[..], &["m-Q5_K_M.gguf", "m-BF16.gguf"]] {
        let disk = Disk::new();
        let fake = start(files);
        let hub = disk.hub(&fake);
        let online = fetch(&hub, "user/repo").unwrap();
        fetch(&hub, "user/repo:BF16").unwrap();
        let (offline, warnings) = warnings(|| fetch(&disk.offline_hub(), "user/repo").unwrap());
        assert_eq!((offline.parts, offline.projector), (online.parts, online.projector));
        assert_eq!(warnings, [""; 0]);
    }
    // Something else was fetched.
    let disk = Disk::new();
    let named = request("user/repo:BF16").without_projector();
    disk.hub(&start(&files)).fetch_model(&named, &mut go_on).unwrap();
    for (hub, why) in
        [(disk.offline_hub(), "the hub was not asked"), (unreachable_hub(&disk), "the hub gave no list of its files")]
    {
        let (model, mut warnings) = warnings(|| fetch(&hub, "user/repo").unwrap());
        assert_eq!((model.parts[0].name.as_str(), model.projector), ("m-BF16.gguf", None));
        warnings.retain(|warning| !warning.contains("cannot be reached"));
        let expected = [
            format!(
                "WARN m-BF16.gguf (BF16) is used for user/repo: m-Q4_K_M.gguf (Q4_K_M) is not in the cache, and {why}"
            ),
            format!("WARN no projector of user/repo is in the cache, where mmproj-F16.gguf is missing, and {why}"),
        ];
        assert_eq!(warnings, expected);
        let (_, warnings) = crate::support::warnings(|| hub.fetch_model(&named, &mut go_on).unwrap());
        assert!(warnings.iter().all(|warning| warning.contains("cannot be reached")), "{warnings:?}");
    }
    // Another projector than the hub would have sent.
    put_as_huggingface_hub_does(&disk, "mmproj-Q8_0.gguf", &contents(5, 9));
    let (model, warnings) = warnings(|| fetch(&disk.offline_hub(), "user/repo:BF16").unwrap());
    assert_eq!(model.projector.unwrap().name, "mmproj-Q8_0.gguf");
    let expected = "WARN mmproj-Q8_0.gguf is used as the projector of user/repo: mmproj-F16.gguf is not in the cache, \
                    and the hub was not asked";
    assert_eq!(warnings, [expected]);
}

#[test]
fn a_hub_that_knows_the_repository_no_more_is_no_reason_for_silence() {
    let fake = FakeHub::start(&[("m-Q4_K_M.gguf", contents(1, 9)), ("m-Q8_0.gguf", contents(2, 9))]);
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo:Q8_0").unwrap();
    fake.on_hub(|_| Some(Reply::new(404, "")));
    let (model, warnings) = warnings(|| fetch(&disk.hub(&fake), "user/repo").unwrap());
    assert_eq!(model.parts[0].name, "m-Q8_0.gguf");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].ends_with("going on with the files of user/repo that the cache holds"), "{warnings:?}");
    assert!(warnings[1].starts_with("WARN m-Q8_0.gguf (Q8_0) is used for user/repo: "), "{warnings:?}");
}

#[test]
fn a_kept_list_that_makes_no_sense_is_as_good_as_none() {
    for text in [&b""[..], b"\xff\xfe", b"../../evil.gguf\n/etc/passwd", b"a-00001-of-00003.gguf"] {
        let disk = Disk::new();
        put_as_huggingface_hub_does(&disk, "m-Q4_K_M.gguf", &contents(1, 9));
        std::fs::create_dir_all(disk.repo().join(".clef-hub")).unwrap();
        std::fs::write(disk.repo().join(".clef-hub").join(COMMIT), text).unwrap();
        assert_eq!(read(fetch(&disk.offline_hub(), "user/repo").unwrap().path()), contents(1, 9));
    }
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
