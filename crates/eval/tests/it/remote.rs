//! Asking a server: what is sent, what is waited for, and whose fault everything else is.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use clef_eval::{
    AnswerError, AnswerErrorKind, Answerer, Cancel, Dataset, DatasetOptions, ErrorKind, Failure, Remote, RemoteOptions,
    RunOptions, run,
};
use serde_json::json;

use crate::server::{Reply, Server};
use crate::support::Record;

const ANSWER: &str = r#"{"model":"m","answers":{"q":{"type":"noul","noul":0.75}}}"#;

fn remote(server: &Server, options: RemoteOptions) -> Remote {
    Remote::new(&server.address, options).unwrap()
}

#[track_caller]
fn failure(reply: Reply, options: RemoteOptions) -> AnswerError {
    let server = Server::new(vec![reply]);
    remote(&server, options).answer(b"{}").expect_err("no answer")
}

#[test]
fn a_request_is_sent_as_it_is_with_its_key() {
    let server = Server::new(vec![Reply::says(200, ANSWER)]);
    let options = RemoteOptions { api_key: Some("sesame".to_owned()), ..RemoteOptions::default() };
    let response = remote(&server, options).answer(br#"{ "state": 1.50 }"#).unwrap();
    assert_eq!(response, ANSWER.as_bytes());
    let received = &server.received()[0];
    assert_eq!(received.line, "POST /v1/systemone");
    assert_eq!(received.body, br#"{ "state": 1.50 }"#);
    assert_eq!(received.header("authorization"), Some("Bearer sesame"));
    assert_eq!(received.header("content-type"), Some("application/json"));
}

#[test]
fn a_busy_server_is_asked_again_when_it_says() {
    let server = Server::new(vec![
        Reply::says(429, "{}").with("retry-after", "3600").with("retry-after-ms", "1"),
        Reply::says(503, "{}").with("retry-after", "0"),
        Reply::says(200, ANSWER),
    ]);
    assert_eq!(remote(&server, RemoteOptions::default()).answer(b"{}").unwrap(), ANSWER.as_bytes());
    assert_eq!(server.received().len(), 3);
}

#[test]
fn a_server_that_stays_busy_is_left_alone_in_the_end() {
    let busy = r#"{"error":{"code":429,"message":"queue is full","type":"rate_limit_error"}}"#;
    let server = Server::new(vec![Reply::says(429, busy).with("retry-after", "3600")]);
    let options = RemoteOptions { retries: 3, max_wait: Duration::from_millis(1), ..RemoteOptions::default() };
    let error = remote(&server, options).answer(b"{}").unwrap_err();
    assert_eq!(error.kind(), AnswerErrorKind::Busy);
    assert!(error.message().ends_with("/v1/systemone says 429: queue is full"), "{error}");
    assert_eq!(server.received().len(), 4);
}

#[test]
fn a_cancelled_run_does_not_wait_for_a_busy_server() {
    let server = Server::new(vec![Reply::says(429, "{}").with("retry-after", "3600")]);
    let cancel = Cancel::new();
    let options =
        RemoteOptions { max_wait: Duration::from_secs(3_600), cancel: cancel.clone(), ..RemoteOptions::default() };
    let remote = remote(&server, options);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| remote.answer(b"{}").unwrap_err());
        cancel.cancel();
        assert_eq!(asking.join().unwrap().kind(), AnswerErrorKind::Cancelled);
    });
}

#[test]
fn a_status_says_whose_fault_it_is() {
    for (status, kind) in [
        (400, AnswerErrorKind::Refused),
        (413, AnswerErrorKind::Refused),
        (422, AnswerErrorKind::Refused),
        (501, AnswerErrorKind::Refused),
        (401, AnswerErrorKind::Unauthorized),
        (403, AnswerErrorKind::Unauthorized),
        (404, AnswerErrorKind::Unreachable),
        (405, AnswerErrorKind::Unreachable),
        (408, AnswerErrorKind::TimedOut),
        (500, AnswerErrorKind::Failed),
        (502, AnswerErrorKind::Failed),
    ] {
        let body = r#"{"error":{"message":"question \"q\":\n no"},"detail":[]}"#;
        let error = failure(Reply::says(status, body), RemoteOptions::default());
        assert_eq!(error.kind(), kind, "{status}");
        assert!(error.message().ends_with(&format!(r#"says {status}: question "q": no"#)), "{error}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::new(vec![Reply::says(200, ANSWER)]);
    let location: &'static str = Box::leak(elsewhere.address.clone().into_boxed_str());
    let options = RemoteOptions { api_key: Some("sesame".to_owned()), ..RemoteOptions::default() };
    let error = failure(Reply::says(307, "").with("location", location), options);
    assert_eq!(error.kind(), AnswerErrorKind::Unreachable);
    assert!(elsewhere.received().is_empty());
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_for_ever() {
    let options = RemoteOptions { timeout: Duration::from_millis(50), ..RemoteOptions::default() };
    let before = Instant::now();
    let error = failure(Reply::Silence, options);
    assert_eq!(error.kind(), AnswerErrorKind::TimedOut);
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_is_not_there_or_hangs_up_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let gone = Remote::new(&format!("http://127.0.0.1:{port}"), RemoteOptions::default()).unwrap();
    assert_eq!(gone.answer(b"{}").unwrap_err().kind(), AnswerErrorKind::Unreachable);
    assert_eq!(failure(Reply::Hangup, RemoteOptions::default()).kind(), AnswerErrorKind::Unreachable);
}

#[test]
fn a_response_beyond_the_limit_is_not_read() {
    let options = RemoteOptions { max_response_bytes: 1_000, ..RemoteOptions::default() };
    let error = failure(Reply::says(200, vec![b' '; 2_000]), options);
    assert_eq!(error.kind(), AnswerErrorKind::Unreadable);
}

#[test]
fn a_key_that_cannot_be_sent_is_refused_at_once() {
    let options = RemoteOptions { api_key: Some("a\nb".to_owned()), ..RemoteOptions::default() };
    let error = Remote::new("http://host", options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Address);
    assert!(!error.message().contains("a\nb"));
}

#[test]
fn a_run_over_a_server_counts_what_it_could_not_read() {
    let server = Server::new(vec![
        Reply::says(200, ANSWER),
        Reply::says(200, "<html>hello</html>"),
        Reply::says(500, "oops"),
        Reply::says(429, "{}").with("retry-after-ms", "0"),
        Reply::says(200, ANSWER),
    ]);
    let line = || Record::new().noul("q", json!(true), 0.5).line();
    let text = [line(), line(), line(), line()].join("\n");
    let dataset = Dataset::new(text.as_bytes(), DatasetOptions::default());
    let remote = remote(&server, RemoteOptions::default());
    let run = run(dataset, &remote, &RunOptions::default(), &|_| {}).unwrap();
    let kinds: Vec<_> = run
        .outcomes
        .iter()
        .map(|outcome| match &outcome.reply {
            Ok(_) => None,
            Err(Failure::Answer { kind, .. }) => Some(*kind),
            Err(Failure::Line(message)) => panic!("{message}"),
        })
        .collect();
    assert_eq!(kinds, [None, Some(AnswerErrorKind::Unreadable), Some(AnswerErrorKind::Failed), None]);
    assert_eq!(server.received().len(), 5);
}
