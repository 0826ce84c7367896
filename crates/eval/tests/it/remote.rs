//! Asking a server: what is sent, what is waited for, and whose fault everything else is.

use std::error::Error as _;
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
fn a_server_that_loads_its_model_is_waited_for_but_not_for_ever() {
    let loading = || Reply::says(503, r#"{"error":{"message":"Loading model"}}"#).with("retry-after-ms", "1");
    let mut replies = vec![loading(); 20];
    replies.push(Reply::says(200, ANSWER));
    let server = Server::new(replies);
    // It is not busy: that it may be asked again does not depend on how often a busy one may be.
    let options = RemoteOptions { retries: 0, ..RemoteOptions::default() };
    assert_eq!(remote(&server, options).answer(b"{}").unwrap(), ANSWER.as_bytes());
    assert_eq!(server.received().len(), 21);

    let server = Server::new(vec![loading()]);
    let options = RemoteOptions { loading_timeout: Duration::from_millis(50), ..RemoteOptions::default() };
    let remote = remote(&server, options);
    let error = remote.answer(b"{}").unwrap_err();
    assert_eq!(error.kind(), AnswerErrorKind::Busy);
    assert!(error.message().ends_with("says 503: Loading model"), "{error}");
    // The time is the server's, not a record's.
    let asked = server.received().len();
    assert_eq!(remote.answer(b"{}").unwrap_err().kind(), AnswerErrorKind::Busy);
    assert_eq!(server.received().len(), asked + 1);
}

#[test]
fn waits_and_limits_may_be_of_any_length() {
    let server = Server::new(vec![Reply::says(429, "{}")]);
    let options = RemoteOptions { retries: 100, max_wait: Duration::ZERO, ..RemoteOptions::default() };
    assert_eq!(remote(&server, options).answer(b"{}").unwrap_err().kind(), AnswerErrorKind::Busy);
    assert_eq!(server.received().len(), 101);

    let server = Server::new(vec![Reply::says(503, "{}").with("retry-after-ms", "0"), Reply::says(200, ANSWER)]);
    let options = RemoteOptions {
        timeout: Duration::MAX,
        connect_timeout: Duration::MAX,
        max_wait: Duration::MAX,
        loading_timeout: Duration::MAX,
        cancel_grace: Duration::MAX,
        ..RemoteOptions::default()
    };
    assert_eq!(remote(&server, options).answer(b"{}").unwrap(), ANSWER.as_bytes());
}

#[test]
fn a_cancelled_run_brings_what_it_has_though_the_server_hangs() {
    let server = Server::new(vec![Reply::says(200, ANSWER), Reply::Silence]);
    let cancel = Cancel::new();
    let options =
        RemoteOptions { cancel: cancel.clone(), cancel_grace: Duration::from_millis(10), ..RemoteOptions::default() };
    let remote = remote(&server, options);
    let lines = vec![Record::new().noul("q", json!(true), 0.5).line(); 5].join("\n");
    let dataset = Dataset::new(lines.as_bytes(), DatasetOptions::default());
    let options = RunOptions { jobs: 3.try_into().unwrap(), cancel: cancel.clone(), ..RunOptions::default() };
    let before = Instant::now();
    let run = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(dataset, &remote, &options, &|_| {}).unwrap());
        // One is answered, and three wait.
        while server.received().len() < 4 {
            std::thread::yield_now();
        }
        cancel.cancel();
        running.join().unwrap()
    });
    assert!(run.is_cancelled);
    assert_eq!(run.outcomes.len(), 1);
    assert!(before.elapsed() < Duration::from_secs(60), "the time limit is ten minutes");
}

#[test]
fn an_answer_that_is_nearly_there_is_waited_for_though_the_run_is_cancelled() {
    let server = Server::new(vec![Reply::says(200, ANSWER)]);
    let cancel = Cancel::new();
    cancel.cancel();
    let options = RemoteOptions { cancel, ..RemoteOptions::default() };
    assert_eq!(remote(&server, options).answer(b"{}").unwrap(), ANSWER.as_bytes());
}

