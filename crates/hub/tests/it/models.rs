//! What is fetched of a repository, and what is asked for on the way.

use std::ops::ControlFlow;

use clef_hub::{ErrorKind, Hub, HubOptions, Phase};

use crate::server::Reply;
use crate::support::{
    COMMIT, Disk, FakeHub, TOKEN, contents, fetch, go_on, listing_of, read, request, sha256, warnings,
};

#[test]
fn a_model_and_its_projector_are_fetched_with_one_question_and_one_redirect_each() {
    let (model, projector) = (contents(1, 300_001), contents(2, 70_000));
    let fake = FakeHub::start(&[
        ("README.md", b"text".to_vec()),
        ("clef.Q4_K_M.gguf", model.clone()),
        ("clef.Q8_0.gguf", contents(3, 10)),
        ("mmproj-clef-F16.gguf", projector.clone()),
    ]);
    let disk = Disk::new();
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert_eq!(read(fetched.path()), model);
    assert_eq!(read(&fetched.projector.as_ref().unwrap().path), projector);
    assert_eq!(fetched.path().file_name().unwrap(), "clef.Q4_K_M.gguf");
    assert_eq!((fetched.parts[0].name.as_str(), fetched.parts[0].bytes), ("clef.Q4_K_M.gguf", 300_001));
    assert_eq!(fetched.commit.as_deref(), Some(COMMIT));
    assert!(fetched.unchecked.is_none());
    assert_eq!(
        fake.hub.asked(),
        [
            "GET /api/models/user/repo/revision/main".to_owned(),
            format!("GET /user/repo/resolve/{COMMIT}/clef.Q4_K_M.gguf"),
            format!("GET /user/repo/resolve/{COMMIT}/mmproj-clef-F16.gguf"),
        ]
    );
    assert_eq!(fake.cdn.asked().len(), 2);
}

#[test]
fn what_is_there_is_not_fetched_again() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let first = fetch(&disk.hub(&fake), "user/repo").unwrap();
    let before = std::fs::metadata(first.path()).unwrap().modified().unwrap();
    fake.hub.forget();
    fake.cdn.forget();
    let second = fetch(&disk.hub(&fake), "user/repo:q4_k_m").unwrap();
    assert_eq!(second.path(), first.path());
    assert_eq!(std::fs::metadata(second.path()).unwrap().modified().unwrap(), before);
    assert_eq!(fake.hub.asked(), ["GET /api/models/user/repo/revision/main"], "only whether there is a newer one");
    assert_eq!(fake.cdn.asked(), [""; 0]);
}

#[test]
fn one_file_of_a_full_commit_needs_no_question() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let request = request("user/repo").with_file("model-Q4_K_M.gguf").unwrap().with_revision(COMMIT).unwrap();
    let request = request.without_projector();
    let hub = disk.hub(&fake);
    hub.fetch_model(&request, &mut go_on).unwrap();
    fake.hub.forget();
    let fetched = hub.fetch_model(&request, &mut go_on).unwrap();
    assert_eq!(read(fetched.path()), fake.model());
    assert_eq!(fake.hub.asked(), [""; 0]);
}

#[test]
fn a_newer_commit_is_fetched_and_shares_what_has_not_changed() {
    const NEXT: &str = "fedcba9876543210fedcba9876543210fedcba98";
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let old = fetch(&disk.hub(&fake), "user/repo").unwrap();
    let model = fake.model();
    fake.on_hub(move |seen| {
        let mut listing = listing_of(&[("model-Q4_K_M.gguf", &model)]);
        listing["sha"] = NEXT.into();
        seen.path().starts_with("/api/").then(|| Reply::new(200, listing.to_string()))
    });
    fake.cdn.forget();
    let new = fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert_eq!(new.commit.as_deref(), Some(NEXT));
    assert_ne!(new.path(), old.path());
    assert_eq!(read(new.path()), read(old.path()));
    assert_eq!(fake.cdn.asked(), [""; 0], "the blob is there already");
    assert_eq!(std::fs::read_to_string(disk.repo().join("refs/main")).unwrap(), NEXT);
}

