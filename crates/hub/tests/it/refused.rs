//! What a hub says no to, in words that say what to do.

use clef_hub::{Error, ErrorKind, Hub};

use crate::server::Reply;
use crate::support::{Disk, FakeHub, fetch, go_on, read, request, warnings};

/// The error when the hub answers its list, or its files, with this.
fn error_of(path: &'static str, reply: Reply, hub: impl Fn(&Disk, &FakeHub) -> Hub) -> Error {
    let fake = FakeHub::with_one_model();
    fake.on_hub(move |seen| seen.path().contains(path).then(|| reply.clone()));
    let disk = Disk::new();
    let error = fetch(&hub(&disk, &fake), "user/repo").unwrap_err();
    let files = Disk::files_below(&disk.repo());
    assert!(files.iter().all(|file| file.ends_with(".incomplete")), "{files:?}");
    error
}

fn gated(status: u16) -> Reply {
    Reply::new(status, "").header("X-Error-Code", "GatedRepo").header("X-Error-Message", "Access is restricted.")
}

#[test]
fn a_gated_repository_says_where_to_accept_its_terms() {
    let error = error_of("/resolve/", gated(401), Disk::hub);
    assert_eq!(error.kind(), ErrorKind::Gated);
    let message = error.message();
    let start = "user/repo is gated (\"Access is restricted.\"); accept its terms at http://127.0.0.1:";
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with("/user/repo, then give a token (HF_TOKEN) of the same account"), "{message}");
    let error = error_of("/resolve/", gated(403), Disk::hub_with_token);
    assert_eq!(error.kind(), ErrorKind::Gated);
    assert!(error.message().contains("the token's account is not let in"), "{error}");
}

#[test]
fn a_repository_that_is_not_there_may_be_private() {
    for (status, code) in [(401, ""), (401, "RepoNotFound"), (404, "RepoNotFound"), (404, "")] {
        let reply = Reply::new(status, "").header("X-Error-Code", code);
        let error = error_of("/api/", reply, Disk::hub);
        assert_eq!(error.kind(), ErrorKind::RepoNotFound, "{status} {code}: {error}");
        assert!(error.message().contains("/user/repo is not there, or is private; check the name"), "{error}");
        assert!(error.message().contains("give a token (HF_TOKEN)"), "{error}");
    }
}

#[test]
fn a_token_that_is_refused_is_what_the_message_is_about() {
    let error = error_of("/api/", Reply::new(401, ""), Disk::hub_with_token);
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(error.message().starts_with("the token is refused by 127.0.0.1"), "{error}");
    assert!(!error.message().contains(crate::support::TOKEN), "{error}");
    let error = error_of("/resolve/", Reply::new(403, ""), Disk::hub_with_token);
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
}

#[test]
fn a_revision_or_file_that_is_not_there_is_named() {
    let fake = FakeHub::with_one_model();
    let request = request("user/repo").with_revision("v9").unwrap();
    let error = Disk::new().hub(&fake).fetch_model(&request, &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RevisionNotFound);
    assert!(error.message().starts_with("user/repo has no branch, tag or commit \"v9\""), "{error}");
    let reply = Reply::new(404, "").header("X-Error-Code", "EntryNotFound");
    let error = error_of("/resolve/", reply, Disk::hub);
    assert_eq!(error.kind(), ErrorKind::FileNotFound);
    assert!(error.message().starts_with("user/repo has no file \"model-Q4_K_M.gguf\""), "{error}");
    assert!(error.message().ends_with("/user/repo/tree/main"), "{error}");
}

#[test]
fn the_page_that_is_named_is_of_the_revision_that_was_asked_for() {
    let fake = FakeHub::with_one_model();
    let hub = Disk::new().hub(&fake);
    let at_revision = |text: &str| request(text).with_revision("refs/pr/1").unwrap();
    let error = hub.fetch_model(&at_revision("user/repo:Q8_0"), &mut go_on).unwrap_err();
    assert!(error.message().ends_with("/user/repo/tree/refs%2Fpr%2F1)"), "{error}");
    fake.on_hub(|seen| {
        let is_file = seen.path().contains("/resolve/");
        is_file.then(|| Reply::new(404, "").header("X-Error-Code", "EntryNotFound"))
    });
    let error = hub.fetch_model(&at_revision("user/repo"), &mut go_on).unwrap_err();
    assert!(error.message().ends_with("/user/repo/tree/refs%2Fpr%2F1"), "{error}");
}

