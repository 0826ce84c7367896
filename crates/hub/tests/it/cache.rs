//! The cache that tools share: what others have put there is found, and what is put there others find.

use clef_hub::{ErrorKind, Hub, HubOptions};

use crate::server::{End, Reply};
use crate::support::{
    COMMIT, Disk, FakeHub, assert_said_once, contents, fetch, put_as_huggingface_hub_does, read, sha256, warnings,
};

#[test]
fn what_another_tool_has_fetched_is_found() {
    let (model, projector) = (contents(1, 5_000), contents(2, 600));
    let files = [("Q8_0/m-Q8_0.gguf", model.clone()), ("mmproj-F16.gguf", projector.clone())];
    let disk = Disk::new();
    for (path, contents) in &files {
        put_as_huggingface_hub_does(&disk, path, contents);
    }
    let offline = fetch(&disk.offline_hub(), "user/repo").unwrap();
    assert_eq!(read(offline.path()), model);
    assert_eq!(read(&offline.projector.as_ref().unwrap().path), projector);
    let fake = FakeHub::start(&files);
    let online = fetch(&disk.hub(&fake), "user/repo:q8_0").unwrap();
    assert_eq!((&online.parts, &online.projector), (&offline.parts, &offline.projector));
    assert_eq!((fake.hub.asked().len(), fake.cdn.asked().len()), (1, 0));
}

#[cfg(unix)]
#[test]
fn what_is_fetched_lies_as_other_tools_expect_it() {
    let fake = FakeHub::start(&[("folder/m-Q8_0.gguf", contents(1, 5_000))]);
    let disk = Disk::new();
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    let blob = sha256(&contents(1, 5_000));
    let pointer = format!("models--user--repo/snapshots/{COMMIT}/folder/m-Q8_0.gguf");
    let mut expected = vec![
        format!(".locks/models--user--repo/{blob}.lock"),
        format!("models--user--repo/blobs/{blob}"),
        "models--user--repo/refs/main".to_owned(),
        format!("models--user--repo/.clef-hub/{COMMIT}"),
        pointer.clone(),
    ];
    expected.sort();
    assert_eq!(Disk::files_below(&disk.cache()), expected);
    assert_eq!(fetched.path(), disk.cache().join(&pointer));
    assert_eq!(std::fs::read_link(fetched.path()).unwrap().to_str().unwrap(), format!("../../../blobs/{blob}"));
    assert_eq!(std::fs::read_to_string(disk.repo().join("refs/main")).unwrap(), COMMIT);
}

#[test]
fn a_blob_without_a_name_is_given_one() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    std::fs::create_dir_all(disk.blob(&[]).parent().unwrap()).unwrap();
    std::fs::write(disk.blob(&fake.model()), fake.model()).unwrap();
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert_eq!(read(fetched.path()), fake.model());
    assert_eq!(fake.cdn.asked(), [""; 0]);
}

#[test]
fn a_blob_that_somebody_cut_is_fetched_anew() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo").unwrap();
    std::fs::write(disk.blob(&fake.model()), b"half").unwrap();
    let (fetched, warnings) = warnings(|| fetch(&disk.hub(&fake), "user/repo").unwrap());
    assert_eq!(read(fetched.path()), fake.model());
    let blob = disk.blob(&fake.model());
    let expected = format!("WARN {} has 4 bytes and should have 300001; it is fetched anew", blob.display());
    assert_eq!(warnings, [expected], "once");
}

#[cfg(unix)]
#[test]
fn a_link_where_a_download_begins_is_not_followed() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let outside = disk.cache().with_file_name("outside");
    std::fs::create_dir_all(disk.repo().join("blobs")).unwrap();
    std::fs::write(&outside, "precious").unwrap();
    std::os::unix::fs::symlink(&outside, disk.incomplete(&fake.model())).unwrap();
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert_eq!(read(fetched.path()), fake.model());
    assert_eq!(read(&outside), b"precious");
    assert!(!std::fs::symlink_metadata(disk.blob(&fake.model())).unwrap().is_symlink());
}

#[test]
fn a_download_that_brings_nothing_leaves_nothing() {
    for status in [403, 404, 500] {
        let fake = FakeHub::with_one_model();
        fake.on_hub(move |seen| seen.path().contains("/resolve/").then(|| Reply::new(status, "")));
        let disk = Disk::new();
        fetch(&disk.hub(&fake), "user/repo").unwrap_err();
        assert!(!disk.repo().exists(), "{status}: {:?}", Disk::files_below(&disk.repo()));
        // What somebody else has left stays as it was.
        std::fs::create_dir_all(disk.repo().join("refs")).unwrap();
        fetch(&disk.hub(&fake), "user/repo").unwrap_err();
        assert!(disk.repo().join("snapshots").is_dir() && disk.repo().join("refs").is_dir());
    }
}