#[test]
fn the_parts_of_a_split_model_lie_beside_each_other() {
    let names: Vec<String> = (1..=3).map(|part| format!("Q8_0/big-Q8_0-0000{part}-of-00003.gguf")).collect();
    let files: Vec<(&str, Vec<u8>)> =
        names.iter().enumerate().map(|(index, name)| (name.as_str(), contents(index as u64, 1_000 + index))).collect();
    let fake = FakeHub::start(&files);
    let disk = Disk::new();
    let fetched = fetch(&disk.hub(&fake), "user/repo:Q8_0").unwrap();
    let fetched_names: Vec<&str> = fetched.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(fetched_names, names);
    for (part, (_, contents)) in fetched.parts.iter().zip(&files) {
        assert_eq!(&read(&part.path), contents);
        assert_eq!(part.path.parent(), fetched.path().parent());
    }
    let request = request("user/repo").with_file(&names[1]).unwrap();
    let again = disk.hub(&fake).fetch_model(&request, &mut go_on).unwrap();
    assert_eq!(again.parts, fetched.parts, "any part stands for all");
}

#[test]
fn a_missing_part_is_an_error_before_anything_is_fetched() {
    let fake = FakeHub::start(&[
        ("m-Q8_0-00001-of-00003.gguf", contents(1, 100)),
        ("m-Q8_0-00003-of-00003.gguf", contents(3, 100)),
    ]);
    let disk = Disk::new();
    let error = fetch(&disk.hub(&fake), "user/repo:Q8_0").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileNotFound);
    assert!(error.message().starts_with("user/repo has no file \"m-Q8_0-00002-of-00003.gguf\""), "{error}");
    assert_eq!(fake.cdn.asked(), [""; 0]);
}

#[test]
fn a_quantization_that_is_not_there_is_answered_with_those_that_are() {
    let fake = FakeHub::start(&[("m-Q8_0.gguf", contents(1, 9)), ("m-BF16.gguf", contents(2, 9))]);
    let error = fetch(&Disk::new().hub(&fake), "user/repo:Q5_K_M").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileNotFound);
    assert!(
        error.message().starts_with("user/repo has no model of quantization Q5_K_M; there are BF16, Q8_0"),
        "{error}"
    );
    let request = request("user/repo").with_file("m-q8_0.gguf").unwrap();
    let error = Disk::new().hub(&fake).fetch_model(&request, &mut go_on).unwrap_err();
    assert!(error.message().contains("no file \"m-q8_0.gguf\"; there are m-BF16.gguf, m-Q8_0.gguf"), "{error}");
}

#[test]
fn a_default_that_is_not_there_is_replaced_by_the_nearest_and_that_is_said() {
    let fake = FakeHub::start(&[
        ("m-BF16.gguf", contents(1, 9)),
        ("m-Q5_K_M.gguf", contents(2, 9)),
        ("m-Q8_0.gguf", contents(3, 9)),
    ]);
    let disk = Disk::new();
    let (fetched, warnings) = warnings(|| fetch(&disk.hub(&fake), "user/repo").unwrap());
    assert_eq!(fetched.parts[0].name, "m-Q5_K_M.gguf");
    let expected = "WARN user/repo has no Q4_K_M: m-Q5_K_M.gguf (Q5_K_M) is used; there are also BF16, Q8_0";
    assert_eq!(warnings, [expected]);
    let (_, warnings) = crate::support::warnings(|| fetch(&disk.hub(&fake), "user/repo:Q8_0").unwrap());
    assert_eq!(warnings, [""; 0], "it was named");
    let fake = FakeHub::start(&[("m-BF16.gguf", contents(1, 9)), ("mmproj.gguf", contents(2, 9))]);
    let (_, warnings) = crate::support::warnings(|| fetch(&Disk::new().hub(&fake), "user/repo").unwrap());
    assert_eq!(warnings, [""; 0], "there is no other");
}

#[test]
fn the_address_of_a_page_of_the_hub_names_a_repository() {
    let fake = FakeHub::with_one_model();
    let hub = Disk::new().hub(&fake);
    for address in [fake.hub.url("/user/repo"), "https://huggingface.co/user/repo:q4_k_m".to_owned()] {
        let request = hub.model_request(&address).unwrap();
        assert_eq!(request.repo().to_string(), "user/repo");
        assert_eq!(read(hub.fetch_model(&request, &mut go_on).unwrap().path()), fake.model());
    }
    let error = hub.model_request("https://elsewhere.example/user/repo").unwrap_err();
    assert_eq!(
        error.message(),
        "\"https://elsewhere.example/user/repo\" is not a repository: it is not an address of the hub; it is written \
         user/repo or user/repo:quant"
    );
}