#[test]
fn a_hub_that_is_down_for_a_moment_is_asked_again() {
    for status in [408, 429, 500, 502, 503, 504] {
        let fake = FakeHub::with_one_model();
        let down = move |seen: &crate::server::Seen| (seen.earlier == 0).then(|| Reply::new(status, ""));
        fake.on_hub(down);
        fake.on_cdn(down);
        assert_eq!(read(fetch(&Disk::new().hub(&fake), "user/repo").unwrap().path()), fake.model(), "{status}");
        // Each in vain once: the list, the file's address, and the file, whose address is asked for again then.
        assert_eq!((fake.hub.asked().len(), fake.cdn.asked().len()), (2 + 3, 2));
    }
}

#[test]
fn a_hub_that_stays_down_is_an_error() {
    let error = error_of("/api/", Reply::new(503, ""), Disk::hub);
    assert_eq!(error.kind(), ErrorKind::Server);
    let expected = "127.0.0.1 (asked for user/repo) cannot answer now, status 503 (tried 4 times in a row)";
    assert_eq!(error.message(), expected);
}

#[test]
fn a_pause_is_announced() {
    let fake = FakeHub::with_one_model();
    fake.on_hub(|seen| (seen.earlier == 0).then(|| Reply::new(503, "")));
    let (_, warnings) = warnings(|| fetch(&Disk::new().hub(&fake), "user/repo").unwrap());
    let expected = "WARN 127.0.0.1 (asked for user/repo) cannot answer now, status 503; trying again in 0.0 s";
    assert_eq!(warnings[0], expected);
}

#[test]
fn a_web_page_in_place_of_the_list_is_called_so() {
    let page = "<!DOCTYPE html><title>Welcome to our hotel</title>";
    for reply in [Reply::new(200, page).header("Content-Type", "text/html"), Reply::new(200, format!("\r\n {page}"))] {
        let error = error_of("/api/", reply, Disk::hub);
        assert_eq!(error.kind(), ErrorKind::Protocol);
        let message = error.message();
        assert!(
            message.starts_with("127.0.0.1 sent a web page instead of the list of files of user/repo; "),
            "{error}"
        );
        assert!(message.contains("check that http://127.0.0.1:") && message.contains("(HF_ENDPOINT)"), "{error}");
        assert!(message.ends_with("that the network wants no login"), "{error}");
    }
}

#[test]
fn a_hub_that_asks_for_patience_gets_as_much_as_there_is() {
    let fake = FakeHub::with_one_model();
    fake.on_hub(|seen| (seen.earlier == 0).then(|| Reply::new(429, "").header("Retry-After", "0")));
    fetch(&Disk::new().hub(&fake), "user/repo").unwrap();
    let error = error_of("/api/", Reply::new(429, "").header("Retry-After", "3600"), Disk::hub);
    assert_eq!(error.kind(), ErrorKind::Server);
    let end = "refuses because of too many requests, status 429, and asks to come back in 3600 seconds";
    assert!(error.message().ends_with(end), "{error}");
}

#[test]
fn an_address_that_is_too_old_is_asked_for_again() {
    let fake = FakeHub::with_one_model();
    fake.on_cdn(|seen| (seen.earlier == 0).then(|| Reply::new(403, "Request has expired")));
    assert_eq!(read(fetch(&Disk::new().hub(&fake), "user/repo").unwrap().path()), fake.model());
    assert_eq!(fake.hub.asked().len(), 3, "the list, and the address twice");
    fake.on_cdn(|_| Some(Reply::new(403, "Request has expired")));
    let error = fetch(&Disk::new().hub(&fake), "user/repo").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Server);
    assert!(error.message().contains("refuses what the hub has signed, status 403"), "{error}");
}

#[test]
fn what_a_hub_says_is_repeated_in_moderation() {
    let reply = Reply::new(403, "").header("X-Error-Message", "a".repeat(20_000));
    let error = error_of("/api/", reply, Disk::hub);
    assert!(error.message().len() < 1_000, "{}", error.message().len());
}