#[test]
fn a_server_says_which_models_it_has() {
    for (status, body, expected) in [
        (
            200,
            r#"{"object":"list","data":[{"id":"nano","created":5,"meta":{"n_ctx_train":9,"n_params":7,"size":3}}]}"#,
            Some("nano size=3 n_params=7"),
        ),
        (200, r#"{"data":[{"id":"b","created":1},{"id":"a","meta":null}]}"#, Some("a, b")),
        (200, r#"{"models":[{"name":"small"},{"name":"large"}]}"#, Some("large, small")),
        (200, r#"{"data":[],"models":[{"name":"x"}]}"#, Some("x")),
        (200, r#"{"data":[{"name":"no id"}]}"#, None),
        (200, r#"{"data":[]}"#, None),
        (200, "<html>", None),
        (404, r#"{"error":{"message":"no such path"}}"#, None),
        (405, "", None),
        (501, "", None),
    ] {
        let server = Server::new(vec![Reply::says(503, "{}").with("retry-after-ms", "0"), Reply::says(status, body)]);
        let options = RemoteOptions { api_key: Some("sesame".to_owned()), ..RemoteOptions::default() };
        let remote = Remote::new(&format!("{}/prefix", server.address), options).unwrap();
        assert_eq!(remote.model().unwrap().as_deref(), expected, "{body}");
        let received = server.received();
        assert_eq!(received.len(), 2);
        assert_eq!(received[1].line, "GET /prefix/v1/models");
        assert_eq!(received[1].header("authorization"), Some("Bearer sesame"));
    }
    for (status, words) in [(401, "says 401: wrong key"), (500, "says 500: wrong key")] {
        let server = Server::new(vec![Reply::says(status, r#"{"message":"wrong key"}"#)]);
        let error = remote(&server, RemoteOptions::default()).model().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::GaveUp);
        assert!(error.message().ends_with(words), "{error}");
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error =
        Remote::new(&format!("http://127.0.0.1:{port}"), RemoteOptions::default()).unwrap().model().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::GaveUp);
    let mut cause = error.source();
    while let Some(found) = cause {
        assert!(error.message().contains(&found.to_string()), "{error} is caused by {found}");
        cause = found.source();
    }
    // A list of any length is a text of a short one.
    let list = |last: &str| {
        let mut models = vec![json!({"id": "x".repeat(100)}); 50];
        models.push(json!({"id": last}));
        let server = Server::new(vec![Reply::says(200, json!({"data": models}).to_string())]);
        remote(&server, RemoteOptions::default()).model().unwrap().unwrap()
    };
    assert!(list("a").starts_with("51 models ") && list("a").len() < 64, "{}", list("a"));
    assert_eq!(list("a"), list("a"));
    assert_ne!(list("a"), list("b"));
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
    assert!(error.message().ends_with("/v1/systemone: no answer within 0.05 s"), "{error}");
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_server_that_is_not_there_or_hangs_up_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let gone = Remote::new(&format!("http://127.0.0.1:{port}"), RemoteOptions::default()).unwrap();
    let error = gone.answer(b"{}").unwrap_err();
    assert_eq!(error.kind(), AnswerErrorKind::Unreachable);
    let expected = format!("http://127.0.0.1:{port}/v1/systemone: ");
    assert!(error.message().starts_with(&expected) && !error.message().contains("io:"), "{error}");
    assert_eq!(failure(Reply::Hangup, RemoteOptions::default()).kind(), AnswerErrorKind::Unreachable);
}

#[test]
fn a_response_beyond_the_limit_is_not_read() {
    let options = RemoteOptions { max_response_bytes: 1_000, ..RemoteOptions::default() };
    let error = failure(Reply::says(200, vec![b' '; 2_000]), options);
    assert_eq!(error.kind(), AnswerErrorKind::Unreadable);
    assert!(error.message().ends_with(": the answer has more than 1,000 bytes"), "{error}");
}

#[test]
fn servers_are_waited_for_as_long_as_documented() {
    let options = RemoteOptions::default();
    let seconds = [options.connect_timeout, options.timeout, options.loading_timeout].map(|limit| limit.as_secs());
    assert_eq!((seconds, options.retries), ([10, 600, 600], 8));
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