#[test]
fn a_token_that_makes_no_sense_is_warned_of_and_gone_on_without() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let options = |is_offline: bool| {
        HubOptions::from_environment(|name| match name {
            "HF_ENDPOINT" => Some(fake.hub.url("").into()),
            "HF_HUB_CACHE" => Some(disk.cache().into()),
            "HF_TOKEN" => Some("bad secret".into()),
            "HF_HUB_OFFLINE" => is_offline.then(|| "1".into()),
            _ => None,
        })
        .unwrap()
    };
    let (fetched, warnings) = warnings(|| fetch(&Hub::new(options(false)).unwrap(), "user/repo").unwrap());
    assert_eq!(read(fetched.path()), fake.model());
    assert!(fake.hub.seen().iter().all(|seen| seen.header("authorization").is_none()));
    let expected = "WARN what was given as a token is not one: it holds a character that no token has, such as a space \
                    (it is the value of HF_TOKEN); going on without a token";
    assert_eq!(warnings, [expected]);
    let mut with_another = options(false);
    with_another.token = Some(clef_hub::Token::new(TOKEN).unwrap());
    for options in [with_another, options(true)] {
        let (_, warnings) =
            crate::support::warnings(|| fetch(&Hub::new(options).unwrap(), "user/repo:Q4_K_M").unwrap());
        assert!(!warnings.iter().any(|warning| warning.contains("token")), "{warnings:?}");
    }
}

#[test]
fn a_revision_is_asked_for_as_one_word() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let request = request("user/repo").with_revision("refs/pr/1").unwrap();
    let fetched = disk.hub(&fake).fetch_model(&request, &mut go_on).unwrap();
    assert_eq!(fetched.commit.as_deref(), Some(COMMIT));
    assert_eq!(fake.hub.asked()[0], "GET /api/models/user/repo/revision/refs%2Fpr%2F1");
    assert_eq!(fake.hub.seen()[0].target.split_once('?').unwrap().1, "blobs=true");
    assert_eq!(std::fs::read_to_string(disk.repo().join("refs/refs/pr/1")).unwrap(), COMMIT);
}

#[test]
fn a_mirror_that_lists_only_names_is_asked_for_the_rest() {
    let fake = FakeHub::with_one_model();
    fake.on_hub(|seen| {
        let listing = serde_json::json!({ "sha": COMMIT, "siblings": [{ "rfilename": "model-Q4_K_M.gguf" }] });
        seen.path().starts_with("/api/").then(|| Reply::new(200, listing.to_string()))
    });
    let disk = Disk::new();
    let fetched = fetch(&disk.hub(&fake), "user/repo").unwrap();
    assert_eq!(read(fetched.path()), fake.model());
    assert!(disk.blob(&fake.model()).is_file());
    let asked: Vec<String> = fake.hub.seen().iter().map(|seen| seen.method.clone()).collect();
    assert_eq!(asked, ["GET", "HEAD", "GET"]);
    assert_eq!(fake.cdn.asked().len(), 1, "a signed address is used to fetch and for nothing else");
}

