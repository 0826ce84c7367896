//! The other endpoints.

use std::sync::{Arc, Condvar, Mutex};

use clef_http::ServerConfig;
use serde_json::json;

use crate::support::{BODY, Running, config, eventually, get, model, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_short() {
    let server = Running::start(config()).await;
    for path in ["/health", "/v1/health"] {
        assert_eq!(server.ask(get(path)).await.text(), r#"{"status":"ok"}"#);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_listed_for_all_kinds_of_clients() {
    let server = Running::start(config()).await;
    for path in ["/v1/models", "/models"] {
        let list = server.ask(get(path)).await.json();
        assert_eq!(list["object"], "list");
        let data = &list["data"][0];
        assert_eq!(data["id"], "fake");
        assert_eq!(data["architecture"], json!({"input_modalities": ["text"], "output_modalities": ["decisions"]}));
        assert_eq!(
            data["meta"],
            json!({"vocab_type": 2, "n_vocab": 257, "n_ctx": 16384, "n_ctx_train": 1, "n_embd": 2, "n_params": 3, "size": 4})
        );
        let model = &list["models"][0];
        for field in ["name", "description", "release_date"] {
            assert!(model[field].as_str().is_some_and(|text| !text.is_empty()), "{model}");
        }
        assert_eq!(model["capabilities"], json!(["decisions"]));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn properties_are_shown() {
    let server = Running::start(config()).await;
    let props = server.ask(get("/props")).await.json();
    assert_eq!(props["default_generation_settings"]["n_ctx"], 16_384);
    assert_eq!((&props["total_slots"], &props["model_path"]), (&1.into(), &"/models/fake.gguf".into()));
    assert_eq!(props["modalities"]["vision"], false);
    assert_eq!(props["build_info"], "b11434-fake");
    server.ask(request("POST", "/props", &[], "{}")).await.error(501);
    server.stop().await;
    let server = Running::start(ServerConfig { props: true, ..config() }).await;
    assert_eq!(server.ask(request("POST", "/props", &[], "{}")).await.text(), r#"{"success":true}"#);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_switched_off_says_so() {
    let server = Running::start(ServerConfig { slots: false, metrics: false, ..config() }).await;
    for (path, flag) in [("/slots", "--slots"), ("/metrics", "--metrics")] {
        let answer = server.ask(get(path)).await;
        assert_eq!(answer.error(501), "not_supported_error");
        assert!(answer.text().contains(flag), "{}", answer.text());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_shown() {
    let server = Running::start(config()).await;
    let slots = server.ask(get("/slots")).await.json();
    let expected = json!([{
        "id": 0, "n_ctx": 16_384, "speculative": false, "is_processing": false, "n_prompt_tokens": 0,
        "n_prompt_tokens_processed": 0, "n_prompt_tokens_cache": 0, "held_states": []
    }]);
    assert_eq!(slots, expected);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_valid_prometheus_text_and_count() {
    let server = Running::start(ServerConfig { metrics: true, ..config() }).await;
    for _ in 0..3 {
        assert_eq!(server.decide(BODY, &[]).await.status, 200);
    }
    server.decide("{", &[]).await.error(422);
    server.ask(get("/a-path-of-a-user")).await;
    let answer = server.ask(get("/metrics")).await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.text();
    let mut declared = std::collections::HashMap::new();
    let mut seen = std::collections::HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(declared.insert(name, kind).is_none(), "{name} is declared twice");
            assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert!(seen.insert(series), "{series} stands twice");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
                name.strip_suffix(suffix).filter(|family| declared.get(family) == Some(&"histogram"))
            });
            let kind = declared.get(family.unwrap_or(name)).unwrap_or_else(|| panic!("{name} is not declared"));
            assert_eq!(*kind == "counter", name.ends_with("_total") || name == "llamacpp:n_tokens_max", "{name}");
            assert!(name.starts_with("llamacpp:") || name.starts_with("clef:"), "{name}");
        }
    }
    for line in [
        "llamacpp:prompt_tokens_total 30",
        "llamacpp:n_tokens_max 10",
        "llamacpp:requests_processing 0",
        "llamacpp:requests_deferred 0",
        "clef:requests_total{endpoint=\"/v1/systemone\",status=\"200\"} 3",
        "clef:requests_total{endpoint=\"/v1/systemone\",status=\"422\"} 1",
        "clef:engine_up 1",
        "clef:request_seconds_count 3",
        "clef:queue_seconds_bucket{le=\"+Inf\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    for name in ["request", "queue", "encode", "media", "backbone", "head"] {
        assert_eq!(declared.get(format!("clef:{name}_seconds").as_str()), Some(&"histogram"), "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_become_tokens_and_back() {
    let server = Running::start(config()).await;
    let post = async |path: &str, body: serde_json::Value| {
        server.ask(request("POST", path, &[], body.to_string())).await.json()
    };
    assert_eq!(post("/tokenize", json!({"content": "aé"})).await, json!({"tokens": [97, 195, 169]}));
    assert_eq!(post("/tokenize", json!({"content": "a", "add_special": true})).await, json!({"tokens": [256, 97]}));
    assert_eq!(post("/tokenize", json!({"content": ""})).await, json!({"tokens": []}));
    assert_eq!(post("/tokenize", json!({"content": [97, "b", 99], "other": 1})).await, json!({"tokens": [97, 98, 99]}));
    assert_eq!(
        post("/tokenize", json!({"content": "aé", "with_pieces": true})).await,
        json!({"tokens": [{"id": 97, "piece": "a"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}]})
    );
    assert_eq!(post("/detokenize", json!({"tokens": [97, 195, 169]})).await, json!({"content": "aé"}));
    assert_eq!(post("/detokenize", json!({"tokens": []})).await, json!({"content": ""}));
    // What is not there is empty, as in llama-server.
    assert_eq!(post("/tokenize", json!({})).await, json!({"tokens": []}));
    assert_eq!(post("/tokenize", json!({"with_pieces": true})).await, json!({"tokens": []}));
    assert_eq!(post("/detokenize", json!({})).await, json!({"content": ""}));
    for (path, body) in [
        ("/tokenize", "[]"),
        ("/tokenize", r#"["a",false,true,false]"#),
        ("/tokenize", r#""a""#),
        ("/tokenize", "1"),
        ("/tokenize", "null"),
        ("/tokenize", r#"{"content":null}"#),
        ("/tokenize", r#"{"content":1}"#),
        ("/tokenize", r#"{"content":"a","add_special":1}"#),
        ("/tokenize", r#"{"content":["a",257]}"#),
        ("/tokenize", r#"{"content":[-1,"a"]}"#),
        ("/tokenize", r#"{"content":[99999999999]}"#),
        ("/tokenize", r#"{"content":[-99999999999]}"#),
        ("/tokenize", r#"{"content":[99999999999999999999]}"#),
        ("/tokenize", r#"{"content":["a",["b"]]}"#),
        ("/tokenize", r#"{"content":[true]}"#),
        ("/tokenize", r#"{"content":"a","content":"b"}"#),
        ("/detokenize", "[]"),
        ("/detokenize", "[[97]]"),
        ("/detokenize", r#"{"tokens":["a"]}"#),
        ("/detokenize", r#"{"tokens":[1.5]}"#),
        ("/detokenize", r#"{"tokens":null}"#),
        ("/tokenize", "{"),
        ("/tokenize", ""),
        ("/tokenize", r#"{"content":{}}"#),
        ("/tokenize", r#"{"content":[1.5]}"#),
        ("/tokenize", r#"{"content":[900],"with_pieces":true}"#),
        ("/detokenize", r#"{"tokens":"x"}"#),
        ("/detokenize", r#"{"tokens":[900]}"#),
        ("/detokenize", r#"{"tokens":[-1]}"#),
        ("/detokenize", r#"{"tokens":[99999999999]}"#),
    ] {
        let answer = server.ask(request("POST", path, &[], body)).await;
        assert_eq!(answer.error(422), "unprocessable_entity_error", "{path} {body}");
        for word in ["struct", "enum", "variant", "Request", "Item", "i32", "i64", "u64"] {
            assert!(!answer.text().contains(word), "{path} {body}: {}", answer.text());
        }
    }
    let answer = server.ask(request("POST", "/tokenize", &[], r#"{"content":["a",900]}"#)).await;
    let problem = &answer.json()["detail"][0];
    assert_eq!(problem["loc"], json!(["body", "content", 1]));
    assert_eq!(problem["msg"], "the vocabulary has no token 900");
    server.ask(request("POST", "/tokenize", &[], "[".repeat(100_000))).await.error(422);
    server.stop().await;

    let silent = clef_http::Model { text: None, ..model(8, None) };
    let server = Running::with(config(), silent).await;
    server.ask(request("POST", "/tokenize", &[], r#"{"content":"a"}"#)).await.error(501);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_to_tokenize_are_bounded() {
    let server = Running::start(config()).await;
    let body = |length: usize| format!(r#"{{"content":"{}"}}"#, " ".repeat(length - 14));
    let ids = |length: usize| format!(r#"{{"tokens":[{}]}}"#, " ".repeat(length - 13));
    for (path, fits, is_over) in
        [("/tokenize", body(1 << 20), body((1 << 20) + 1)), ("/detokenize", ids(1 << 20), ids((1 << 20) + 1))]
    {
        assert_eq!(server.ask(request("POST", path, &[], fits)).await.status, 200, "{path}");
        let answer = server.ask(request("POST", path, &[], is_over)).await;
        assert_eq!(answer.error(413), "request_too_large_error", "{path}");
    }
    server.stop().await;
}

/// A vocabulary that takes its time, and counts who is in it.
#[derive(Debug, Default)]
struct Slow {
    state: Mutex<(usize, usize, bool)>,
    opened: Condvar,
}

impl clef_http::Text for Slow {
    fn tokenize(&self, _: &str, _: clef_http::TokenizeOptions) -> Result<Vec<clef_record::TokenId>, String> {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        state.1 = state.1.max(state.0);
        state = self.opened.wait_while(state, |state| !state.2).unwrap();
        state.0 -= 1;
        Ok(Vec::new())
    }

    fn piece(&self, _: clef_record::TokenId) -> Option<Vec<u8>> {
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_texts_are_tokenized_at_once_and_others_wait() {
    let slow = Arc::new(Slow::default());
    let text: Arc<dyn clef_http::Text> = slow.clone();
    let server = Running::with(config(), clef_http::Model { text: Some(text), ..model(8, None) }).await;
    let send = async || {
        let mut client = server.connect().await;
        client.send(request("POST", "/tokenize", &[], r#"{"content":"a"}"#)).await;
        client
    };
    // Work goes on when its client has gone, and counts as long as it does.
    let gone = [send().await, send().await];
    eventually("two texts being tokenized", || slow.state.lock().unwrap().0 == 2).await;
    drop(gone);
    let mut waiting = Vec::new();
    for _ in 0..6 {
        waiting.push(send().await);
    }
    server.assert_fine().await;
    // Opened before anything is asserted: a thread that waits would keep a failed test from ending.
    slow.state.lock().unwrap().2 = true;
    slow.opened.notify_all();
    for mut client in waiting {
        assert_eq!(client.answer().await.status, 200);
    }
    assert_eq!(slow.state.lock().unwrap().1, 2);
    server.stop().await;
}

/// A vocabulary that fails in every way.
#[derive(Debug)]
struct Broken;

impl clef_http::Text for Broken {
    fn tokenize(&self, _: &str, _: clef_http::TokenizeOptions) -> Result<Vec<clef_record::TokenId>, String> {
        Err("told to".to_owned())
    }

    fn piece(&self, _: clef_record::TokenId) -> Option<Vec<u8>> {
        panic!("told to")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_costs_one_request() {
    let broken = clef_http::Model { text: Some(std::sync::Arc::new(Broken)), ..model(8, None) };
    let server = Running::with(config(), broken).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client.send(request("POST", "/tokenize", &[], r#"{"content":"a"}"#)).await;
        assert_eq!(client.answer().await.error(500), "server_error");
        client.send(request("POST", "/detokenize", &[], r#"{"tokens":[1]}"#)).await;
        assert_eq!(client.answer().await.error(500), "server_error");
        client.send(crate::support::decision(BODY)).await;
        assert_eq!(client.answer().await.status, 200);
    }
    server.stop().await;
}
