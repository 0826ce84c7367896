//! Transfers that break, lie or stall: either the whole file arrives, or nothing that anybody would take for it.

use std::time::{Duration, Instant};

use clef_hub::ErrorKind;

use crate::server::{End, Reply, file_reply};
use crate::support::{Disk, FakeHub, assert_said_once, contents, fetch, read, sha256};

/// Nothing that another program would open.
fn assert_nothing_usable(disk: &Disk) {
    let files = Disk::files_below(&disk.repo());
    assert!(files.iter().all(|file| file.ends_with(".incomplete")), "{files:?}");
}

#[test]
fn a_transfer_that_is_cut_goes_on_where_it_stopped() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    let cuts = [100_000, 50_000, 1];
    fake.on_cdn(move |seen| cuts.get(seen.earlier).map(|&after| file_reply(seen, &model).ending(after, End::Cut)));
    let disk = Disk::new();
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert_eq!(read(fetched.path()), fake.model());
    assert_eq!(fake.range_starts(), [None, Some(100_000), Some(150_000), Some(150_001)]);
    assert_eq!(Disk::files_below(&disk.repo().join("blobs")), [sha256(&fake.model())]);
}

#[test]
fn a_transfer_that_keeps_breaking_is_an_error_and_goes_on_in_the_next_run() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    fake.on_cdn(move |seen| Some(file_reply(seen, &model).ending(10_000, End::Cut)));
    let disk = Disk::new();
    let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    let message = error.message();
    assert!(message.starts_with("model-Q4_K_M.gguf of user/repo broke off after 39.06 KiB of 292.97 KiB"), "{message}");
    assert!(message.ends_with("(tried 4 times in a row)"), "{message}");
    assert_nothing_usable(&disk);
    fake.behave();
    fake.cdn.forget();
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
    assert_eq!(fake.range_starts(), [Some(40_000)]);
}

#[test]
fn a_server_that_knows_no_ranges_is_asked_for_all_of_it_again() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    fake.on_cdn(move |seen| {
        let whole = Reply::new(200, model.clone());
        Some(if seen.earlier == 0 { whole.ending(100_000, End::Cut) } else { whole })
    });
    let disk = Disk::new();
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
    assert_eq!(fake.range_starts(), [None, Some(100_000)]);
}

#[test]
fn a_server_that_knows_no_ranges_and_breaks_is_not_asked_for_ever() {
    let fake = FakeHub::start(&[("m.gguf", contents(1, 4 << 20))]);
    let model = contents(1, 4 << 20);
    fake.on_cdn(move |_| Some(Reply::new(200, model.clone()).ending(3 << 20, End::Cut)));
    let error = fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert_eq!(fake.cdn.asked().len(), 4, "only what is new counts as progress");
}

#[test]
fn a_rest_that_is_not_the_rest_is_not_taken() {
    for range in ["bytes 0-300000/300001", "bytes 100000-300000/400000", "bytes 100000-99999/300001", "nonsense", ""] {
        let fake = FakeHub::with_one_model();
        let model = fake.model();
        fake.on_cdn(move |seen| match seen.earlier {
            0 => Some(file_reply(seen, &model).ending(100_000, End::Cut)),
            1 => Some(Reply::new(206, &model[100_000..]).header("Content-Range", range)),
            _ => None,
        });
        let disk = Disk::new();
        assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model(), "{range}");
        assert_eq!(fake.range_starts(), [None, Some(100_000), None], "{range}");
    }
}

#[test]
fn wrong_bytes_are_an_error_and_nothing_is_kept() {
    let fake = FakeHub::with_one_model();
    let mut wrong = fake.model();
    wrong[200_000] ^= 1;
    fake.on_cdn(move |seen| Some(file_reply(seen, &wrong)));
    let disk = Disk::new();
    let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(&format!("the hub lists {}", sha256(&fake.model()))), "{error}");
    assert_eq!(fake.cdn.asked().len(), 1);
    assert_eq!(Disk::files_below(&disk.repo()), [""; 0]);
    fake.behave();
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
}

