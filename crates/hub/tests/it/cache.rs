//! The cache that tools share: what others have put there is found, and what is put there others find.

use clef_hub::ErrorKind;

use crate::server::Reply;
use crate::support::{COMMIT, Disk, FakeHub, contents, fetch, read, sha256};

/// What `huggingface_hub` leaves of one file at `main`.
fn put_as_huggingface_hub_does(disk: &Disk, path: &str, contents: &[u8]) {
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
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert_eq!(read(fetched.path()), fake.model());
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
