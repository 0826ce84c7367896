//! What clients get wrong, and how they are told: faults.md, *Inputs and rendering*, as far as the service is concerned.

use clef_http::{ServerConfig, ValidationStatus};

use crate::fake::Gate;
use crate::support::{BODY, Running, config, eventually, get, model, request};

fn with_questions(questions: &str) -> String {
    format!(r#"{{"state":"x","questions":{questions}}}"#)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_json_is_refused_with_its_position() {
    let server = Running::start(config()).await;
    let bodies: [&[u8]; 14] = [
        b"",
        b" ",
        b"{",
        b"{:",
        b"{\"model\": \"jev-latest\", \"state\": \"x\", \"questions\": {",
        b"nonsense",
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf{}",
        b"{\"state\":\"\xff\"}",
        b"{\"state\":\"\0\"}",
        b"\0",
        b"{\"state\":\"\\ud800\"}",
        b"{\"state\":1,}",
        b"{}{}",
    ];
    for body in bodies {
        let answer = server.decide(body, &[]).await;
        assert_eq!(answer.error(422), "unprocessable_entity_error", "{body:?}");
        assert_eq!(answer.slug(422), "json_invalid", "{body:?}");
        let json = answer.json();
        assert!(json["detail"][0]["loc"][1].is_u64(), "{json}");
        assert!(json["error"]["message"].as_str().unwrap().contains("line 1"), "{json}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_invalid_is_refused_by_question_and_field() {
    let server = Running::start(config()).await;
    let levels = |count| format!(r#"{{"q":{{"type":"score","criteria":{:?}}}}}"#, vec!["l"; count]);
    for (body, place) in [
        ("[]".to_owned(), vec![]),
        (r#"{"questions":{"q":{"type":"noul"}}}"#.to_owned(), vec!["state"]),
        (r#"{"state":null,"questions":{"q":{"type":"noul"}}}"#.to_owned(), vec!["state"]),
        (r#"{"state":"x"}"#.to_owned(), vec!["questions"]),
        (with_questions("{}"), vec!["questions"]),
        (with_questions("[]"), vec!["questions"]),
        (with_questions(r#"{"q1":{}}"#), vec!["questions", "q1", "type"]),
        (with_questions(r#"{"q1":{"type":"Noul"}}"#), vec!["questions", "q1", "type"]),
        (with_questions(r#"{"q1":{"type":"box"}}"#), vec!["questions", "q1", "type"]),
        (with_questions(r#"{"q1":{"type":"choice","criteria":{}}}"#), vec!["questions", "q1", "criteria"]),
        (with_questions(r#"{"q1":{"type":"score","criteria":{"0":"a"}}}"#), vec!["questions", "q1", "criteria"]),
        (with_questions(&levels(1)), vec!["questions", "q", "criteria"]),
        (with_questions(&levels(11)), vec!["questions", "q", "criteria"]),
        (with_questions(r#"{"q1":{"type":"noul"},"q1":{"type":"noul"}}"#), vec!["questions", "q1"]),
        (with_questions(r#"{"q1":{"type":"noul","options":[]}}"#), vec!["questions", "q1", "options"]),
        (r#"{"states":"x"}"#.to_owned(), vec!["states"]),
    ] {
        let answer = server.decide(&body, &[]).await;
        assert_eq!(answer.error(422), "unprocessable_entity_error", "{body}");
        let json = answer.json();
        let loc: Vec<&str> =
            json["detail"][0]["loc"].as_array().unwrap().iter().filter_map(|step| step.as_str()).collect();
        assert_eq!(loc[1..], place, "{body}: {json}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_is_small_whatever_was_sent() {
    let server = Running::start(config()).await;
    for name in ["a", "\\\"", "\\u0000", "é", "😀", "\\ud83d\\ude00", "\\\\"] {
        let long = name.repeat(1_300);
        for body in [
            with_questions(&format!(r#"{{"{long}":{{"type":"{long}"}}}}"#)),
            with_questions(&format!(r#"{{"{long}":{{"type":"choice","criteria":{{"{long}":1,"{long}":2}}}}}}"#)),
            format!(r#"{{"{long}":1,"{long}":2}}"#),
            format!(r#"{{"state":1,"questions":{{"q":{{"type":"noul"}}}},"truncate":"{long}"}}"#),
            format!(r#"{{"state":"{long}"#),
            format!("\"{long}\""),
        ] {
            server.decide(&body, &[]).await.error(422);
        }
    }
    let path = format!("/{}", "x".repeat(20_000));
    server.ask(get(&path)).await.error(404);
    server.decide(BODY, &[("Content-Encoding", &"x".repeat(20_000))]).await.error(415);
    let form = format!("multipart/form-data; boundary={}", "x".repeat(20_000));
    server.decide(BODY, &[("Content-Type", &form)]).await.error(422);
    server
        .ask(request("POST", "/tokenize", &[], format!("{{\"content\":{{\"{}\":1}}}}", "x".repeat(20_000))))
        .await
        .error(422);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depth_never_hurts() {
    let server = Running::start(config()).await;
    for depth in [40, 500, 5_000, 1_000_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let nested = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            for body in [
                format!(r#"{{"state":{nested},"questions":{{"q":{{"type":"noul"}}}}}}"#),
                with_questions(&format!(r#"{{"q":{{"type":"noul","instructions":{nested}}}}}"#)),
                with_questions(&format!(r#"{{"q":{{"type":"choice","criteria":{{"a":{nested}}}}}}}"#)),
            ] {
                let answer = server.decide(&body, &[]).await;
                assert!(matches!(answer.status, 200 | 422), "{depth} {open}: {answer:?}");
            }
        }
    }
    server.assert_fine().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_over_the_context_is_refused_with_both_numbers() {
    let mut served = model(8, None);
    served.engine = clef_engine::Engine::start(
        crate::fake::FakeEncoder { limit: 10 },
        crate::fake::FakeModel::default(),
        &clef_engine::EngineConfig::default(),
    )
    .unwrap();
    let server = Running::with(config(), served).await;
    let answer = server.decide(BODY.replace("\"x\"", "\"0123456789a\""), &[]).await;
    assert_eq!(answer.error(422), "exceed_context_size_error");
    let json = answer.json();
    assert_eq!((&json["error"]["n_prompt_tokens"], &json["error"]["n_ctx"]), (&11.into(), &10.into()));
    server.assert_fine().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_of_invalid_bodies_can_be_llama_servers() {
    let server = Running::start(ServerConfig { validation_status: ValidationStatus::BadRequest, ..config() }).await;
    for body in ["{", "{}", ""] {
        assert_eq!(server.decide(body, &[]).await.error(400), "invalid_request_error");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_the_model_are_no_answers() {
    let server = Running::start(config()).await;
    for state in ["fail", "nan", "panic"] {
        let answer = server.decide(BODY.replace("\"x\"", &format!("\"{state}\"")), &[]).await;
        assert_eq!(answer.error(500), "server_error", "{state}");
        assert!(answer.json().get("answers").is_none());
        server.assert_fine().await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_says_when_to_come_again_and_never_to_a_bad_body() {
    let gate = Gate::default();
    let served = model(2, Some(gate.clone()));
    let engine = served.engine.clone();
    let server = Running::with(ServerConfig { metrics: true, ..config() }, served).await;
    let mut waiting = Vec::new();
    for state in ["x", "y"] {
        let mut client = server.connect().await;
        client.send(crate::support::decision(BODY.replace("\"x\"", &format!("\"{state}\"")))).await;
        waiting.push(client);
    }
    eventually("admission", || engine.statistics().in_flight == 2 && engine.statistics().running == 1).await;
    let refused = server.decide(BODY, &[]).await;
    assert_eq!(refused.error(429), "rate_limit_error");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    let milliseconds: u64 = refused.header("retry-after-ms").unwrap().parse().unwrap();
    assert!(milliseconds > 0 && milliseconds.div_ceil(1_000) == seconds, "{refused:?}");
    for bad in ["", "{", "{}", "[]", r#"{"state":1,"questions":{"q":{"type":"box"}}}"#] {
        server.decide(bad, &[]).await.error(422);
    }
    // Everything else answers as ever.
    for path in ["/health", "/v1/models", "/slots", "/metrics"] {
        let asked = std::time::Instant::now();
        assert_eq!(server.ask(get(path)).await.status, 200, "{path}");
        assert!(asked.elapsed() < std::time::Duration::from_millis(500), "{path}");
    }
    let busy = server.ask(get("/slots")).await.json();
    assert_eq!((&busy[0]["is_processing"], &busy[0]["n_prompt_tokens"]), (&true.into(), &10.into()));
    server.ask(get("/slots?fail_on_no_slot=1")).await.error(503);
    gate.open();
    for client in &mut waiting {
        assert_eq!(client.answer().await.status, 200);
    }
    server.assert_fine().await;
    assert_eq!(server.ask(get("/slots?fail_on_no_slot=1")).await.status, 200);
    server.stop().await;
}