#[test]
fn a_download_that_brings_something_leaves_what_other_tools_take_for_a_repository() {
    let fake = FakeHub::start(&[("m-Q8_0.gguf", contents(1, 1_000)), ("mmproj.gguf", contents(2, 1_000))]);
    let (model, projector) = (sha256(&contents(1, 1_000)), sha256(&contents(2, 1_000)));
    fake.on_cdn({
        let model = model.clone();
        move |seen| {
            let is_model = seen.path().ends_with(&model);
            Some(if is_model { Reply::new(200, contents(1, 1_000)).ending(500, End::Cut) } else { Reply::new(403, "") })
        }
    });
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(Disk::files_below(&disk.repo()), [format!("blobs/{model}.incomplete")]);
    assert!(disk.repo().join("snapshots").is_dir());
    // A file that fails beside others takes nothing of theirs along.
    fake.on_cdn(move |seen| seen.path().ends_with(&projector).then(|| Reply::new(403, "")));
    fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(read(&disk.blob(&contents(1, 1_000))), contents(1, 1_000));
    assert_eq!(Disk::files_below(&disk.repo().join("blobs")), [model]);
}

/// A hub whose cache is where a variable says.
fn hub_of_variable(fake: &FakeHub, variable: &str, folder: &std::path::Path) -> Hub {
    let options = HubOptions::from_environment(|name| match name {
        "HF_ENDPOINT" => Some(fake.hub.url("").into()),
        "HOME" | "USERPROFILE" => Some("/none".into()),
        name => (name == variable).then(|| folder.into()),
    });
    Hub::new(options.unwrap()).unwrap()
}

#[test]
fn a_disk_that_is_full_names_the_variable_that_decides() {
    let fake = FakeHub::with_one_model();
    let lfs = serde_json::json!({ "sha256": "a".repeat(64), "size": 1_u64 << 60 });
    let file = serde_json::json!({ "rfilename": "m.gguf", "lfs": lfs });
    let listing = serde_json::json!({ "sha": COMMIT, "siblings": [file] }).to_string();
    fake.on_hub(move |seen| seen.path().starts_with("/api/").then(|| Reply::new(200, listing.clone())));
    let disk = Disk::new();
    for variable in ["LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME"] {
        let error = fetch(&hub_of_variable(&fake, variable, &disk.cache()), "user/repo").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        let advice = format!("; make room, or set {variable} to a folder on a larger disk");
        assert!(error.message().ends_with(&advice), "{error}");
        assert_said_once(&error);
    }
    assert!(!disk.repo().exists(), "nothing is left of what cannot be fetched");
}

#[cfg(target_os = "linux")]
#[test]
fn a_cache_that_cannot_be_written_to_names_the_variable_that_decides() {
    let fake = FakeHub::with_one_model();
    let hub = hub_of_variable(&fake, "HF_HUB_CACHE", "/sys/clef-hub-test".as_ref());
    let error = fetch(&hub, "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.message().starts_with("cannot make the folder /sys/clef-hub-test/"), "{error}");
    let advice = "; set HF_HUB_CACHE to a folder that can be written to";
    assert!(error.message().ends_with(advice), "{error}");
    assert_said_once(&error);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_blob_that_is_gone_is_not_a_file() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo").unwrap();
    std::fs::remove_file(disk.blob(&fake.model())).unwrap();
    assert!(fetch(&disk.offline_hub(), "user/repo").is_err());
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
}

#[test]
fn the_branch_is_moved_when_everything_is_there() {
    let fake = FakeHub::start(&[("m.Q8_0.gguf", contents(1, 100)), ("mmproj.gguf", contents(2, 100))]);
    let gone = sha256(&contents(2, 100));
    fake.on_cdn(move |seen| seen.path().ends_with(&gone).then(|| Reply::new(403, "")));
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert!(!disk.repo().join("refs").exists());
    fake.behave();
    fake.cdn.forget();
    fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert!(disk.repo().join("refs/main").exists());
    assert_eq!(fake.cdn.asked().len(), 1, "only what was missing");
}

#[test]
fn a_branch_that_cannot_be_remembered_is_not_the_end() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    std::fs::create_dir_all(disk.repo()).unwrap();
    std::fs::write(disk.repo().join("refs"), "a file where a folder should be").unwrap();
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
}

#[test]
fn a_cache_that_is_no_folder_is_an_error_that_names_it() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    std::fs::write(disk.cache(), "a file where a folder should be").unwrap();
    let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains(disk.cache().to_str().unwrap()), "{error}");
}