#[test]
fn a_damaged_beginning_from_an_earlier_run_is_noticed_and_fetched_anew() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    for damaged in [contents(9, 100_000), contents(9, 300_001), contents(9, 400_000)] {
        let incomplete = disk.incomplete(&fake.model());
        std::fs::create_dir_all(incomplete.parent().unwrap()).unwrap();
        std::fs::write(&incomplete, &damaged).unwrap();
        let _ = std::fs::remove_file(disk.blob(&fake.model()));
        let _ = std::fs::remove_dir_all(disk.repo().join("snapshots"));
        assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model(), "{}", damaged.len());
        assert!(!incomplete.exists());
    }
    assert_eq!(fake.range_starts(), [Some(100_000), None, None, None]);
}

#[test]
fn what_is_damaged_in_pieces_and_whole_is_given_up() {
    let fake = FakeHub::with_one_model();
    let mut wrong = fake.model();
    wrong[200_000] ^= 1;
    fake.on_cdn(move |seen| Some(file_reply(seen, &wrong)));
    let disk = Disk::new();
    let incomplete = disk.incomplete(&fake.model());
    std::fs::create_dir_all(incomplete.parent().unwrap()).unwrap();
    std::fs::write(&incomplete, &fake.model()[..100_000]).unwrap();
    assert_eq!(fetch(&disk.hub(&fake), "user/repo").unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(fake.range_starts(), [Some(100_000), None]);
    assert_eq!(Disk::files_below(&disk.repo()), [""; 0]);
}

#[test]
fn a_whole_file_that_was_not_renamed_yet_is_not_fetched_again() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let incomplete = disk.incomplete(&fake.model());
    std::fs::create_dir_all(incomplete.parent().unwrap()).unwrap();
    std::fs::write(&incomplete, fake.model()).unwrap();
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
    assert_eq!(fake.cdn.asked(), [""; 0]);
}

#[test]
fn another_version_does_not_go_on_from_this_one() {
    let (old, new) = (contents(1, 200_000), contents(2, 200_000));
    let fake = FakeHub::start(&[("m.gguf", old.clone())]);
    fake.on_cdn({
        let old = old.clone();
        move |seen| Some(file_reply(seen, &old).ending(if seen.earlier == 0 { 100_000 } else { 0 }, End::Cut))
    });
    let disk = Disk::new();
    fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    let fake = FakeHub::start(&[("m.gguf", new.clone())]);
    assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), new);
    assert_eq!(fake.range_starts(), [None]);
    assert_eq!(std::fs::metadata(disk.incomplete(&old)).unwrap().len(), 100_000, "kept, should it come back");
}

#[test]
fn a_hub_that_lists_one_file_and_sends_another_is_not_believed() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    fake.on_hub(|seen| {
        let is_file = seen.path().contains("/resolve/");
        is_file.then(|| Reply::new(200, contents(1, 300_001)).header("X-Linked-Etag", "\"other\""))
    });
    let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("sends other"), "{error}");
    assert_nothing_usable(&disk);
}

#[test]
fn a_length_that_is_not_the_listed_one_is_an_error() {
    for bytes in [0_usize, 299_999, 300_002] {
        let fake = FakeHub::with_one_model();
        fake.on_cdn(move |_| Some(Reply::new(200, contents(1, bytes))));
        let disk = Disk::new();
        let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        let expected = format!("is sent with {bytes} bytes, the hub lists 300001 (tried 2 times in a row)");
        assert!(error.message().ends_with(&expected), "{error}");
        assert_eq!(fake.cdn.asked().len(), 2, "what stays is no accident");
        assert_nothing_usable(&disk);
    }
}