#[test]
fn a_small_file_is_kept_under_its_hash_of_git_and_held_against_it() {
    let fake = FakeHub::start(&[]);
    let text = b"{}".to_vec();
    // As `git hash-object` says.
    const HASH: &str = "9e26dfeeb6e641a33dae4961196235bdb965b21b";
    let sent = std::sync::Arc::new(std::sync::Mutex::new(text));
    fake.on_hub({
        let sent = std::sync::Arc::clone(&sent);
        move |seen| {
            let file = serde_json::json!({ "rfilename": "config.json", "size": 2, "blobId": HASH });
            let listing = serde_json::json!({ "sha": COMMIT, "siblings": [file] });
            let is_listing = seen.path().starts_with("/api/");
            let body = if is_listing { listing.to_string().into_bytes() } else { sent.lock().unwrap().clone() };
            Some(Reply::new(200, body).header("ETag", format!("\"{HASH}\"")))
        }
    });
    let request = request("user/repo").with_file("config.json").unwrap();
    let disk = Disk::new();
    let fetched = disk.hub(&fake).fetch_model(&request, &mut go_on).unwrap();
    assert_eq!(read(fetched.path()), b"{}");
    assert!(disk.repo().join("blobs").join(HASH).is_file());

    *sent.lock().unwrap() = b"[]".to_vec();
    let disk = Disk::new();
    let error = disk.hub(&fake).fetch_model(&request, &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(
        error
            .message()
            .contains(&format!("its hash of git is 0637a088a01e8ddab3bf3fa98dbe804cbde1a0dc, the hub lists {HASH}")),
        "{error}"
    );
    assert_eq!(Disk::files_below(&disk.repo()), [""; 0]);
}

#[test]
fn the_token_goes_to_the_hub_and_to_nobody_else() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    fetch(&disk.hub_with_token(&fake), "user/repo").unwrap();
    let bearer = format!("Bearer {TOKEN}");
    assert!(fake.hub.seen().iter().all(|seen| seen.header("authorization") == Some(bearer.as_str())));
    assert_eq!(fake.cdn.seen().len(), 1);
    for seen in fake.cdn.seen() {
        assert_eq!(seen.header("authorization"), None);
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        assert!(seen.header("user-agent").unwrap().starts_with("clef-hub/"));
    }
}

#[test]
fn a_repository_that_was_renamed_is_followed() {
    let fake = FakeHub::with_one_model();
    fake.on_hub(|seen| {
        let renamed = seen.target.contains("old/name").then(|| seen.target.replace("old/name", "user/repo"))?;
        Some(Reply::new(307, "Temporary Redirect").header("Location", renamed))
    });
    let disk = Disk::new();
    let fetched = fetch(&disk.hub_with_token(&fake), "old/name").unwrap();
    assert_eq!(read(fetched.path()), fake.model());
    assert!(disk.cache().join("models--old--name/refs/main").is_file());
    assert!(fake.hub.seen().iter().all(|seen| seen.header("authorization").is_some()));
}

#[test]
fn progress_is_told_and_adds_up() {
    let fake = FakeHub::start(&[("m.Q4_K_M.gguf", contents(1, 500_000)), ("mmproj-F16.gguf", contents(2, 100_000))]);
    let disk = Disk::new();
    let mut told = Vec::new();
    let result = disk.hub(&fake).fetch_model(&request("user/repo"), &mut |progress| {
        told.push((progress.phase, progress.file.to_owned(), progress.file_index, progress.file_bytes, progress.bytes));
        assert_eq!((progress.file_count, progress.total), (2, Some(600_000)));
        assert_eq!(progress.file_total, Some(if progress.file_index == 0 { 500_000 } else { 100_000 }));
        ControlFlow::Continue(())
    });
    result.unwrap();
    let model = |told: &&(Phase, String, usize, u64, u64)| told.2 == 0;
    assert_eq!(
        told.iter().rfind(model).unwrap(),
        &(Phase::Downloading, "m.Q4_K_M.gguf".to_owned(), 0, 500_000, 500_000)
    );
    let last = told.last().unwrap();
    assert_eq!(last, &(Phase::Downloading, "mmproj-F16.gguf".to_owned(), 1, 100_000, 600_000));
    assert!(told.is_sorted_by_key(|told| told.4) && told.len() >= 6, "{told:?}");
}

#[test]
fn a_download_can_be_cancelled_and_gone_on_with() {
    let fake = FakeHub::with_one_model();
    let disk = Disk::new();
    let hub = disk.hub(&fake);
    let stop_at = 100_000;
    let error = hub
        .fetch_model(&request("user/repo"), &mut |progress| {
            if progress.file_bytes > stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(!disk.blob(&fake.model()).exists());
    let kept = std::fs::metadata(disk.incomplete(&fake.model())).unwrap().len() as usize;
    assert!(kept > 100_000 && kept < 300_001, "{kept}");
    fake.cdn.forget();
    let mut checked = 0;
    let fetched = hub.fetch_model(&request("user/repo"), &mut |progress| {
        if progress.phase == Phase::Checking {
            checked = progress.file_bytes;
        }
        ControlFlow::Continue(())
    });
    assert_eq!(sha256(&read(fetched.unwrap().path())), sha256(&fake.model()));
    assert_eq!(fake.range_starts(), [Some(kept)]);
    assert_eq!(checked, kept as u64, "what was there is read for the checksum");
}