#[test]
fn a_length_that_is_wrong_once_is_an_accident() {
    let fake = FakeHub::with_one_model();
    fake.on_cdn(|seen| (seen.earlier == 0).then(|| Reply::new(200, contents(1, 5))));
    assert_eq!(read(fetch(&Disk::new().hub(&fake), "user/repo").unwrap().path()), fake.model());
}

#[test]
fn a_transfer_that_breaks_just_before_its_end_says_by_how_much() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    fake.on_cdn(move |seen| {
        Some(file_reply(seen, &model).ending(if seen.earlier == 0 { 300_000 } else { 0 }, End::Cut))
    });
    let error = fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err();
    assert!(error.message().contains("broke off after 300000 bytes of 300001 bytes: "), "{error}");
    assert_said_once(&error);
}

#[test]
fn a_body_that_goes_on_past_its_end_is_an_error() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    fake.on_cdn(move |_| Some(Reply::new(200, model.clone()).chunked().ending(300_001, End::Repeat)));
    let disk = Disk::new();
    let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(Disk::files_below(&disk.repo()), [""; 0]);
}

#[test]
fn a_body_in_chunks_or_without_a_length_is_as_good_as_its_checksum() {
    for is_chunked in [true, false] {
        let fake = FakeHub::with_one_model();
        let model = fake.model();
        fake.on_cdn(move |seen| {
            let reply = file_reply(seen, &model);
            let reply = if is_chunked { reply.chunked() } else { reply.without_length() };
            Some(if seen.earlier == 0 { reply.ending(100_000, End::Cut) } else { reply })
        });
        let disk = Disk::new();
        assert_eq!(read(fetch(&disk.hub(&fake), "user/repo").unwrap().path()), fake.model());
        assert_eq!(fake.range_starts(), [None, Some(100_000)]);
    }
}

#[test]
fn a_transfer_that_stalls_is_given_up_and_gone_on_with() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    fake.on_cdn(move |seen| (seen.earlier == 0).then(|| file_reply(seen, &model).ending(100_000, End::Stall)));
    let disk = Disk::new();
    let start = Instant::now();
    assert_eq!(read(fetch(&disk.impatient_hub(&fake), "user/repo").unwrap().path()), fake.model());
    assert_eq!(fake.range_starts(), [None, Some(100_000)]);
    assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
}

#[test]
fn an_answer_that_does_not_come_is_given_up() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"] {
        let fake = FakeHub::with_one_model();
        fake.on_hub(move |_| Some(Reply::raw(begun).ending(0, End::Stall)));
        let error = fetch(&Disk::new().impatient_hub(&fake), "user/repo").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
        assert_eq!(fake.hub.asked().len(), 4);
    }
}

#[test]
fn a_compressed_answer_is_an_error() {
    let fake = FakeHub::with_one_model();
    let model = fake.model();
    fake.on_cdn(move |seen| Some(file_reply(seen, &model).header("Content-Encoding", "gzip")));
    let error = fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.message().contains("gzip"), "{error}");
}

#[test]
fn a_disk_that_is_too_small_is_noticed_before_the_first_byte() {
    let fake = FakeHub::with_one_model();
    let sha256 = sha256(&fake.model());
    let size = 1_u64 << 60;
    fake.on_hub(move |seen| {
        let lfs = serde_json::json!({ "sha256": sha256, "size": size });
        let file = serde_json::json!({ "rfilename": "m.gguf", "size": size, "lfs": lfs });
        let listing = serde_json::json!({ "sha": crate::support::COMMIT, "siblings": [file] });
        seen.path().starts_with("/api/").then(|| Reply::new(200, listing.to_string()))
    });
    let disk = Disk::new();
    let error = fetch(&disk.hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    let message = error.message();
    assert!(message.contains("user/repo needs 1.00 EiB, ") && message.contains(" are free in "), "{message}");
    assert_eq!(fake.hub.asked().len(), 1);
    assert_eq!(Disk::files_below(&disk.repo()), [""; 0]);
}
